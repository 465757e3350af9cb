package view

import (
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Cost formats a figure in a goal's unit: seconds, joules, bytes, or these per unit of work ("12.3 us per probe").
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

// PointInterval formats the interval of a tuning figure in its goal's unit. A zero interval is unknown.
func PointInterval(ci [2]float64, unit string) string {
	if ci == [2]float64{} {
		return "too few blocks for an interval"
	}
	return Interval(ci, func(v float64) string { return Cost(v, unit) })
}
