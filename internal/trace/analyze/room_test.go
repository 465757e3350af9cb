package analyze

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Ranges that lie in one another by the thousand make no work that grows with the
// square of their number: no event has more than Deepest above it, and what is said
// of the others stays right.
func TestDeepNestingIsBounded(t *testing.T) {
	const n = 3 * Deepest
	b := newBuilder()
	for i := range n {
		b.host(model.Annotation, fmt.Sprintf("range %d of many", i), int64(i), int64(10*n-i))
	}
	b.launch("k", n, 1, n+5, n+6)
	x := b.index(t)
	for i := range x.T.Host {
		above := 0
		for p := x.Parent(int32(i)); p >= 0; p = x.Parent(p) {
			above++
		}
		if want := min(i, Deepest); above != want {
			t.Fatalf("event %d has %d above it, want %d", i, above, want)
		}
	}
	if lo, hi := x.Inside(0); lo != 1 || int(hi) != len(x.T.Host) {
		t.Errorf("inside the outermost: %d to %d", lo, hi)
	}
	call := x.find(t, "cudaLaunchKernel")
	if m := x.Module(call); m != fmt.Sprintf("range %d of many", n-1) {
		t.Errorf("the innermost range around the call is %q", m)
	}
	if !slices.ContainsFunc(x.Warnings, func(w gpuprof.Warning) bool {
		return w.Code == "deep-nesting" && strings.Contains(w.Text, fmt.Sprint(n+1-Deepest-1))
	}) {
		t.Errorf("warnings %v", x.Warnings)
	}
	sums := newRangeSums()
	sums.addModules(x)
	var self int64
	for _, o := range sums.byName {
		self += o.SelfNS
	}
	if self != 10*n {
		t.Errorf("the ranges' own times add up to %d ns, and the outermost takes %d", self, 10*n)
	}
}

// What is under way where the kept part ends is clipped; steps, and ranges that repeat
// as steps do, that have work behind the end are no steps.
func TestCutAt(t *testing.T) {
	b := newBuilder()
	b.host(model.Annotation, "epoch", 0, 10_000)
	for i := range 5 {
		at := int64(1000 * i)
		b.host(model.Step, fmt.Sprintf("ProfilerStep#%d", i), at, at+900)
		b.host(model.Annotation, fmt.Sprintf("batch %d", i), at+1, at+899)
		b.launch("k", at+100, 10, at+1500, at+1600) // a step later on the device
	}
	tr := b.finish()
	tr.GPU = slices.DeleteFunc(tr.GPU, func(g model.GPU) bool { return g.Start >= 4200 })
	tr.CutAt(4200)
	var steps, batches, epochs int
	for i := range tr.Host {
		h := &tr.Host[i]
		if h.End > 4200 || h.End < h.Start {
			t.Errorf("%s ends at %d", tr.Name(h.Name), h.End)
		}
		switch name := tr.Name(h.Name); {
		case h.Kind == model.Step:
			steps++
		case h.Kind == model.Annotation && strings.HasPrefix(name, "batch"):
			batches++
		case h.Kind == model.Annotation && name == "epoch":
			epochs++
		}
	}
	// The last work that is here was launched at 2100: steps 0 and 1 are whole.
	if steps != 2 || batches != 2 || epochs != 1 {
		t.Errorf("%d steps, %d batches, %d epochs", steps, batches, epochs)
	}
}
