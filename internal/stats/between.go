package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// leastFreedom is the least number of degrees of freedom of AnotherProcess's estimate: five processes of one session.
const leastFreedom = 4

// AnotherProcess bounds the difference between the medians of this process and of one more process, as a share: 95 %
// of processes are within a factor of 1 + share, up or down, if processes and sessions are lognormal. The median
// over all processes is closer.
//
// programs holds earlier measurements: programs (the same work by the same build), each with its sessions, each
// with the log medians of its processes. The variance follows a one-way random model of sessions, and processes
// within them (Searle, Casella and McCulloch, Variance Components, 1992, section 3.6), pooled over the programs.
// With MSB and MSW the mean squares between and within sessions of n0 processes,
//
//	s^2 = MSB/n0 + (1 - 1/n0) MSW,  share = exp(t sqrt(2) s) - 1
//
// where t has Satterthwaite's degrees of freedom (Biometrics Bulletin 2, 1946). ok is false with fewer than four.
func AnotherProcess(programs [][][]float64) (share float64, ok bool) {
	var between, within, nb, nw, count, squares float64
	for _, sessions := range programs {
		var all, n, sq, groups float64
		sessions = subtractFirst(sessions)
		for _, s := range sessions {
			if len(s) == 0 {
				continue
			}
			mean, variance := stat.PopMeanVariance(s, nil)
			size := float64(len(s))
			within += size * variance
			all, n, sq, groups = all+size*mean, n+size, sq+size*size, groups+1
		}
		if n == 0 {
			continue
		}
		for _, s := range sessions {
			if len(s) > 0 {
				d := stat.Mean(s, nil) - all/n
				between += float64(len(s)) * d * d
			}
		}
		nb, nw, count, squares = nb+groups-1, nw+n-groups, count+n, squares+sq/n
	}
	variance, nu := varianceComponents(between, within, nb, nw, count, squares)
	if !(nu >= leastFreedom) || math.IsNaN(variance) || math.IsInf(variance, 0) {
		return 0, false
	}
	return math.Expm1(studentT(nu) * math.Sqrt(2*variance)), true
}

// subtractFirst subtracts the first value from all, so that equal processes give exact zeros without rounding.
func subtractFirst(sessions [][]float64) [][]float64 {
	out := make([][]float64, len(sessions))
	var first *float64
	for i, s := range sessions {
		for k := range s {
			if first == nil {
				first = &s[k]
			}
			out[i] = append(out[i], s[k]-*first)
		}
	}
	return out
}

// varianceComponents returns the variance of a single process of a single session, and its degrees of freedom. between
// and within are sums of squares with nb and nw degrees of freedom. count is the number of processes. squares is a sum
// over programs: of the squared session sizes, divided by the program's number of processes. If sessions differ no more
// than processes do, both variances are pooled.
func varianceComponents(between, within, nb, nw, count, squares float64) (variance, nu float64) {
	if nb+nw == 0 {
		return 0, 0
	}
	pooled := (between + within) / (nb + nw)
	if nb == 0 || nw > 0 && between/nb <= within/nw {
		return pooled, nb + nw
	}
	msb, msw := between/nb, 0.0
	if nw > 0 {
		msw = within / nw
	}
	n0 := (count - squares) / nb
	a, b := msb/n0, (1-1/n0)*msw
	variance = a + b
	terms := a * a / nb
	if nw > 0 {
		terms += b * b / nw
	}
	if terms == 0 { // all processes gave the same value
		return variance, nb + nw
	}
	return variance, variance * variance / terms
}
