package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bucket"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Store is a bucket of sessions:
//
//	v1/<project>/<benchmark>/<class>/<yyyy>/<mm>/<time>-<commit>-<hash>.json.zst
//
// An object never changes, and its name contains the hash of its text. A repeated Add changes nothing, and writers
// need no lock.
type Store struct {
	bucket bucket.Bucket
	// cache is the folder of the read cache, "" for none.
	cache      string
	compressor func() (*zstd.Encoder, error)
}

// NewStore opens the store in a bucket. cache is a folder of this user, "" for none.
func NewStore(b bucket.Bucket, cache string) *Store {
	return &Store{bucket: b, cache: cache, compressor: sync.OnceValues(bucket.NewCompressor)}
}

// compress compresses with zstd.
func (s *Store) compress(text []byte) ([]byte, error) {
	z, err := s.compressor()
	if err != nil {
		return nil, err
	}
	return z.EncodeAll(text, nil), nil
}

// String returns the store's name as the user gave it.
func (s *Store) String() string { return s.bucket.String() }

// IsStore reports whether a folder holds a series of sessions.
func IsStore(dir string) bool {
	return len(outside.Dir(dir).Glob(path.Join(root, "*", "*", "*"))) > 0
}

// Added is the outcome of adding one result.
type Added struct {
	Name  string // of the object
	Known bool   // it existed already
}

// Add writes one session, unless it exists.
func (s *Store) Add(ctx context.Context, session *Session) (Added, error) {
	name, text, err := session.encode()
	if err != nil {
		return Added{}, err
	}
	if f, is := s.bucket.(*bucket.Folder); is {
		f.Sweep(path.Dir(name))
		f.Sweep(session.seriesFolder())
	}
	if there, err := s.readText(ctx, name); err == nil && bytes.Equal(there, text) {
		return Added{Name: name, Known: true}, nil
	}
	if err := s.addClass(ctx, session); err != nil {
		return Added{}, err
	}
	packed, err := s.compress(text)
	if err != nil {
		return Added{}, err
	}
	return Added{Name: name}, s.bucket.Put(ctx, name, packed)
}

// addClass writes the class document next to the sessions of a class.
func (s *Store) addClass(ctx context.Context, session *Session) error {
	name := path.Join(session.seriesFolder(), classFile)
	text, err := json.MarshalIndent(session.buildClass(), "", " ")
	if err != nil {
		return fmt.Errorf("encoding a class: %w", err)
	}
	if there, err := s.bucket.Get(ctx, name); err == nil && bytes.Equal(there, text) {
		return nil
	}
	return s.bucket.Put(ctx, name, text)
}

// readText returns the decompressed text of an object; fs.ErrNotExist if there is none.
func (s *Store) readText(ctx context.Context, name string) ([]byte, error) {
	return bucket.Text(ctx, s.bucket, name, "add its result again")
}

// sessionRef is a session as described by its name.
type sessionRef struct {
	name                      string
	project, benchmark, class string // as folders
	at                        time.Time
	commit                    string // the first twelve digits, or "unknown"
	hash                      string
	pack                      string // the pack that contains it, "" for its own object
}

// series returns the folder of the session's series.
func (r *sessionRef) series() string { return path.Join(root, r.project, r.benchmark, r.class) }

// parseRef parses the name of an object; ok is false if it is no session.
func parseRef(name string) (r sessionRef, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 7 || parts[0] != root {
		return r, false
	}
	base, is := strings.CutSuffix(parts[6], objectExt)
	words := strings.Split(base, "-")
	if !is || len(words) != 3 {
		return r, false
	}
	at, err := time.Parse(timeInName, words[0])
	if err != nil {
		return r, false
	}
	return sessionRef{name: name, project: parts[1], benchmark: parts[2], class: parts[3], at: at, commit: words[1], hash: words[2]}, true
}

