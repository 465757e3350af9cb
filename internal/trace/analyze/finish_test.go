package analyze

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// TestSparseIDs: both kinds of table find the same calls.
func TestSparseIDs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := randomTrace(r)
		wide := *tr
		wide.Host, wide.GPU = slices.Clone(tr.Host), slices.Clone(tr.GPU)
		for i := range wide.Host {
			wide.Host[i].Corr *= 1 << 40
		}
		for i := range wide.GPU {
			wide.GPU[i].Corr *= 1 << 40
		}
		tr.Finish()
		wide.Finish()
		for i := range tr.GPU {
			if tr.GPU[i].Launch != wide.GPU[i].Launch {
				r.Fatalf("operation %d: launch %d by list, %d by open addressing", i, tr.GPU[i].Launch, wide.GPU[i].Launch)
			}
		}
	})
}

// outerFirst orders kinds of host events that have the same times: the one that can hold the other goes first.
var outerFirst = map[model.Kind]int{model.Step: 0, model.Annotation: 1, model.Python: 1, model.Op: 1, model.Overhead: 2, model.API: 3, model.Instant: 4}

// TestSorted: Finish sorts as a plain stable sort does, whatever the order of
// the file: sorted, reversed, lists after each other, or none at all.
func TestSorted(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := randomTrace(r)
		if rapid.Bool().Draw(r, "shuffle") {
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
			rng.Shuffle(len(tr.Host), func(i, j int) { tr.Host[i], tr.Host[j] = tr.Host[j], tr.Host[i] })
			rng.Shuffle(len(tr.GPU), func(i, j int) { tr.GPU[i], tr.GPU[j] = tr.GPU[j], tr.GPU[i] })
		}
		host := slices.Clone(tr.Host)
		slices.SortStableFunc(host, func(a, b model.Host) int {
			return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End), cmp.Compare(outerFirst[a.Kind], outerFirst[b.Kind]))
		})
		gpu := slices.Clone(tr.GPU)
		slices.SortStableFunc(gpu, func(a, b model.GPU) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
		})
		tr.Finish()
		if diff := gocmp.Diff(host, tr.Host); diff != "" {
			r.Fatal(diff)
		}
		for i := range gpu {
			gpu[i].Launch = tr.GPU[i].Launch
		}
		if diff := gocmp.Diff(gpu, tr.GPU); diff != "" {
			r.Fatal(diff)
		}
	})
}

func TestBackwardsInTime(t *testing.T) {
	b := newBuilder().host(model.Op, "aten::mm", 50, 20).gpu(model.Kernel, "k", 100, 90).gpu(model.Kernel, "l", 120, 130)
	x := b.index(t)
	if got := x.T.Host[0].Dur(); got != 0 {
		t.Errorf("the operator lasts %d ns", got)
	}
	if d := x.Devices[0]; d.Window != (model.Span{Start: 50, End: 130}) || d.ActiveSpan != (model.Span{Start: 100, End: 130}) || d.Busy.Total() != 10 || d.Unknown.Total() != 50+20 {
		t.Errorf("window %v, busy %v, unknown %v", d.Window, d.Busy, d.Unknown)
	}
}
