package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
// Objects never change and have their hash in the name: repeating an Add changes nothing, writers need no lock.
type Store struct {
	bucket bucket.Bucket
	// cache is the folder of the read cache; "" for none.
	cache      string
	compressor func() (*zstd.Encoder, error)
}

// NewStore opens the store in a bucket. cache is the user's folder for the read cache; "" for none.
func NewStore(b bucket.Bucket, cache string) *Store {
	return &Store{bucket: b, cache: cache, compressor: sync.OnceValues(bucket.NewCompressor)}
}

func (s *Store) compress(text []byte) ([]byte, error) {
	z, err := s.compressor()
	if err != nil {
		return nil, err
	}
	return z.EncodeAll(text, nil), nil
}

// String returns the store's name as the user gave it.
func (s *Store) String() string { return s.bucket.String() }

// IsStore reports whether a folder holds a store: at least one series of sessions.
func IsStore(dir string) bool {
	return len(outside.Dir(dir).Glob(path.Join(root, "*", "*", "*"))) > 0
}

// Added is the result of adding one session.
type Added struct {
	Name  string // of the object
	Known bool   // the object existed
}

// Add writes a session, if the store does not have it.
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

// readText returns the decompressed text of an object; fs.ErrNotExist without one.
func (s *Store) readText(ctx context.Context, name string) ([]byte, error) {
	return bucket.Text(ctx, s.bucket, name, "add its result again")
}

// sessionRef is the name of a session's object in the bucket, split into its parts; see parseRef.
type sessionRef struct {
	name                      string
	project, benchmark, class string // as folders
	at                        time.Time
	commit                    string // the first twelve digits, or "unknown"
	hash                      string
}

func (r *sessionRef) series() string { return path.Join(root, r.project, r.benchmark, r.class) }

// parseRef parses an object's name; ok is false if the object is no session.
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

// Skipped is an unused object with the reason.
type Skipped struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

type index struct {
	refs []sessionRef // distinct sessions
	// benchmarks has the names of all benchmarks, also of those that the filter excludes.
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
func (s *Store) list(ctx context.Context, f Filter) (*index, error) {
	names, err := s.bucket.List(ctx, "")
	if err != nil {
		return nil, err
	}
	out := &index{benchmarks: map[string]bool{}}
	seen := map[string]bool{} // series and hash
	newer, readable := map[string]int{}, false
	for _, n := range names {
		version, _, _ := strings.Cut(n, "/")
		switch r, ok := parseRef(n); {
		case ok:
			readable, out.benchmarks[r.benchmark] = true, true
			key := r.series() + " " + r.hash
			if f.matchesRef(&r) && !seen[key] {
				seen[key] = true
				out.refs = append(out.refs, r)
			}
		case version != root && gpuprof.MajorOf(strings.TrimPrefix(version, top)) > 1 && strings.HasPrefix(version, top):
			newer[version]++
		case strings.HasPrefix(n, root+"/") && strings.HasPrefix(path.Base(n), "pack-"):
			out.skipped = append(out.skipped, Skipped{n, "an earlier gpuprof packed sessions in it, and this one reads no packs; add their results again"})
		}
	}
	if err := out.refuseNewer(s.String(), newer, readable); err != nil {
		return nil, err
	}
	slices.SortFunc(out.refs, func(a, b sessionRef) int { return cmp.Compare(a.name, b.name) })
	return out, nil
}

// readSession reads a session's object and checks the hash in its name.
func (s *Store) readSession(ctx context.Context, name string) ([]byte, error) {
	text, err := s.readText(ctx, name)
	if err != nil {
		return nil, err
	}
	if r, ok := parseRef(name); !ok || shortHash(text) != r.hash {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading %s: its content is not what was written", name).WithFix("add its result again")
	}
	return text, nil
}

// refuseNewer returns an error if all objects have newer layouts; otherwise it lists the newer objects as skipped.
func (x *index) refuseNewer(store string, newer map[string]int, readable bool) error {
	for _, version := range slices.Sorted(maps.Keys(newer)) {
		n := newer[version]
		if !readable {
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