// Skipped is an object that was not used, with the reason.
type Skipped struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// index lists the contents of a store.
type index struct {
	refs  []sessionRef // each session once
	packs []string     // objects
	loose map[string]bool
	// benchmarks has the names of all benchmarks, regardless of the filter.
	benchmarks map[string]bool
	skipped    []Skipped
}

// Filter selects sessions; the zero value selects all.
type Filter struct {
	Project, Benchmark, Class string // "" for any; Class may be a prefix
}

func (f Filter) matchesRef(r *sessionRef) bool {
	is := func(want, has string) bool { return want == "" || baseline.Slug(want) == has }
	return is(f.Project, r.project) && is(f.Benchmark, r.benchmark) && strings.HasPrefix(r.class, f.Class)
}

// list returns every session of the store that matches the filter.
func (s *Store) list(ctx context.Context, f Filter, caches *caches) (*index, error) {
	names, err := s.bucket.List(ctx, "")
	if err != nil {
		return nil, err
	}
	out := &index{loose: map[string]bool{}, benchmarks: map[string]bool{}}
	seen := map[string]bool{} // series and hash
	add := func(r sessionRef) {
		out.benchmarks[r.benchmark] = true
		key := r.series() + " " + r.hash
		if f.matchesRef(&r) && !seen[key] {
			seen[key] = true
			out.refs = append(out.refs, r)
		}
	}
	newer := map[string]int{}
	var packs []string
	var loose []sessionRef
	for _, n := range names {
		version, _, _ := strings.Cut(n, "/")
		switch r, ok := parseRef(n); {
		case ok:
			out.loose[n] = true
			loose = append(loose, r)
		case version != root && gpuprof.MajorOf(strings.TrimPrefix(version, top)) > 1 && strings.HasPrefix(version, top):
			newer[version]++
		case isPack(n):
			packs = append(packs, n)
		}
	}
	if err := out.refuseNewer(s.String(), newer); err != nil {
		return nil, err
	}
	slices.Sort(packs)
	for _, p := range packs {
		s.listPack(ctx, p, f, caches, out, add)
	}
	for _, r := range loose { // last, so that the pack of a packed session comes first
		add(r)
	}
	slices.SortFunc(out.refs, func(a, b sessionRef) int { return cmp.Compare(a.name, b.name) })
	return out, nil
}

// listPack adds the sessions of a pack, if it can contain a matching one.
func (s *Store) listPack(ctx context.Context, pack string, f Filter, caches *caches, out *index, add func(sessionRef)) {
	parts := strings.Split(pack, "/")
	of := sessionRef{project: parts[1], benchmark: parts[2], class: parts[3]}
	out.benchmarks[of.benchmark] = true
	if !f.matchesRef(&of) {
		return
	}
	out.packs = append(out.packs, pack)
	cache := caches.openSeries(of.series())
	held, known := cache.Packs[path.Base(pack)]
	if !known {
		var err error
		if held, _, err = s.readPack(ctx, pack); err != nil {
			out.skipped = append(out.skipped, Skipped{pack, reasonText(err)})
			return
		}
		cache.keepPack(path.Base(pack), held)
	}
	for _, n := range held {
		if r, ok := parseRef(n); ok && r.series() == of.series() {
			r.pack = pack
			add(r)
		}
	}
}

// refuseNewer returns an error for a store with objects of a newer layout only.
func (x *index) refuseNewer(store string, newer map[string]int) error {
	for version, n := range newer {
		if len(x.loose) == 0 {
			return gpuprof.Errorf(gpuprof.ErrInput, "reading the store %s: its layout is %s and this gpuprof reads %s", store, version, root).WithFix("update gpuprof")
		}
		x.skipped = append(x.skipped, Skipped{version, fmt.Sprintf("%d objects of a newer layout; update gpuprof to read them", n)})
	}
	return nil
}

// reasonText returns an error's reason as a clause, without the object's name in front.
func reasonText(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "it is gone"
	}
	reason, _ := gpuprof.FixOf(err)
	if _, rest, ok := strings.Cut(reason, objectExt+": "); ok {
		reason = rest
	}
	return document.CleanText(reason)
}
