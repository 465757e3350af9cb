package analyze

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

type kernelSums struct {
	byName map[string]*kernelSum
}

type kernelSum struct {
	ns        int64
	durations []int64
	classes   [maxClasses]int64
	operators map[string]int64
}

func newKernelSums() *kernelSums { return &kernelSums{byName: map[string]*kernelSum{}} }

// addTrace adds the device operations of a trace to the sums. It groups the operations by name id first, so that each
// name is looked up only once.
func (k *kernelSums) addTrace(x *Index) {
	t := x.T
	counts := make([]int32, len(t.Names)+1)
	for i := range t.GPU {
		counts[t.GPU[i].Name+1]++
	}
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
	order := make([]int32, len(t.GPU)) // grouped by name
	for i := range t.GPU {
		n := t.GPU[i].Name
		order[counts[n]] = int32(i)
		counts[n]++
	}
	for lo := 0; lo < len(order); {
		name := t.GPU[order[lo]].Name
		hi := int(counts[name])
		k.addGroup(x, t.Name(name), order[lo:hi])
		lo = hi
	}
}

func (k *kernelSums) addGroup(x *Index, name string, group []int32) {
	s := k.byName[name]
	if s == nil {
		s = &kernelSum{operators: map[string]int64{}}
		k.byName[name] = s
	}
	s.durations = slices.Grow(s.durations, len(group))
	ops := map[model.NameID]int64{}
	for _, i := range group {
		g := &x.T.GPU[i]
		d := g.Dur()
		s.ns += d
		s.durations = append(s.durations, d)
		s.classes[x.class[i]&(maxClasses-1)] += d + 1 // + 1, so that operations of zero length count too
		if op := x.gpuOp[i]; op >= 0 {
			ops[x.T.Host[op].Name] += d + 1
		}
	}
	for id, ns := range ops {
		s.operators[x.T.Name(id)] += ns
	}
}

func (k *kernelSums) sortedKernels() []KernelTime {
	out := make([]KernelTime, 0, len(k.byName))
	for name, s := range k.byName {
		slices.Sort(s.durations)
		e := KernelTime{Name: name, Count: len(s.durations), NS: s.ns, Median: medianOfSorted(s.durations)}
		best := 0
		for c := range s.classes {
			if s.classes[c] > s.classes[best] {
				best = c
			}
		}
		e.Class = classList[best]
		most := int64(0)
		for op, ns := range s.operators {
			if ns > most || ns == most && op < e.Operator {
				e.Operator, most = op, ns
			}
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b KernelTime) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.Name, b.Name))
	})
	return out
}
