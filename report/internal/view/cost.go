package view

import (
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Cost prints a figure in the unit of a tuning goal: seconds, joules or bytes,
// or the first two for a unit of work ("s per probe" gives "12.3 us per probe").
func Cost(v float64, unit string) string {
	base, work, per := strings.Cut(unit, " per ")
	if per {
		work = " per " + Cut(work, 24)
	}
	switch base {
	case "B":
		return gpuprof.FormatBytes(v) + work
	case "s":
		return Seconds(v) + work
	case "J":
		return Joules(v) + work
	}
	return SI(v, Cut(base, 24)) + work
}

// PointInterval prints the interval of a figure that tune states, in the unit
// of its goal; zeros are one that is not known.
func PointInterval(ci [2]float64, unit string) string {
	if ci == [2]float64{} {
		return "too few blocks for an interval"
	}
	return Interval(ci, func(v float64) string { return Cost(v, unit) })
}
