package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// sum is the own time, ns, and the number of operations.
type sum struct{ ns, count int64 }

// sumsOf adds up the streams of a timeline by class, as a selection of the whole does; hidden is the number of
// operations that are left out.
func sumsOf(t *testing.T, d timelineData) (by map[string]sum, hidden int) {
	t.Helper()
	by = map[string]sum{}
	add := func(kind, ns, count int64) {
		s := by[d.Labels[kind]]
		by[d.Labels[kind]] = sum{s.ns + ns, s.count + count}
	}
	for _, r := range d.Rows {
		if r.Sums != "stream" {
			continue
		}
		hidden += r.Hidden
		mix := r.Mix
		for i := 0; i < len(r.Boxes); i += 5 {
			if r.Boxes[i+4] == 1 {
				add(r.Boxes[i+2], r.Boxes[i+1], 1)
				continue
			}
			n := mix[0]
			count := int64(0)
			for k := range n {
				add(mix[1+3*k], mix[2+3*k], mix[3+3*k])
				count += mix[3+3*k]
			}
			if count != r.Boxes[i+4] {
				t.Errorf("row %s: a box of %d operations has parts of %d", r.Name, r.Boxes[i+4], count)
			}
			mix = mix[1+3*n:]
		}
		if len(mix) > 0 {
			t.Errorf("row %s: %d numbers of parts belong to no box", r.Name, len(mix))
		}
	}
	return by, hidden
}

// tablesOf are the sums of the table of kernels by class.
func tablesOf(a *analyze.Analysis) map[string]sum {
	by := map[string]sum{}
	for _, k := range a.Kernels {
		s := by[string(k.Class)]
		by[string(k.Class)] = sum{s.ns + k.NS, s.count + int64(k.Count)}
	}
	return by
}

// A selection of the whole timeline adds up to the table of kernels, by class, in every trace of the fixtures.
func TestTimelineSumsAreTheTables(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "traces", "*.json"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d traces: %v", len(files), err)
	}
	checked, varied := 0, 0
	for _, path := range files {
		name := filepath.Base(path)
		if info, err := os.Stat(path); err != nil || info.Size() > 4<<20 {
			t.Fatalf("%s: %v, larger than this test reads", name, err)
		}
		a, xs := fixture.Study(t, name)
		d, _ := drawTimeline(a, xs)
		got, hidden := sumsOf(t, d)
		if hidden > 0 || strings.HasPrefix(name, "trace-quality") { // damaged: operations of a stream overlap
			continue
		}
		want := tablesOf(a)
		if classesVary(xs) { // the table has a kernel once, under the class of most of its time
			varied++
			got, want = map[string]sum{"all": totalOf(got)}, map[string]sum{"all": totalOf(want)}
		}
		for class, s := range want {
			if got[class] != s {
				t.Errorf("%s: %s is selected as %v, the table has %v", name, class, got[class], s)
			}
		}
		for class := range got {
			if _, ok := want[class]; !ok {
				t.Errorf("%s: the table has no %s", name, class)
			}
		}
		checked++
	}
	if checked < 50 || varied > 2 {
		t.Errorf("only %d traces were compared, %d of them by their totals", checked, varied)
	}
}

// classesVary reports whether the operations of some name have several classes.
func classesVary(xs []*analyze.Index) bool {
	for _, x := range xs {
		seen := map[model.NameID]model.Class{}
		for g := range x.T.GPU {
			name, class := x.T.GPU[g].Name, x.Class(int32(g))
			if was, ok := seen[name]; ok && was != class {
				return true
			}
			seen[name] = class
		}
	}
	return false
}

func totalOf(by map[string]sum) (all sum) {
	for _, s := range by {
		all = sum{all.ns + s.ns, all.count + s.count}
	}
	return all
}

// Neighbours that are drawn as one keep their sums.
func TestMergedBoxesKeepTheirSums(t *testing.T) {
	tr := &model.Trace{Path: "big.json", Format: model.Kineto, Rank: -1, Names: []string{"gemm", "elementwise_kernel", "Memcpy HtoD"}, Devices: []model.Device{{ID: 0}}}
	for i := range int64(100_000) {
		g := model.GPU{Start: i * 1000, End: i*1000 + 300 + i%7*90, Name: model.NameID(i % 3), Kind: model.Kernel, Launch: -1, Stream: 7}
		if i%3 == 2 {
			g.Kind, g.Dir, g.Bytes = model.Memcpy, model.H2D, 1024
		}
		tr.GPU = append(tr.GPU, g)
	}
	tr.Finish()
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, note := drawTimeline(a, []*analyze.Index{x})
	if !strings.Contains(note, "drawn as one") {
		t.Fatalf("nothing was merged: %s", note)
	}
	got, hidden := sumsOf(t, d)
	want := tablesOf(a)
	if hidden != 0 || len(got) != len(want) || len(want) < 2 {
		t.Fatalf("%d hidden, %v, want %v", hidden, got, want)
	}
	for class, s := range want {
		if got[class] != s {
			t.Errorf("%s is selected as %v, the table has %v", class, got[class], s)
		}
	}
}

// A box of the timeline leads to the Python frames that launched it.
func TestTimelineHasStacks(t *testing.T) {
	tr := &model.Trace{Path: "stacks.json", Format: model.Kineto, Rank: -1, Devices: []model.Device{{ID: 0}}, Lanes: []model.Lane{{Process: 1, Thread: 1}},
		Names: []string{"train.py(10): main", "model.py(20): forward", "aten::mm", "cudaLaunchKernel", "gemm"}}
	tr.Host = []model.Host{{Start: 0, End: 900, Name: 0, Kind: model.Python}, {Start: 100, End: 800, Name: 1, Kind: model.Python},
		{Start: 200, End: 700, Name: 2, Kind: model.Op}, {Start: 300, End: 400, Name: 3, Kind: model.API, Corr: 5}}
	tr.GPU = []model.GPU{{Start: 500, End: 1500, Name: 4, Kind: model.Kernel, Corr: 5, Launch: -1, Stream: 7, Process: 1}}
	tr.Finish()
	x, err := analyze.NewIndex(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, _ := drawTimeline(a, []*analyze.Index{x})
	for _, r := range d.Rows {
		if r.Sums != "stream" {
			continue
		}
		if len(r.Stacks) != 1 || r.Stacks[0] == 0 {
			t.Fatalf("row %s has the stacks %v", r.Name, r.Stacks)
		}
		var frames []string
		for _, f := range d.Stacks[r.Stacks[0]-1] {
			frames = append(frames, d.Frames[f])
		}
		if got := strings.Join(frames, " < "); got != "model.py(20): forward < train.py(10): main" {
			t.Errorf("the stack is %s", got)
		}
		return
	}
	t.Error("the timeline has no stream")
}
