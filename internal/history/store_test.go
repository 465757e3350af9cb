package history

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/bucket"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// began is the start of the first made-up session.
func began() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// made is a result of a step that takes seconds, measured i hours after the first.
func made(i int, seconds float64) *compare.Result {
	start := float64(began().Add(time.Duration(i) * time.Hour).Unix())
	return &compare.Result{
		Source: "made.json", Tool: "gpuprof", Status: gpuprof.Complete, Workload: "e3nn", Preset: "small",
		Env:     map[string]string{"device": "Example GPU", "driver": "550.1"},
		Facts:   map[string]string{"kernel": "6.1"},
		Code:    map[string]string{"version": "v1"},
		Knobs:   map[string]compare.Knob{"batch": {Value: "4", Model: true}, "impl": {Value: "csr"}},
		RunInfo: []compare.RunInfo{{StartS: start}, {StartS: start + 10}},
		Metrics: []compare.MetricData{
			{Metric: compare.Metric{Name: "step", Unit: "s"}, Runs: [][]float64{{seconds, seconds * 1.001}, {seconds * 1.002}}},
			{Metric: compare.Metric{Name: "launches", Unit: "count", Exact: true}, Runs: [][]float64{{40}}},
		},
		Total: "step",
	}
}

// commitAt is the i-th made-up commit.
func commitAt(i int) Commit {
	return Commit{ID: fmt.Sprintf("%012x%028d", i+1, 0), Time: began().Add(time.Duration(i) * time.Hour), Branch: "main"}
}

func madeSession(t testing.TB, i int, seconds float64) *Session {
	t.Helper()
	s, err := NewSession(made(i, seconds), nil, Origin{Project: "demo", Commit: commitAt(i)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unflushed is a folder whose writes do not wait for the disk.
func unflushed(dir string) *bucket.Folder {
	return &bucket.Folder{Dir: dir, Flush: func(*os.File) error { return nil }}
}

// fileOf returns the file of an object in a folder.
func fileOf(b *bucket.Folder, name string) string {
	return filepath.Join(b.Dir, filepath.FromSlash(name))
}

// memory is a bucket in this process, for laws that are tried many times.
type memory struct {
	mu  sync.Mutex
	all map[string][]byte
}

func newMemory() *memory { return &memory{all: map[string][]byte{}} }

func (m *memory) String() string { return "memory" }

func (m *memory) List(context.Context, string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.all)), nil
}

func (m *memory) Get(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if content, ok := m.all[name]; ok {
		return content, nil
	}
	return nil, fs.ErrNotExist
}

func (m *memory) Put(_ context.Context, name string, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[name] = content
	return nil
}

func (m *memory) Remove(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, name)
	return nil
}

// counting counts what a bucket is asked for.
type counting struct {
	bucket.Bucket
	mu   sync.Mutex
	gets int
}

func (c *counting) Get(ctx context.Context, name string) ([]byte, error) {
	c.mu.Lock()
	c.gets++
	c.mu.Unlock()
	return c.Bucket.Get(ctx, name)
}

func filled(t testing.TB, n int) (*Store, *bucket.Folder) {
	t.Helper()
	b := unflushed(t.TempDir())
	s := NewStore(b, filepath.Join(t.TempDir(), "cache"))
	for i := range n {
		seconds := 0.010 * (1 + 0.001*float64(i%5))
		if i >= 2*n/3 {
			seconds *= 1.1
		}
		if _, err := s.Add(t.Context(), madeSession(t, i, seconds)); err != nil {
			t.Fatal(err)
		}
	}
	return s, b
}

