package memsnap

import (
	"sort"

	"github.com/gpuprof/gpuprof/internal/pool"
)

// Category is the purpose of memory, inferred from its lifetime and its stack.
type Category uint8

// Without optimizer steps in the file, only BeforeRecording, Autograd, Workspace and Other are used.
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

// Categories lists the categories in the order in which charts stack them.
func Categories() []Category {
	out := make([]Category, categories)
	for i := range out {
		out[i] = Category(i)
	}
	return out
}

func (c Category) String() string {
	return [...]string{
		Persistent: "persistent", OptimizerState: "optimizer state", Gradient: "gradient", Activation: "activation",
		BackwardTemporary: "backward temporary", OptimizerTemporary: "optimizer temporary", Workspace: "workspace",
		Autograd: "autograd", BeforeRecording: "before the recording", Other: "other",
	}[min(c, Other)]
}

// classifier assigns categories to allocations.
type classifier struct {
	r        *Replay
	traits   []traits
	inferred bool // the file has no optimizer steps
}

func (r *Replay) newSorter(t []traits) *classifier {
	return &classifier{r: r, traits: t, inferred: !r.hasOptimizerSteps() || !r.Stacks}
}

// classify returns the category of an allocation. The first matching case decides.
func (s *classifier) classify(a *allocation) Category {
	from := s.r.S.originOf(a)
	t := &s.traits[from.stack]
	switch {
	case a.born == never:
		return s.classifyBefore(a, t)
	case t.workspace:
		return Workspace
	case s.inferred:
		switch {
		case t.autograd && s.r.Stacks:
			return Autograd
		case s.freedByBackward(a):
			return Activation
		}
		return Other
	}
	steps := s.r.phases
	// The allocation's step is the first that ends after it.
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
	case s.freedByBackward(a):
		return Activation
	}
	return Other
}

// freedByBackward reports whether the backward pass frees an allocation.
func (s *classifier) freedByBackward(a *allocation) bool {
	return a.asked != never && s.r.Freed && s.traits[s.r.S.originOf(a).freedBy].autograd
}

// classifyBefore returns the category of memory from before the recording. A block that is live at the end has the
// stack of its allocation; a freed block has the stack of its free.
func (s *classifier) classifyBefore(a *allocation, t *traits) Category {
	live := a.done == never
	switch {
	case s.inferred || t.bare:
	case live && t.optimizer:
		return OptimizerState
	case live && t.autograd, !live && t.zeroGrad:
		return Gradient
	}
	return BeforeRecording
}

func outlives(a *allocation, event uint32) bool { return a.asked == never || a.asked > event }

func (s *classifier) classifyAll() []Category {
	p := s.r.part
	out := make([]Category, p.lastAlloc-p.allocs)
	for i := range out {
		if a := s.r.S.allocs.get(p.allocs + i); s.r.isAlloc(a) {
			out[i] = s.classify(a)
		}
	}
	return out
}

// segmentSize returns the largest size that the allocator may request from the driver for a request without a free
// block.
func (s *Settings) segmentSize(request int64) int64 {
	set, _ := s.poolSettings(pages{})
	return set.Segment(request)
}

// roundSize returns the least memory that the allocator takes for a request, bytes.
func (s *Settings) roundSize(size uint64) uint64 { return s.newRounder()(size) }

// newRounder returns roundSize as a function, for many sizes.
func (s *Settings) newRounder() func(size uint64) uint64 {
	set := pool.Settings{Roundup: s.Roundup}
	return func(size uint64) uint64 { return uint64(set.Round(int64(min(size, 1<<62)))) }
}
