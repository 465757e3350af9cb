package fleet

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/stats"
)

const (
	// falseRate is the false discovery rate (Benjamini and Hochberg, J. R. Stat. Soc. B 57, 1995).
	falseRate = 0.01
	// leastSpread is the lower limit of a figure's robust standard deviation among siblings, in natural logarithms: no
	// measurement is more precise.
	leastSpread = 0.002
	// unsteadyAt limits the difference between a figure's two best rounds, in multiples of the siblings' median
	// difference. Above, the figure is unsteady; about 6 % of healthy GPUs are.
	unsteadyAt = 3
	// LeastSiblings is the least number of siblings with which a figure can be off: fewer do not determine the spread.
	LeastSiblings = 8
)

// value is one figure of a rank or GPU before it is judged.
type value struct {
	of     int    // index into the compared ranks or GPUs
	group  string // name of the group of siblings
	metric string
	log    float64 // natural logarithm, negated for a time: larger is better
	more   bool    // true for a rate, false for a time
	slack  float64 // share by which the figure may be worse than the siblings' median
	apart  float64 // difference between the logarithms of the two best rounds; 0 with one round
	// half returns the half-width of log's 95 % interval; nil without an interval. It is a function because few figures
	// need it and it is slow.
	half func() float64
}

// worseShare returns the share by which a value is worse than a median of logarithms, negative if better: for a rate
// the missing share, for a time the additional share.
func (v *value) worseShare(median float64) float64 {
	if v.more {
		return -math.Expm1(v.log - median)
	}
	return math.Expm1(median - v.log)
}

// judged is a value with the result of its comparison with its siblings.
type judged struct {
	value
	siblings int     // number of values of the group, with this one
	median   float64 // of the siblings' logarithms; below LeastSiblings without this value
	p        float64 // probability of such a value by chance; 1 if not tested
	unsteady float64 // value.apart if unusually large, else 0
	off      bool
	few      bool // worse by more than the slack, but with too few siblings to be off
}

// siblingMetric identifies a group of comparable values: one metric of one group of siblings.
type siblingMetric struct{ group, metric string }

// norm is the distribution of the logarithms of n comparable values.
type norm struct {
	n     int
	c, s  float64 // median and robust spread, at least leastSpread
	apart float64 // median difference between the two best rounds
}

func normOf(values []value, at []int) norm {
	logs, aparts := make([]float64, len(at)), make([]float64, len(at))
	for k, i := range at {
		logs[k], aparts[k] = values[i].log, values[i].apart
	}
	return norm{n: len(at), c: stats.Median(logs), s: max(robustSpread(logs), leastSpread), apart: stats.Median(aparts)}
}

// groupBySiblings returns the indices of the values of each siblingMetric.
func groupBySiblings(values []value) map[siblingMetric][]int {
	by := map[siblingMetric][]int{}
	for i, v := range values {
		by[siblingMetric{v.group, v.metric}] = append(by[siblingMetric{v.group, v.metric}], i)
	}
	return by
}

// judgeAgainst compares a value with a norm. A norm of fewer than LeastSiblings values must not include the value. In
// units of the robust spread, the distance of a value from the median of n siblings has no heavier tail than Student's
// t with 0.4 (n - 1) + 0.5 degrees of freedom. In 8 million simulated values of 8 to 256 normal siblings this holds for
// tails from 1e-2 to 1e-5 (TestRobustTail).
func (n *norm) judgeAgainst(v value) judged {
	j := judged{value: v, siblings: n.n, median: n.c, p: 1}
	if v.apart > unsteadyAt*n.apart {
		j.unsteady = v.apart
	}
	if n.n >= LeastSiblings {
		j.p = stats.Effect{Theta: n.c - v.log, SE: math.Hypot(n.s, j.unsteady), Nu: 0.4*float64(n.n-1) + 0.5}.PNotAbove(0)
	} else {
		j.few = n.n > 1 && j.exceedsSlack()
	}
	return j
}

// exceedsSlack reports whether the figure is worse than its siblings' median by more than the tolerated share (slack).
func (j *judged) exceedsSlack() bool { return j.worseShare(j.median) > j.slack }

// intervalExcludesMedian reports whether the figure's own 95 % interval excludes the siblings' median.
func (j *judged) intervalExcludesMedian() bool { return j.half == nil || j.median-j.log > j.half() }

// isDoubtful reports whether the figure is worse by more than the tolerated share (slack), but too uncertain to be off.
func (j *judged) isDoubtful() bool {
	return !j.off && j.siblings >= LeastSiblings && j.exceedsSlack() && (j.unsteady > 0 || !j.intervalExcludesMedian())
}

// judgeValues judges values against their siblings, in the order of the input, at a false discovery rate of falseRate.
// A value is off if it has LeastSiblings or more siblings, and is worse than their median by more than the slack and by
// more than its own interval. An unusual difference between a figure's two best rounds adds to its uncertainty: a slow
// GPU slows all rounds equally, a disturbance rarely does.
func judgeValues(values []value) []judged {
	out := make([]judged, len(values))
	for _, group := range groupBySiblings(values) {
		all := normOf(values, group)
		for _, i := range group {
			n := all
			if few := len(group); few > 1 && few < LeastSiblings {
				n.c = medianWithout(values, group, i)
			}
			out[i] = n.judgeAgainst(values[i])
		}
	}
	markOff(out)
	return out
}

// markOff marks the tested values that are off by the Benjamini-Hochberg procedure. It finds the largest k whose k-th
// smallest p is at most k/n of falseRate; the k smallest are off if they also exceed slack and interval.
func markOff(all []judged) {
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
		all[i].off = all[i].exceedsSlack() && all[i].intervalExcludesMedian()
	}
}

// medianWithout returns the median of a group's other values: in a small group, a value must not shift the median that
// it is compared with.
func medianWithout(values []value, group []int, own int) float64 {
	var others []float64
	for _, i := range group {
		if i != own {
			others = append(others, values[i].log)
		}
	}
	return stats.Median(others)
}

func medianOf[T any](all []T, of func(T) float64) float64 {
	v := make([]float64, len(all))
	for i, x := range all {
		v[i] = of(x)
	}
	return stats.Median(v)
}

// robustSpread returns 1.4826 times the median absolute deviation, a robust standard deviation.
func robustSpread(v []float64) float64 {
	c := stats.Median(v)
	return 1.4826 * medianOf(v, func(x float64) float64 { return math.Abs(x - c) })
}

// nodeSpreads returns two robust standard deviations of logarithms: of the values about their node's median (within),
// and of the nodes' medians (between). It returns NaN with too few values.
func nodeSpreads(nodes map[string][]float64) (within, between float64) {
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
		within = robustSpread(about)
	}
	if len(middles) > 1 {
		between = robustSpread(middles)
	}
	return within, between
}
