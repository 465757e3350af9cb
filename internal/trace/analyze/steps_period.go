package analyze

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/analyze/period"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// launchSequence holds the launches of a process in the order of its calls. The launch of a CUDA graph is one launch.
type launchSequence struct {
	all  []period.Launch
	lane []uint32 // by launch
}

// listLaunches returns the launches of the process to which the thread x.Main belongs.
func (x *Index) listLaunches() launchSequence {
	process := x.T.ProcessOf(x.Main)
	var gpus []int32
	for _, g := range x.launched {
		if x.T.ProcessOf(x.T.Host[x.T.GPU[g].Launch].Lane) == process {
			gpus = append(gpus, g)
		}
	}
	call := func(g int32) int32 { return x.T.GPU[g].Launch }
	slices.SortStableFunc(gpus, func(a, b int32) int {
		return cmp.Or(cmp.Compare(x.T.Host[call(a)].Start, x.T.Host[call(b)].Start), cmp.Compare(call(a), call(b)))
	})
	var out launchSequence
	graphs := map[uint64]int32{}
	for lo := 0; lo < len(gpus); {
		hi := lo + 1
		for hi < len(gpus) && call(gpus[hi]) == call(gpus[lo]) {
			hi++
		}
		h := &x.T.Host[call(gpus[lo])]
		first := &x.T.GPU[gpus[lo]]
		l := period.Launch{At: h.Start, Name: int32(first.Name)}
		sum := uint64(0)
		for _, g := range gpus[lo:hi] {
			op := &x.T.GPU[g]
			l.NS += op.Dur()
			l.Kernel = l.Kernel || op.Kind == model.Kernel
			sum += mixBits(uint64(op.Name)) // a sum, because the streams of a graph begin in any order
		}
		if hi-lo > 1 { // graphs with equal operations are equal
			id, ok := graphs[sum]
			if !ok {
				id = int32(len(x.T.Names) + len(graphs))
				graphs[sum] = id
			}
			l.Name = id
		}
		out.all, out.lane = append(out.all, l), append(out.lane, h.Lane)
		lo = hi
	}
	return out
}

// mixBits spreads a number over 64 bits, so that sums of mixed numbers distinguish sets (the finalizer of SplitMix64).
func mixBits(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// launchOrderSource begins Index.StepSource if the steps are repeats in the order of launches.
const launchOrderSource = "the order of launches"

// findLaunchSteps finds steps as repeats in the order of launches. Copies and fills alone, such as those of a model that
// is loaded, make no steps.
func (x *Index) findLaunchSteps() bool {
	o := x.listLaunches()
	if !slices.ContainsFunc(o.all, func(l period.Launch) bool { return l.Kernel }) {
		return false
	}
	f := period.Find(o.all)
	if f == nil {
		return false
	}
	if whole := (model.Span{Start: o.all[f.Steps[0].From].At, End: o.all[f.Steps[len(f.Steps)-1].To].At}); x.areLayersOfPass(whole) {
		return false
	}
	x.StepSource, x.StepLaunches = launchOrderSource, f.Launches
	if f.Joined > 1 {
		x.StepSource += fmt.Sprintf(", %d repeats joined to a step", f.Joined)
	}
	for i, s := range f.Steps {
		x.Steps = append(x.Steps, StepSpan{Name: fmt.Sprintf("repeat %d", i+1), Host: model.Span{Start: o.all[s.From].At, End: o.all[s.To].At}, Lane: o.lane[s.From]})
	}
	return true
}
