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
)

// Store is a bucket of sessions:
//
//	v1/<project>/<benchmark>/<class>/<yyyy>/<mm>/<time>-<commit>-<hash>.json.zst
//
// An object never changes, and its name holds the hash of what it holds: adding
// twice changes nothing, and writers need no lock.
type Store struct {
	bucket bucket.Bucket
	// cache is a folder for what was read once, "" for none.
	cache      string
	compressor func() (*zstd.Encoder, error)
}

// NewStore is the store in a bucket. cache is a folder of this user's, "" for none.
func NewStore(b bucket.Bucket, cache string) *Store {
	return &Store{bucket: b, cache: cache, compressor: sync.OnceValues(bucket.NewCompressor)}
}

// compress is zstd.
func (s *Store) compress(text []byte) ([]byte, error) {
	z, err := s.compressor()
	if err != nil {
		return nil, err
	}
	return z.EncodeAll(text, nil), nil
}

// String is the store as the user named it.
func (s *Store) String() string { return s.bucket.String() }

// Added says what became of one result.
type Added struct {
	Name  string // of the object
	Known bool   // it was there already
}

// Add writes one session, unless it is there.
func (s *Store) Add(ctx context.Context, session *Session) (Added, error) {
	name, text, err := session.encode()
	if err != nil {
		return Added{}, err
	}
	if f, is := s.bucket.(*bucket.Folder); is {
		f.Sweep(path.Dir(name))
		f.Sweep(session.folder())
	}
	if there, err := s.text(ctx, name); err == nil && bytes.Equal(there, text) {
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

// addClass says beside the sessions of a class what they have in common.
func (s *Store) addClass(ctx context.Context, session *Session) error {
	name := path.Join(session.folder(), classFile)
	text, err := json.MarshalIndent(session.class(), "", " ")
	if err != nil {
		return fmt.Errorf("encoding a class: %w", err)
	}
	if there, err := s.bucket.Get(ctx, name); err == nil && bytes.Equal(there, text) {
		return nil
	}
	return s.bucket.Put(ctx, name, text)
}

// text is what an object holds, unfolded; fs.ErrNotExist where there is none.
func (s *Store) text(ctx context.Context, name string) ([]byte, error) {
	return bucket.Text(ctx, s.bucket, name, "add its result again")
}

// ref is a session as its name describes it.
type ref struct {
	name                      string
	project, benchmark, class string // as folders
	at                        time.Time
	commit                    string // its first twelve digits, or "unknown"
	hash                      string
	pack                      string // the object that holds it, "" its own
}

// series is the folder of the session's series.
func (r *ref) series() string { return path.Join(root, r.project, r.benchmark, r.class) }

// refOf reads the name of an object; ok is false where it is no session's.
func refOf(name string) (r ref, ok bool) {
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
	return ref{name: name, project: parts[1], benchmark: parts[2], class: parts[3], at: at, commit: words[1], hash: words[2]}, true
}

// Skipped is an object that was not used, and why.
type Skipped struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// index is what a store holds, by name.
type index struct {
	refs  []ref    // each session once
	packs []string // objects
	loose map[string]bool
	// benchmarks are the names of all, whatever the filter takes.
	benchmarks map[string]bool
	skipped    []Skipped
}

// Filter narrows what is read; the zero value is everything.
type Filter struct {
	Project, Benchmark, Class string // "" any; of a class the first digits do
}

func (f Filter) takes(r *ref) bool {
	is := func(want, has string) bool { return want == "" || baseline.Slug(want) == has }
	return is(f.Project, r.project) && is(f.Benchmark, r.benchmark) && strings.HasPrefix(r.class, f.Class)
}

// list names every session of the store that the filter takes.
func (s *Store) list(ctx context.Context, f Filter, caches *caches) (*index, error) {
	names, err := s.bucket.List(ctx, "")
	if err != nil {
		return nil, err
	}
	out := &index{loose: map[string]bool{}, benchmarks: map[string]bool{}}
	seen := map[string]bool{} // series and hash
	add := func(r ref) {
		out.benchmarks[r.benchmark] = true
		key := r.series() + " " + r.hash
		if f.takes(&r) && !seen[key] {
			seen[key] = true
			out.refs = append(out.refs, r)
		}
	}
	newer := map[string]int{}
	var packs []string
	var loose []ref
	for _, n := range names {
		version, _, _ := strings.Cut(n, "/")
		switch r, ok := refOf(n); {
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
	for _, r := range loose { // last, so that what a pack holds too is read from there
		add(r)
	}
	slices.SortFunc(out.refs, func(a, b ref) int { return cmp.Compare(a.name, b.name) })
	return out, nil
}

// listPack names the sessions of a pack, if it can hold any that is wanted.
func (s *Store) listPack(ctx context.Context, pack string, f Filter, caches *caches, out *index, add func(ref)) {
	parts := strings.Split(pack, "/")
	of := ref{project: parts[1], benchmark: parts[2], class: parts[3]}
	out.benchmarks[of.benchmark] = true
	if !f.takes(&of) {
		return
	}
	out.packs = append(out.packs, pack)
	cache := caches.of(of.series())
	held, known := cache.Packs[path.Base(pack)]
	if !known {
		var err error
		if held, _, err = s.readPack(ctx, pack); err != nil {
			out.skipped = append(out.skipped, Skipped{pack, why(err)})
			return
		}
		cache.keepPack(path.Base(pack), held)
	}
	for _, n := range held {
		if r, ok := refOf(n); ok && r.series() == of.series() {
			r.pack = pack
			add(r)
		}
	}
}

// refuseNewer refuses a store that only a newer gpuprof has written to.
func (x *index) refuseNewer(store string, newer map[string]int) error {
	for version, n := range newer {
		if len(x.loose) == 0 {
			return gpuprof.Errorf(gpuprof.ErrInput, "reading the store %s: its layout is %s and this gpuprof reads %s", store, version, root).WithFix("update gpuprof")
		}
		x.skipped = append(x.skipped, Skipped{version, fmt.Sprintf("%d objects of a newer layout; update gpuprof to read them", n)})
	}
	return nil
}

// why is an error in a clause, without the name that stands before it.
func why(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "it is gone"
	}
	reason, _ := gpuprof.FixOf(err)
	if _, rest, ok := strings.Cut(reason, objectExt+": "); ok {
		reason = rest
	}
	return document.CleanText(reason)
}
