package memsnap

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/pool"
	"github.com/gpuprof/gpuprof/internal/testkit/memtest"
)

// fixture is a file of testdata/memory, which PyTorch wrote.
func fixture(t testing.TB, name string) *Snapshot {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("..", "..", "testdata", "memory", name+".pickle.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return mustRead(t, text)
}

// analyzedFixture is an analysis of a recording of PyTorch's, which knows the limit of the
// process.
func analyzedFixture(t testing.TB, name string) *Analysis { return askedFixture(t, name, "") }

// askedFixture is analyzedFixture with a setting that is tried besides.
func askedFixture(t testing.TB, name, setting string) *Analysis {
	t.Helper()
	o := Options{Allowed: counters(t, name)["allowed_bytes"]}
	if _, err := parseSettings(setting); err == nil {
		o.Settings = []string{setting}
	}
	a, err := Analyze(context.Background(), []*Snapshot{fixture(t, name)}, gpuprof.Tool{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func analyzed(t testing.TB, s *Snapshot) *Analysis {
	t.Helper()
	a, err := Analyze(context.Background(), []*Snapshot{s}, gpuprof.Tool{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func fixtures(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "testdata", "memory", "*.pickle.gz"))
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d recordings: %v", len(paths), err)
	}
	var out []string
	for _, p := range paths {
		out = append(out, strings.TrimSuffix(filepath.Base(p), ".pickle.gz"))
	}
	return out
}

// The peaks and the end of PyTorch's own recordings equal what its allocator counted.
func TestReplayEqualsTheAllocatorsCounters(t *testing.T) {
	for _, name := range fixtures(t) {
		if strings.HasPrefix(name, "made-") { // counted by pool.Stats: TestReplayLaws
			continue
		}
		a := analyzedFixture(t, name)
		want := counters(t, name)
		d := &a.Devices[0]
		got := map[string]int64{
			"requested_bytes.all.peak": d.Peak.Requested, "requested_bytes.all.current": d.End.Requested,
			"reserved_bytes.all.peak": d.PeakReserved, "reserved_bytes.all.current": d.End.Reserved, "num_ooms": int64(len(d.OOMs)),
		}
		active := want["active_bytes.all.peak"]
		for _, k := range []string{"active_bytes.all.peak", "num_device_alloc", "num_device_free", "allowed_bytes"} {
			delete(want, k)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v; the allocator counted %v", name, got, want)
		}
		// Large blocks can be up to 1 MiB larger than what is asked for, rounded.
		if d.PeakRounded > active || float64(d.PeakRounded) < 0.97*float64(active) {
			t.Errorf("%s: live blocks took %d at the peak, the allocator counted %d", name, d.PeakRounded, active)
		}
		if d.Moved != 0 || d.Complete == (name == "late") {
			t.Errorf("%s: %d contradictions, complete %v", name, d.Moved, d.Complete)
		}
		checkMoments(t, name, d)
	}
}

// checkMoments: every live byte has one category; the reserved bytes are the live and the free ones.
func checkMoments(t testing.TB, name string, d *Device) {
	t.Helper()
	moments := []Moment{d.Peak, d.End}
	if d.At != nil {
		moments = append(moments, d.At.Moment)
	}
	for _, m := range moments {
		var bytes, sites int64
		for _, c := range m.Categories {
			bytes += c.Bytes
		}
		for _, s := range m.Sites {
			sites += s.Bytes
		}
		if bytes != m.Requested || m.MoreSites == 0 && sites != m.Requested {
			t.Errorf("%s, event %d: %d bytes are live, categories have %d and lines %d", name, m.Event, m.Requested, bytes, sites)
		}
		if m.Rounded+m.FreeSplit+m.FreeWhole != m.Reserved || m.FreeLargest > m.FreeSplit+m.FreeWhole {
			t.Errorf("%s, event %d: %+v does not add up to what is reserved", name, m.Event, m)
		}
	}
	for c := range d.Series.Event {
		var sum int64
		for _, k := range d.Series.Kinds {
			sum += k.Bytes[c]
		}
		if sum != d.Series.Requested[c] || sum > d.Series.Reserved[c] {
			t.Errorf("%s, column %d: categories have %d of %d bytes", name, c, sum, d.Series.Requested[c])
		}
	}
}

// random is a recording of a random program on the modelled allocator.
func random(r *memtest.Recorder, n int, draw func(limit int) int) {
	var held []*pool.Block
	for range n {
		switch k := draw(20); {
		case k < 9:
			if b := r.Alloc(int64(1+draw(4<<20)<<draw(5)), stack(draw(6))); b != nil {
				held = append(held, b)
			}
		case k < 18 && len(held) > 0:
			i := draw(len(held))
			r.Free(held[i], stack(draw(6)))
			held = append(held[:i], held[i+1:]...)
		case k == 19 && r.Empty(stack(9)) != nil:
			return
		}
	}
}

// levels are the levels after each event.
func levels(r *Replay) (out []Level) {
	r.Levels(func(_ int, _ Action, l Level, _ int64) { out = append(out, l) })
	return out
}

// Whatever a program takes and gives: the replay has the allocator's own counters, and a
// recording whose ring lost its beginning has the levels of the whole one.
func TestReplayLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := memtest.New(2, rapid.SampledFrom([]int{1, 5, 15}).Draw(rt, "version"))
		random(r, rapid.IntRange(1, 80).Draw(rt, "steps"), func(limit int) int { return rapid.IntRange(0, limit-1).Draw(rt, "n") })
		if len(r.Events) == 0 {
			return
		}
		s, err := readBytes(memtest.Python(r.Snapshot(), 4))
		if err != nil {
			rt.Fatal(err)
		}
		whole := NewReplay(s, 0)
		all := levels(whole)
		stats := r.Stats()
		if end := all[len(all)-1]; end != whole.End() || end.Requested != stats.Requested || end.Reserved != stats.Reserved || !whole.Complete || whole.Moved != 0 {
			rt.Fatalf("%+v at the end, complete %v; the allocator counted %+v", end, whole.Complete, stats)
		}
		var peak int64
		for _, l := range all {
			peak = max(peak, l.Reserved)
		}
		if peak != stats.PeakReserved {
			rt.Fatalf("%d reserved at the peak; the allocator counted %d", peak, stats.PeakReserved)
		}
		kept := rapid.IntRange(1, len(r.Events)).Draw(rt, "kept")
		r.Forget(kept)
		late, err := readBytes(memtest.Python(r.Snapshot(), 4))
		if err != nil {
			rt.Fatal(err)
		}
		part := NewReplay(late, 0)
		if got := levels(part); !reflect.DeepEqual(got, all[len(all)-kept:]) {
			rt.Fatalf("a ring of %d events has other levels: %v, not %v", kept, got, all[len(all)-kept:])
		}
		a, err := Analyze(context.Background(), []*Snapshot{late}, gpuprof.Tool{}, Options{})
		if err != nil {
			rt.Fatal(err)
		}
		d := &a.Devices[0]
		if d.Peak.Rounded+d.Peak.FreeSplit+d.Peak.FreeWhole != d.Peak.Reserved {
			rt.Fatalf("%+v does not add up", d.Peak)
		}
	})
}

// Events that contradict the segments are counted, and sums stay what can be said.
func TestContradictions(t *testing.T) {
	r := memtest.New(2, 15)
	random(r, 60, rand.New(rand.NewPCG(1, 2)).IntN)
	root := r.Snapshot()
	r.Alloc(5<<20, stack(3)) // an event after the segments were taken down
	root.Members[1].Value = memtest.Of(memtest.Of(items(r.Events)...))
	a := analyzed(t, mustRead(t, memtest.Python(root, 4)))
	if d := &a.Devices[0]; d.Moved != 1 || len(a.Warnings) == 0 {
		t.Errorf("%d contradictions, warnings %v", d.Moved, a.Warnings)
	}
}

func items(events []*memtest.Dict) (out []any) {
	for _, e := range events {
		out = append(out, e)
	}
	return out
}

// The line of a stack is the program's own, then a library's, then the backward function.
func TestSites(t *testing.T) {
	lib := Frame{"linear", "/usr/lib/site-packages/torch/nn/functional.py", 3, ""}
	own := Frame{"forward", "/home/u/train.py", 12, ""}
	cpp := Frame{"torch::autograd::generated::MulBackward0::apply(x)", "??", 0, ""}
	for want, stack := range map[string][]Frame{
		"/home/u/train.py:12 in forward":                            {cpp, lib, own},
		"/usr/lib/site-packages/torch/nn/functional.py:3 in linear": {lib},
		"backward of Mul":   {{"c10::alloc", "", 0, ""}, cpp},
		"(no Python frame)": nil,
		"train.py:7, in f":  {{"call", "/tmp/torchinductor_u/x.py", 900, "train.py:7, in f"}},
	} {
		if got := siteOfStack(stack); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// Sizes are rounded as PyTorch rounds them, with and without divisions.
func TestRounding(t *testing.T) {
	var s Settings
	for i := range s.Roundup {
		s.Roundup[i] = 4
	}
	for _, tt := range []struct{ size, plain, four uint64 }{
		{0, 512, 512}, {1, 512, 512}, {512, 512, 512}, {513, 1024, 1024}, {1 << 20, 1 << 20, 1 << 20}, {1<<20 + 1, 1<<20 + 512, 5 << 18},
		{2100, 2560, 2560}, {3 << 20, 3 << 20, 3 << 20}, {3<<20 + 1, 3<<20 + 512, 7 << 19}, {1200, 1536, 1536}, {5000, 5120, 5120},
	} {
		if p, f := (&Settings{}).roundSize(tt.size), s.roundSize(tt.size); p != tt.plain || f != tt.four {
			t.Errorf("%d: %d and %d; want %d and %d", tt.size, p, f, tt.plain, tt.four)
		}
	}
}
