package analyze

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

type rangeSums struct {
	byName map[string]*OperatorTime
}

func newRangeSums() *rangeSums { return &rangeSums{map[string]*OperatorTime{}} }

type nameSum struct {
	OperatorTime
	longest int64
	host    int32 // event with the longest host time
}

// addOperators adds up, for the operators in the steps that are not dropped, calls, host time, self time, and the time
// of the device operations that they launched.
func (r *rangeSums) addOperators(x *Index) {
	t := x.T
	sums := make([]nameSum, len(t.Names))
	walk := rangeWalk{x: x, sums: sums, around: x.op}
	for i := range t.Host {
		if t.Host[i].Kind == model.Op && x.InSteady(t.Host[i].Start) {
			walk.countRange(int32(i))
		}
	}
	for i := range t.GPU {
		if op := x.gpuOp[i]; op >= 0 && x.isInSteps(int32(i)) {
			sums[t.Host[op].Name].GPUNS += t.GPU[i].Dur()
		}
	}
	r.merge(x, sums, func(id model.NameID) string { return t.Name(id) })
}

// addModules adds up nn.Modules and ranges of the program in the steps that are not dropped. Device time counts for the
// innermost module; in the backward pass, for the module whose gradient is computed.
func (r *rangeSums) addModules(x *Index) {
	t := x.T
	sums := make([]nameSum, len(t.Names))
	walk := rangeWalk{x: x, sums: sums, around: x.mod}
	for i := range t.Host {
		if x.mod[i] == int32(i) && x.InSteady(t.Host[i].Start) {
			walk.countRange(int32(i))
		}
	}
	last, module := int32(-1), int32(-1)
	for i := range t.GPU {
		at := t.GPU[i].Launch
		if at < 0 {
			if at = x.gpuOp[i]; at < 0 {
				continue
			}
		}
		if op := x.op[at]; op >= 0 { // kernels of one operator follow one another
			at = op
		}
		if at != last {
			last, module = at, x.moduleOf(at)
		}
		if module >= 0 && x.isInSteps(int32(i)) {
			sums[t.Host[module].Name].GPUNS += t.GPU[i].Dur()
		}
	}
	r.merge(x, sums, x.moduleLabel())
}

// isInSteps reports whether a device operation was launched in a step that is not dropped, or began in one if its
// launch was not recorded.
func (x *Index) isInSteps(gpu int32) bool {
	if l := x.T.GPU[gpu].Launch; l >= 0 {
		return x.InSteady(x.T.Host[l].Start)
	}
	return x.InSteady(x.T.GPU[gpu].Start)
}

// rangeWalk visits ranges by start, with a stack of the ranges around the current one.
type rangeWalk struct {
	x      *Index
	sums   []nameSum
	around []int32 // by host event: the innermost range that encloses or equals it
	stack  []openRange
}

// openRange is a range on the stack. Nested ranges cover it up to the time covered. end is at most the end of the
// enclosing range. If ranges overlap without nesting, the shared time counts for the first, so that each moment of a
// thread is self time of at most one range.
type openRange struct {
	host         int32
	covered, end int64
}

func (w *rangeWalk) countRange(i int32) {
	x := w.x
	h := &x.T.Host[i]
	outer := int32(-1)
	if p := x.parent[i]; p >= 0 {
		outer = w.around[p]
	}
	for len(w.stack) > 0 && w.stack[len(w.stack)-1].host != outer {
		w.stack = w.stack[:len(w.stack)-1]
	}
	from, to := h.Start, h.End
	if len(w.stack) > 0 {
		top := &w.stack[len(w.stack)-1]
		to = min(to, top.end)
		from = min(max(from, top.covered), to)
		top.covered = max(top.covered, to)
		w.sums[x.T.Host[outer].Name].SelfNS -= to - from
	}
	s := &w.sums[h.Name]
	s.Count++
	s.SelfNS += to - from
	if s.Count == 1 || to-from > s.longest {
		s.longest, s.host = to-from, i
	}
	if !w.isOpen(h.Name) {
		s.HostNS += to - from
	}
	w.stack = append(w.stack, openRange{i, from, to})
}

func (w *rangeWalk) isOpen(name model.NameID) bool {
	return slices.ContainsFunc(w.stack, func(o openRange) bool { return w.x.T.Host[o.host].Name == name })
}

// manyNames: if more than manyNames range names differ only in numbers, they are iterations, not layers, and are shown
// as one name.
const manyNames = 64

// moduleLabel returns a function that maps a module to the name under which it is added up.
func (x *Index) moduleLabel() func(model.NameID) string {
	variants := map[string]int{}
	for id := range x.T.Names {
		if x.Info[id].isRange {
			variants[model.MaskNumbers(x.T.Names[id])]++
		}
	}
	return func(id model.NameID) string {
		name := x.T.Name(id)
		if n := model.MaskNumbers(name); x.Info[id].isRange && variants[n] > manyNames {
			return n
		}
		return trimModule(name)
	}
}

func (r *rangeSums) merge(x *Index, sums []nameSum, label func(model.NameID) string) {
	for id := range sums {
		s := &sums[id]
		if s.Count == 0 && s.GPUNS == 0 {
			continue
		}
		name := label(model.NameID(id))
		o := r.byName[name]
		if o == nil {
			o = &OperatorTime{Name: name}
			r.byName[name] = o
		}
		o.Count += s.Count
		o.HostNS += s.HostNS
		o.SelfNS += s.SelfNS
		o.GPUNS += s.GPUNS
		if o.Where == "" && s.Count > 0 {
			if where := x.Site(s.host); isFrame(where) {
				o.Where = where
			}
		}
	}
}

// sortedRanges returns the sums, the most device time first, then the most host time, with means per step.
func (r *rangeSums) sortedRanges(steps int) []OperatorTime {
	out := make([]OperatorTime, 0, len(r.byName))
	for _, o := range r.byName {
		o.StepSelfNS, o.StepGPUNS = o.SelfNS/int64(max(steps, 1)), o.GPUNS/int64(max(steps, 1))
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b OperatorTime) int {
		return cmp.Or(cmp.Compare(b.GPUNS, a.GPUNS), cmp.Compare(b.HostNS, a.HostNS), cmp.Compare(a.Name, b.Name))
	})
	return out
}
