package analyze

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// mostTurns limits the repeats of the most frequent range in one iteration. A GAN's critic is updated up to so many
// times for each update of its generator; a rarer range is an evaluation or a checkpoint.
const mostTurns = 10

// stepsOfTurns takes whole iterations as steps if the most frequent range is only a part of one: another range
// follows the same small number of its repeats each time, does not overlap them, takes as long, and also updates the
// model. Each iteration lasts from the end of one such range to the end of the next; the time before the first is
// dropped.
func (x *Index) stepsOfTurns(best *rangeGroup) bool {
	var rarest *rangeGroup
	for _, g := range x.rangeGroups(x.isProgramRange) {
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
	x.StepSource = fmt.Sprintf("%s, from the end of one to the end of the next, with what takes turns with it", x.rangeWord(rarest))
	x.stepsBetweenEnds(rarest, func(k int) string { return x.T.Name(x.T.Host[rarest.events[k]].Name) })
	return true
}

// stepsBetweenEnds takes the ends of ranges as borders of steps.
func (x *Index) stepsBetweenEnds(g *rangeGroup, name func(k int) string) {
	from := x.Span.Start
	for k, i := range g.events {
		end := x.T.Host[i].End
		x.Steps = append(x.Steps, StepSpan{Name: name(k), Host: model.Span{Start: from, End: end}, Lane: g.lane})
		from = end
	}
}

// countBetween returns the least and the largest number of others between two neighbours of some; both slices are in
// order.
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

// rangesOverlap reports whether two lists of ranges, each in order, have an instant in common.
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

// updatesModel reports whether ranges of g train the model like the ranges of best. An optimizer steps in each of
// them. If the recording has no optimizer, they take at least half the time of best, and their name is not one that
// evaluations have.
func (x *Index) updatesModel(g, best *rangeGroup) bool {
	steps := func(of *rangeGroup) (n int) {
		for _, i := range of.events {
			lo, hi := x.Inside(i)
			if slices.ContainsFunc(x.T.Host[lo:hi], func(h model.Host) bool { return x.Info[h.Name].Flags&NameOptimizer != 0 }) {
				n++
			}
		}
		return n
	}
	if steps(best) == len(best.events) {
		return steps(g) == len(g.events)
	}
	name := strings.ToLower(g.name)
	for _, other := range []string{"eval", "valid", "test", "checkpoint", "save", "log", "metric", "sample"} {
		if strings.Contains(name, other) {
			return false
		}
	}
	return 2*g.total*int64(len(best.events)) >= best.total*int64(len(g.events))
}

// isProgramRange reports whether a host event is a range that the program named.
func (x *Index) isProgramRange(h *model.Host) bool {
	return h.Kind == model.Annotation && x.Info[h.Name].Flags&nameHousekeeping == 0
}

// rangeWord names a group of ranges as the source of steps.
func (x *Index) rangeWord(g *rangeGroup) string {
	name := x.T.Name(x.T.Host[g.events[0]].Name)
	if slices.ContainsFunc(g.events, func(i int32) bool { return x.T.Name(x.T.Host[i].Name) != name }) {
		name = g.name
	}
	if x.T.Format == model.Nsys {
		return "nvtx " + name
	}
	return "annotation " + name
}
