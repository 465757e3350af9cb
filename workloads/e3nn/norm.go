package e3nn

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// mergeChecks keeps the worse of two checks of a stage.
func mergeChecks(a, b []gpuprof.Check) []gpuprof.Check {
	for _, c := range b {
		i := slices.IndexFunc(a, func(x gpuprof.Check) bool { return x.Stage == c.Stage })
		switch {
		case i < 0:
			a = append(a, c)
		case !(c.RelativeError <= a[i].RelativeError): // worse, or not a number
			c.Rows = a[i].Rows
			a[i] = c
		}
	}
	return a
}

// errorNorm adds up ||out-ref||^2 and ||ref||^2.
type errorNorm struct {
	diff, ref float64
	used      bool
}

func (e *errorNorm) add(out []float32, ref []float64) {
	e.used = true
	for i, r := range ref {
		d := float64(out[i]) - r
		e.diff += d * d
		e.ref += r * r
	}
}

// relative is ||out-ref||/||ref||; where the reference is all zero, any
// difference is infinite.
func (e errorNorm) relative() float64 {
	if e.ref == 0 {
		if e.diff == 0 {
			return 0
		}
		return math.Inf(1)
	}
	return math.Sqrt(e.diff / e.ref)
}

// pickRows takes all rows, or 64 random ones, the first and last, and the longest.
func pickRows(rng *rand.Rand, rowptr []int32, whole bool) []int {
	n := len(rowptr) - 1
	if whole || n <= sampledRows {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all
	}
	longest := 0
	for r := range n {
		if rowptr[r+1]-rowptr[r] > rowptr[longest+1]-rowptr[longest] {
			longest = r
		}
	}
	rows := rng.Perm(n)[:sampledRows]
	rows = append(rows, 0, n-1, longest)
	slices.Sort(rows)
	return slices.Compact(rows)
}

// silent is the probe of an unmeasured step.
type silent struct{}

func (silent) Start(int) error               { return nil }
func (silent) Begin(int, gpuprof.Stream) int { return -1 }
func (silent) End(int)                       {}

func floats64(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
