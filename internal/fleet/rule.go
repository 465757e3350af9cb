package fleet

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/stats"
)

const (
	// falseRate is the rate of false discoveries among those called off (Benjamini and
	// Hochberg, J. R. Stat. Soc. B 57, 1995).
	falseRate = 0.01
	// leastSpread is the least spread between siblings, of the logarithm: figures are not
	// known better.
	leastSpread = 0.002
	// unsteadyAt is how many times as far apart as the siblings' two best rounds those of
	// a figure are before it counts as unsteady: the noise of healthy GPUs reaches three
	// times its median in about 6 % of them.
	unsteadyAt = 3
	// LeastSiblings is the number of siblings from which a figure can be called off: how much
	// healthy ones differ is not known from fewer.
	LeastSiblings = 8
)

// value is one figure of one rank or GPU.
type value struct {
	of     int    // index into what is compared
	group  string // its siblings
	metric string
	log    float64 // natural logarithm, larger is better
	more   bool    // of a rate; false of a time, whose logarithm has its sign changed
	slack  float64 // share by which it may be worse than its siblings' median
	apart  float64 // of the logarithms of its two best rounds; 0 of one round
	// half is the half-width of the logarithm's own 95 % interval, which takes long and few figures
	// need; nil where it has none.
	half func() float64
}

// worse is the share by which a value is worse than a median of logarithms; negative
// where it is better: of a rate the part that is missing, of a time the part on top.
func (v *value) worse(median float64) float64 {
	if v.more {
		return -math.Expm1(v.log - median)
	}
	return math.Expm1(median - v.log)
}

// judged is a value beside its siblings.
type judged struct {
	value
	siblings int     // all that have the metric, itself included
	median   float64 // of the siblings' logarithms; of fewer than LeastSiblings of the others'
	p        float64 // of being so low by chance; 1 where it was not tested
	unsteady float64 // apart where that is more than usual, else 0
	off      bool
	few      bool // it is worse than the others by more than the slack, and they are too few to call it off
}

// kin says which values are compared: one figure of siblings.
type kin struct{ group, metric string }

// norm is what one figure of siblings comes to, of logarithms.
type norm struct {
	n     int
	c, s  float64 // median and robust spread, at least leastSpread
	apart float64 // how far the two best rounds usually lie apart
}

// normOf is the norm of the values at some places.
func normOf(values []value, at []int) norm {
	logs, aparts := make([]float64, len(at)), make([]float64, len(at))
	for k, i := range at {
		logs[k], aparts[k] = values[i].log, values[i].apart
	}
	return norm{n: len(at), c: stats.Median(logs), s: max(robust(logs), leastSpread), apart: stats.Median(aparts)}
}

// grouped are the places of the values of each figure of siblings.
func grouped(values []value) map[kin][]int {
	by := map[kin][]int{}
	for i, v := range values {
		by[kin{v.group, v.metric}] = append(by[kin{v.group, v.metric}], i)
	}
	return by
}

// beside is a value beside a norm that it is no part of, or one of LeastSiblings or more.
//
// Its distance from the median of n siblings in units of their robust spread is distributed like
// Student's t with 0.4 (n - 1) + 0.5 degrees of freedom at most: in 8 million simulated values of
// normal siblings, 8 to 256 of them, no tail from 1e-2 to 1e-5 is heavier (TestRobustTail).
func (n *norm) beside(v value) judged {
	j := judged{value: v, siblings: n.n, median: n.c, p: 1}
	if v.apart > unsteadyAt*n.apart {
		j.unsteady = v.apart
	}
	if n.n >= LeastSiblings {
		j.p = stats.Effect{Theta: n.c - v.log, SE: math.Hypot(n.s, j.unsteady), Nu: 0.4*float64(n.n-1) + 0.5}.PNotAbove(0)
	} else {
		j.few = n.n > 1 && j.beyond()
	}
	return j
}

// beyond reports whether the figure is worse than its siblings' median by more than the slack.
func (j *judged) beyond() bool { return j.worse(j.median) > j.slack }

// sure reports whether the figure's own interval ends before the median.
func (j *judged) sure() bool { return j.half == nil || j.median-j.log > j.half() }

// doubtful reports whether the figure is beyond the slack and not known well enough to be off.
func (j *judged) doubtful() bool {
	return !j.off && j.siblings >= LeastSiblings && j.beyond() && (j.unsteady > 0 || !j.sure())
}

// judge finds the values that are off, by chance one in a hundred of those named over
// all of them, and worse than the median by more than the slack and than its own interval. Of
// fewer than LeastSiblings none is off. A figure whose two best rounds differ more than
// is usual is not known better than they agree: a disturbance of all rounds seldom slows
// two of them alike, a slow GPU is slow by the same in each. The result has the order of the values.
func judge(values []value) []judged {
	out := make([]judged, len(values))
	for _, group := range grouped(values) {
		all := normOf(values, group)
		for _, i := range group {
			n := all
			if few := len(group); few > 1 && few < LeastSiblings {
				n.c = medianWithout(values, group, i)
			}
			out[i] = n.beside(values[i])
		}
	}
	name(out)
	return out
}

// name calls those off that were tested, where the rate of false discoveries allows it: the
// largest k whose k-th smallest p is at most k/n of the rate, and all up to it.
func name(all []judged) {
	var tested []int
	for i := range all {
		if all[i].siblings >= LeastSiblings {
			tested = append(tested, i)
		}
	}
	slices.SortFunc(tested, func(a, b int) int { return cmp.Or(cmp.Compare(all[a].p, all[b].p), cmp.Compare(a, b)) })
	last := -1
	for k, i := range tested {
		if all[i].p <= falseRate*float64(k+1)/float64(len(tested)) {
			last = k
		}
	}
	for _, i := range tested[:last+1] {
		all[i].off = all[i].beyond() && all[i].sure()
	}
}

// medianWithout is the median of the others: of two siblings neither may vouch for itself.
func medianWithout(values []value, group []int, own int) float64 {
	var others []float64
	for _, i := range group {
		if i != own {
			others = append(others, values[i].log)
		}
	}
	return stats.Median(others)
}

// robust is 1.4826 times the median distance from the median: the standard deviation of
// a normal sample, which a few strangers do not move.
func robust(v []float64) float64 {
	c := stats.Median(v)
	far := make([]float64, len(v))
	for i, x := range v {
		far[i] = math.Abs(x - c)
	}
	return 1.4826 * stats.Median(far)
}

// spreads are the robust standard deviations within and between nodes, of logarithms;
// NaN where there are too few.
func spreads(nodes map[string][]float64) (within, between float64) {
	var about, middles []float64
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		c := stats.Median(nodes[name])
		middles = append(middles, c)
		if len(nodes[name]) > 1 {
			for _, v := range nodes[name] {
				about = append(about, v-c)
			}
		}
	}
	within, between = math.NaN(), math.NaN()
	if len(about) > 0 {
		within = robust(about)
	}
	if len(middles) > 1 {
		between = robust(middles)
	}
	return within, between
}
