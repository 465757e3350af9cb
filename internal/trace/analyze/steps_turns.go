package analyze

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// mostTurns is the largest number of repeats of the most frequent range per iteration. A GAN's critic, for example, is
// updated several times per update of the generator. If another range occurs only once per more repeats, it is an
// evaluation or a checkpoint and does not mark iterations.
const mostTurns = 10

// findTurnSteps handles the case that best, the most frequent range, is only a part of an iteration. It looks for a
// rarer range that follows the same small number of repeats of best each time, does not overlap them and also updates
// the model. Each step ends where the rarer range ends. The time before the first end becomes a step too, which is
// dropped later.
func (x *Index) findTurnSteps(best *rangeGroup) bool {
	var rarest *rangeGroup
	for _, g := range x.groupRanges(x.isProgramRange) {
		if g.lane != best.lane || len(g.events) < minRepeats || len(g.events) >= len(best.events) || x.rangesOverlap(g.events, best.events) {
			continue
		}
		least, most := countBetween(g.events, best.events)
		if least != most || least < 1 || most > mostTurns || !x.updatesModel(g, best) {
			continue
		}
		if rarest == nil || len(g.events) < len(rarest.events) {
			rarest = g
		}
	}
	if rarest == nil {
		return false
	}
	x.StepSource = fmt.Sprintf("%s, from the end of one to the end of the next, with what takes turns with it", x.describeRange(rarest))
	x.addStepsBetweenEnds(rarest, func(k int) string { return x.T.Name(x.T.Host[rarest.events[k]].Name) })
	return true
}

func (x *Index) addStepsBetweenEnds(g *rangeGroup, name func(k int) string) {
	from := x.Span.Start
	for k, i := range g.events {
		end := x.T.Host[i].End
		x.Steps = append(x.Steps, StepSpan{Name: name(k), Host: model.Span{Start: from, End: end}, Lane: g.lane})
		from = end
	}
}

// countBetween returns the least and the largest number of elements of others between two consecutive elements of some.
// Both slices are sorted.
func countBetween(some, others []int32) (least, most int) {
	for k := range some[1:] {
		lo, _ := slices.BinarySearch(others, some[k])
		hi, _ := slices.BinarySearch(others, some[k+1])
		if k == 0 {
			least, most = hi-lo, hi-lo
		}
		least, most = min(least, hi-lo), max(most, hi-lo)
	}
	return least, most
}

func (x *Index) rangesOverlap(a, b []int32) bool {
	host := x.T.Host
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch p, q := &host[a[i]], &host[b[j]]; {
		case p.End <= q.Start:
			i++
		case q.End <= p.Start:
			j++
		default:
			return true
		}
	}
	return false
}

// updatesModel reports whether ranges of g train the model like the ranges of best. If every range of best contains an
// optimizer step, every range of g must contain one. Otherwise a range of g must take at least half as long as a range
// of best, and must not be named like an evaluation or a checkpoint.
func (x *Index) updatesModel(g, best *rangeGroup) bool {
	countUpdates := func(r *rangeGroup) (n int) {
		for _, i := range r.events {
			lo, hi := x.Inside(i)
			if slices.ContainsFunc(x.T.Host[lo:hi], func(h model.Host) bool { return x.Info[h.Name].Flags&NameOptimizer != 0 }) {
				n++
			}
		}
		return n
	}
	if countUpdates(best) == len(best.events) {
		return countUpdates(g) == len(g.events)
	}
	name := strings.ToLower(g.name)
	for _, other := range []string{"eval", "valid", "test", "checkpoint", "save", "log", "metric", "sample"} {
		if strings.Contains(name, other) {
			return false
		}
	}
	return 2*g.total*int64(len(best.events)) >= best.total*int64(len(g.events))
}

func (x *Index) isProgramRange(h *model.Host) bool {
	return h.Kind == model.Annotation && x.Info[h.Name].Flags&nameHousekeeping == 0
}

func (x *Index) describeRange(g *rangeGroup) string {
	name := x.T.Name(x.T.Host[g.events[0]].Name)
	if slices.ContainsFunc(g.events, func(i int32) bool { return x.T.Name(x.T.Host[i].Name) != name }) {
		name = g.name
	}
	if x.T.Format == model.Nsys {
		return "nvtx " + name
	}
	return "annotation " + name
}
