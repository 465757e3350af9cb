package op

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// ErrorNorm sums ||out-ref||^2 (Diff) and ||ref||^2 (Ref) over the outputs of a stage.
type ErrorNorm struct {
	Diff, Ref float64
	Used      bool // whether any output was compared
}

// Add adds the squared errors of a device's float32 output, and the squares of the float64 reference.
func (e *ErrorNorm) Add(out []float32, ref []float64) {
	e.Used = true
	for i, r := range ref {
		d := float64(out[i]) - r
		e.Diff += d * d
		e.Ref += r * r
	}
}

// AddWide is Add for an output in float64.
func (e *ErrorNorm) AddWide(out, ref []float64) {
	e.Used = true
	for i, r := range ref {
		e.Diff += (out[i] - r) * (out[i] - r)
		e.Ref += r * r
	}
}

// Same compares a and b bit for bit: any difference makes the error infinite.
func (e *ErrorNorm) Same(a, b []float32) {
	e.Used = true
	if !slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }) {
		e.Diff = math.Inf(1)
	}
}

// Relative returns ||out-ref||/||ref||. If the reference is all zero, any difference gives infinity.
func (e ErrorNorm) Relative() float64 {
	if e.Ref == 0 {
		if e.Diff == 0 {
			return 0
		}
		return math.Inf(1)
	}
	return math.Sqrt(e.Diff / e.Ref)
}

// ItemErrors keeps the largest error of a single item (a cell, a row, an atom), which a norm over all items can hide.
type ItemErrors struct {
	worst, ref  float64 // the largest ||out-ref||^2 of an item, and the sum of ||ref||^2 over items
	items, some int     // compared items, and how many of them have a non-zero reference
}

// Add compares one item with its reference.
func (e *ItemErrors) Add(out []float32, ref []float64) {
	var one ErrorNorm
	one.Add(out, ref)
	e.items++
	if e.ref += one.Ref; one.Ref > 0 {
		e.some++
	}
	if !(one.Diff <= e.worst) && !math.IsNaN(e.worst) {
		e.worst = one.Diff
	}
}

// Items returns the number of compared items.
func (e *ItemErrors) Items() int { return e.items }

// Relative returns the largest ||out-ref|| of an item, divided by the root mean square of ||ref|| over items with a
// non-zero reference. If every reference is zero, any difference gives infinity.
func (e *ItemErrors) Relative() float64 {
	return ErrorNorm{Diff: e.worst * float64(max(e.some, 1)), Ref: e.ref}.Relative()
}

// MergeChecks joins two lists of checks; of two checks of the same stage it keeps the worse.
func MergeChecks(a, b []gpuprof.Check) []gpuprof.Check {
	for _, c := range b {
		i := slices.IndexFunc(a, func(x gpuprof.Check) bool { return x.Stage == c.Stage })
		switch {
		case i < 0:
			a = append(a, c)
		case Worse(a[i].RelativeError, c.RelativeError):
			c.Rows = a[i].Rows
			a[i] = c
		}
	}
	return a
}

// Worse reports whether error b is larger than a. NaN is worse than any number, and nothing is worse than NaN.
func Worse(a, b gpuprof.Number) bool { return !math.IsNaN(float64(a)) && !(b <= a) }

// As converts a slice between float32 and float64; with equal types it copies the slice.
func As[T, F float32 | float64](x []F) []T {
	out := make([]T, len(x))
	for i, v := range x {
		out[i] = T(v)
	}
	return out
}

// EachSlot runs check for each of a session's slots (its steps in flight) and merges the results. After an error it
// returns the results so far.
func EachSlot(slots int, check func(slot int) ([]gpuprof.Check, error)) (out []gpuprof.Check, err error) {
	for k := range slots {
		found, err := check(k)
		if err != nil {
			return out, err
		}
		out = MergeChecks(out, found)
	}
	return out, nil
}

// ReferenceSeconds estimates the seconds that the reference takes for all stages at flopsPerS counted operations/s.
func ReferenceSeconds(stages []gpuprof.Stage, flopsPerS float64) float64 {
	var flops int64
	for _, st := range stages {
		flops += st.Minimum.Flops
	}
	return float64(flops) / flopsPerS
}
