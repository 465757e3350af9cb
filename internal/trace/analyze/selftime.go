package analyze

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// OwnTime is the self time of the operators or ranges of one name on one thread, without nested operators and ranges.
// It covers the steps that are not dropped.
type OwnTime struct {
	Name  string
	Kind  model.Kind // Op or Annotation
	Count int
	NS    int64
	Holds bool // reports whether an operator is nested inside
}

// OwnTimes lists the self times of operators and of the program's ranges, by thread, the longest first. Range names
// that differ only in numbers count as one name.
func (x *Index) OwnTimes() []OwnTime {
	var out []OwnTime
	for _, l := range x.lanes {
		out = append(out, x.laneOwnTimes(l)...)
	}
	slices.SortStableFunc(out, func(a, b OwnTime) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// laneOwnTimes returns the OwnTimes of one thread. If ranges overlap without nesting, the shared time counts for the
// first range.
func (x *Index) laneOwnTimes(l LaneRange) []OwnTime {
	type open struct {
		sum          *OwnTime
		covered, end int64
	}
	sums := map[string]*OwnTime{}
	var order []*OwnTime
	var stack []open
	for i := l.Lo; i < l.Hi; i++ {
		h := &x.T.Host[i]
		if h.Kind != model.Op && !x.isProgramRange(h) {
			continue
		}
		name := x.T.Name(h.Name)
		key := name
		if h.Kind == model.Annotation {
			key = model.MaskNumbers(name)
		}
		o := sums[key]
		if o == nil {
			o = &OwnTime{Name: name, Kind: h.Kind}
			sums[key] = o
			order = append(order, o)
		}
		if o.Name != name {
			o.Name = key
		}
		for len(stack) > 0 && stack[len(stack)-1].end <= h.Start {
			stack = stack[:len(stack)-1]
		}
		from, to := h.Start, h.End
		if n := len(stack); n > 0 {
			top := &stack[n-1]
			to = min(to, top.end)
			from = min(max(from, top.covered), to)
			top.covered = max(top.covered, to)
			top.sum.NS -= x.Steady.TotalIn(model.Span{Start: from, End: to})
			top.sum.Holds = top.sum.Holds || h.Kind == model.Op
		}
		if x.InSteady(h.Start) {
			o.Count++
		}
		o.NS += x.Steady.TotalIn(model.Span{Start: from, End: to})
		stack = append(stack, open{o, from, to})
	}
	out := make([]OwnTime, len(order))
	for i, o := range order {
		out[i] = *o
	}
	return out
}