func reported(t testing.TB, s *Store, o Options) *Report {
	t.Helper()
	r, err := s.Report(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAddTwiceChangesNothing(t *testing.T) {
	s, b := filled(t, 1)
	before, err := b.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	added, err := s.Add(t.Context(), madeSession(t, 0, 0.011))
	if err != nil || !added.Known {
		t.Fatalf("added again: %+v, %v", added, err)
	}
	after, err := b.List(t.Context(), "")
	if err != nil || !slices.Equal(before, after) || len(after) != 2 {
		t.Fatalf("%v, then %v (%v)", before, after, err)
	}
	slices.Sort(after)
	want := "v1/demo/e3nn-small/"
	if !strings.HasPrefix(after[0], want) || !strings.Contains(after[0], "/2026/01/20260101T120000Z-000000000001-") || !strings.HasSuffix(after[1], classFile) {
		t.Fatalf("objects are called %v", after)
	}
}

// TestWritersLoseNothing: eight writers at once, each with a thousand sessions by night and a hundred by day, half of
// which another writer adds too.
func TestWritersLoseNothing(t *testing.T) {
	const writers = 8
	each := 100
	if nightly {
		each = 1000
	}
	dir := t.TempDir()
	var wait sync.WaitGroup
	errs := make([]error, writers)
	template := madeSession(t, 0, 0.01)
	for w := range writers {
		wait.Go(func() {
			s := NewStore(unflushed(dir), "")
			for i := range each {
				one := *template
				one.Commit = commitAt(w/2*each*2 + w%2*each/2 + i)
				one.Session.Started = one.Commit.Time
				if _, err := s.Add(t.Context(), &one); err != nil {
					errs[w] = err
				}
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := NewStore(unflushed(dir), "")
	in, err := s.list(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if want := writers / 2 * each * 3 / 2; len(in.refs) != want || len(in.skipped) > 0 {
		t.Fatalf("%d sessions, want %d; %d skipped", len(in.refs), want, len(in.skipped))
	}
	names, err := s.bucket.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	entries := 0
	for _, name := range names {
		if strings.Contains(name, atomicfile.Temporary) {
			t.Errorf("%s was left", name)
		}
		if _, ok := parseRef(name); ok {
			entries++
		}
	}
	if entries != len(in.refs) {
		t.Errorf("%d objects of %d sessions", entries, len(in.refs))
	}
}

// TestTornObjects: whatever a writer that was killed, a copy that broke off or another
// program leaves, the other objects are read and the unreadable ones are named.
func TestTornObjects(t *testing.T) {
	s, b := filled(t, 12)
	names, err := b.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	change := func(name string, edit func([]byte) []byte) {
		content, err := os.ReadFile(fileOf(b, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fileOf(b, name), edit(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change(names[0], func(c []byte) []byte { return c[:len(c)/2] })
	change(names[1], func([]byte) []byte { return nil })
	change(names[2], func([]byte) []byte { return []byte("not zstd") })
	newer := madeSession(t, 50, 0.01)
	newer.Version = "9.0.0"
	if _, err := s.Add(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	// A writer that was killed leaves a temporary file; another program a file of its own.
	for _, extra := range []string{".123.tmp", "README.md"} {
		if err := os.WriteFile(filepath.Join(b.Dir, filepath.Dir(names[0]), extra), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := reported(t, s, Options{})
	if got := len(r.Trends[0].Sessions); got != 9 {
		t.Errorf("%d sessions are read, want 9", got)
	}
	if len(r.Skipped) != 4 || len(r.Warnings) != 1 {
		t.Fatalf("skipped: %+v, warnings %v", r.Skipped, r.Warnings)
	}
	why := ""
	for _, x := range r.Skipped {
		why += x.Why + "\n"
	}
	if !strings.Contains(why, "newer") {
		t.Errorf("the newer object is not called so: %s", why)
	}
}

func TestNothingReadable(t *testing.T) {
	s, b := filled(t, 1)
	names, _ := b.List(t.Context(), "")
	slices.Sort(names)
	if err := os.WriteFile(fileOf(b, names[0]), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Report(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "none of its 1 objects can be used") {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(b.Dir, "v1"), filepath.Join(b.Dir, "v7")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Report(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "its layout is v7") {
		t.Fatal(err)
	}
}

// TestCacheSparesReading: what was read once is not fetched again.
func TestCacheSparesReading(t *testing.T) {
	s, b := filled(t, 30)
	c := &counting{Bucket: b}
	s.bucket = c
	first := reported(t, s, Options{Last: 20})
	if c.gets != 21 { // the sessions asked for, and their class
		t.Errorf("%d objects are fetched at first", c.gets)
	}
	c.gets = 0
	second := reported(t, s, Options{Last: 20})
	if c.gets != 0 {
		t.Errorf("%d objects are fetched again", c.gets)
	}
	if text(t, first) != text(t, second) {
		t.Error("what was read from the cache is another report")
	}
}

// TestPacksAreNamed: what an earlier version packed is named, and the rest is used.
func TestPacksAreNamed(t *testing.T) {
	s, b := filled(t, 12)
	names, err := b.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	pack := path.Join(path.Dir(names[0]), "pack-2026-02-0123456789ab.json.zst")
	if err := b.Put(t.Context(), pack, []byte("x")); err != nil {
		t.Fatal(err)
	}
	r := reported(t, s, Options{})
	if len(r.Trends[0].Sessions) != 12 {
		t.Errorf("%d sessions are read", len(r.Trends[0].Sessions))
	}
	in, err := s.list(t.Context(), Filter{})
	if err != nil || len(in.skipped) != 1 || in.skipped[0].Name != pack || !strings.Contains(in.skipped[0].Why, "add their results again") {
		t.Errorf("%+v %v", in.skipped, err)
	}
}

// TestPruneLists: pruning removes only what it lists, and only when it is told to.
func TestPruneLists(t *testing.T) {
	s, b := filled(t, 40)
	again := madeSession(t, 3, 0.010)
	again.Session.Started = again.Session.Started.Add(time.Minute)
	if _, err := s.Add(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	for _, apply := range []bool{false, true} {
		listed, skipped, err := s.Prune(t.Context(), Options{}, 0, began().AddDate(1, 0, 0), apply)
		if err != nil || len(skipped) > 0 || len(listed) != 1 {
			t.Fatalf("%+v %v %v", listed, skipped, err)
		}
		if names, _ := b.List(t.Context(), ""); len(names) != map[bool]int{false: 42, true: 41}[apply] {
			t.Fatalf("with apply %t %d objects are left", apply, len(names))
		}
	}
	if listed, _, err := s.Prune(t.Context(), Options{}, 0, began().AddDate(1, 0, 0), true); err != nil || len(listed) > 0 {
		t.Fatalf("%+v %v", listed, err)
	}
}
