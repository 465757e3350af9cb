package memsnap

import (
	"sort"

	"github.com/gpuprof/gpuprof/internal/pool"
)

// Category is what memory is for, as far as when it lived and which stack allocated it tell.
type Category uint8

// The categories. Where the file marks no steps of an optimizer there are only
// BeforeRecording, Autograd and Other.
const (
	Persistent Category = iota
	OptimizerState
	Gradient
	Activation
	BackwardTemporary
	OptimizerTemporary
	Workspace
	Autograd
	BeforeRecording
	Other
	categories
)

// Categories lists them in the order in which charts stack them.
func Categories() []Category {
	out := make([]Category, categories)
	for i := range out {
		out[i] = Category(i)
	}
	return out
}

func (c Category) String() string {
	switch c {
	case Persistent:
		return "persistent"
	case OptimizerState:
		return "optimizer state"
	case Gradient:
		return "gradient"
	case Activation:
		return "activation"
	case BackwardTemporary:
		return "backward temporary"
	case OptimizerTemporary:
		return "optimizer temporary"
	case Workspace:
		return "workspace"
	case Autograd:
		return "autograd"
	case BeforeRecording:
		return "before the recording"
	}
	return "other"
}

// sorter finds the category of an allocation.
type sorter struct {
	r        *Replay
	traits   []traits
	inferred bool // there are no optimizer steps to infer the kinds from
}

func (r *Replay) newSorter(t []traits) *sorter {
	return &sorter{r: r, traits: t, inferred: !r.byOptimizer() || !r.Stacks}
}

// of is the category of an allocation; the first that fits, in the order of the code.
func (s *sorter) of(a *allocation) Category {
	from := s.r.S.origin(a)
	t := &s.traits[from.stack]
	switch {
	case a.born == never:
		return BeforeRecording
	case t.workspace:
		return Workspace
	case s.inferred:
		if t.autograd && s.r.Stacks {
			return Autograd
		}
		return Other
	}
	steps := s.r.phases
	// The step that it was born in: the first that ends after it.
	k := sort.Search(len(steps), func(i int) bool { return steps[i].Last > a.born })
	inside := k < len(steps) && a.born >= steps[k].Optimizer
	switch {
	case inside && outlives(a, steps[k].Last):
		return OptimizerState
	case inside:
		return OptimizerTemporary
	case t.autograd && k < len(steps) && outlives(a, steps[k].Optimizer):
		return Gradient
	case t.autograd:
		return BackwardTemporary
	case k+1 < len(steps) && outlives(a, steps[k+1].Last), k == 0 && a.asked == never:
		return Persistent
	case a.asked != never && s.r.Freed && s.traits[from.freedBy].autograd:
		return Activation
	}
	return Other
}

// outlives says that an allocation is in use after an event.
func outlives(a *allocation, event uint32) bool { return a.asked == never || a.asked > event }

// all is the category of each row of the trace.
func (s *sorter) all() []Category {
	p := s.r.part
	out := make([]Category, p.lastAlloc-p.allocs)
	for i := range out {
		if a := s.r.S.allocs.at(p.allocs + i); s.r.isAlloc(a) {
			out[i] = s.of(a)
		}
	}
	return out
}

// segment is what the driver is asked for at most when a request finds no free block.
func (s *Settings) segment(request int64) int64 {
	set, _ := s.poolSettings(pages{})
	return set.Segment(request)
}

// rounded is what the allocator takes for a request, at least.
func (s *Settings) rounded(size uint64) uint64 { return s.rounder()(size) }

// rounder is rounded for many sizes.
func (s *Settings) rounder() func(size uint64) uint64 {
	set := pool.Settings{Roundup: s.Roundup}
	return func(size uint64) uint64 { return uint64(set.Round(int64(min(size, 1<<62)))) }
}
