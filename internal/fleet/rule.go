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
	// LeastSiblings is the number of siblings from which a rate of errors is promised.
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
	median   float64 // of the siblings' logarithms
	p        float64 // of being so low by chance; 1 where it was not tested
	off      bool
}

// judge finds the values that are off, by chance one in a hundred of those named over
// all of them, and worse than the median by more than the slack. With fewer than
// LeastSiblings the slack alone decides. The result has the order of the values.
func judge(values []value) []judged {
	type key struct{ group, metric string }
	by := map[key][]int{}
	for i, v := range values {
		by[key{v.group, v.metric}] = append(by[key{v.group, v.metric}], i)
	}
	out := make([]judged, len(values))
	var tested []int
	for _, group := range by {
		logs := make([]float64, len(group))
		for k, i := range group {
			logs[k] = values[i].log
		}
		c := stats.Median(logs)
		s := max(robust(logs), leastSpread)
		for _, i := range group {
			j := judged{value: values[i], siblings: len(group), median: c, p: 1}
			if len(group) >= LeastSiblings {
				j.p = math.Erfc((c-values[i].log)/s/math.Sqrt2) / 2 // the normal distribution's lower tail
				tested = append(tested, i)
			} else if len(group) > 1 {
				j.off = j.worse(medianWithout(logs, values[i].log)) > j.slack
			}
			out[i] = j
		}
	}
	// The largest k whose k-th smallest p is at most k/n of the rate; all up to it are named.
	slices.SortFunc(tested, func(a, b int) int { return cmp.Or(cmp.Compare(out[a].p, out[b].p), cmp.Compare(a, b)) })
	last := -1
	for k, i := range tested {
		if out[i].p <= falseRate*float64(k+1)/float64(len(tested)) {
			last = k
		}
	}
	for _, i := range tested[:last+1] {
		out[i].off = out[i].worse(out[i].median) > out[i].slack
	}
	return out
}

// medianWithout is the median of the others: of two siblings neither may vouch for itself.
func medianWithout(logs []float64, own float64) float64 {
	at := slices.Index(logs, own)
	return stats.Median(slices.Delete(slices.Clone(logs), at, at+1))
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
