package view

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gpuprof/gpuprof"
)

// formatFigure is gpuprof.Format; None for a value that is not finite.
func formatFigure(v float64, unit string, digits int) string {
	if !gpuprof.IsFinite(v) {
		return None
	}
	return gpuprof.Format(v, unit, digits)
}

// Joules prints an energy, or None.
func Joules(v float64) string { return formatFigure(v, "J", gpuprof.Digits) }

// Seconds prints a time, or None.
func Seconds(v float64) string { return formatFigure(v, "s", gpuprof.Digits) }

// Median formats the median of a series of seconds, or None.
func Median(s *gpuprof.Series) string { return RateText(s, "s") }

// Cell formats a median for a table, as Median does, but with None for 0: a stage that did not run must not look timed.
func Cell(s *gpuprof.Series) string {
	if Usable(s) == nil || s.Median == 0 {
		return None
	}
	return Median(s)
}

// RateText formats the median of a series in a unit: "51.8 kprobes/s", "12.3 ms".
func RateText(s *gpuprof.Series, unit string) string {
	if Usable(s) == nil {
		return None
	}
	return formatFigure(s.Median, unit, s.Digits())
}

// SI prints a quantity with a decimal prefix, or None.
func SI(v float64, unit string) string { return formatFigure(v, unit, gpuprof.Digits) }

// mostPercent is the largest share printed in full. With 16 cores, 1,600 % is an ordinary load.
const mostPercent = 9999.99

// Percent formats a share with one decimal: "63.1 %". A positive share that would round to 0 is "<0.1 %".
func Percent(v float64) string {
	switch {
	case !gpuprof.IsFinite(v):
		return None
	case v > 0 && v < 0.0005:
		return "<0.1 %"
	case v > mostPercent:
		return ">999999 %"
	}
	return strconv.FormatFloat(v*100, 'f', 1, 64) + " %"
}

// ShareCell formats a stage's share for a table; None if it has none.
func ShareCell(s Stage) string {
	if s.Exposed == nil || s.Share == 0 {
		return None
	}
	return Percent(s.Share)
}

// HalfWidth formats the larger half of a series' interval, divided by its median, with two digits: "0.38 %".
func HalfWidth(s *gpuprof.Series) string {
	if Usable(s) == nil || s.Median == 0 {
		return None
	}
	half := max(s.Median-s.CI95[0], s.CI95[1]-s.Median) / s.Median
	switch {
	case !gpuprof.IsFinite(half):
		return None
	case half > gpuprof.MostShare: // a few samples that differ by factors
		return gpuprof.FormatPercent(half, 2)
	}
	return Percent2(half)
}

// Percent2 formats a share with two digits: "0.38 %".
func Percent2(v float64) string {
	switch {
	case v != 0 && math.Abs(v) < 0.00005:
		return "<0.01 %"
	case !gpuprof.IsFinite(v) || v > mostPercent:
		return Percent(v)
	}
	return gpuprof.Significant(v*100, 2) + " %"
}

// Rate formats a rate in units of 1e9 with three digits: "12.3".
func Rate(v float64) string {
	if !gpuprof.IsFinite(v) || v <= 0 {
		return None
	}
	return gpuprof.Significant(v/1e9, gpuprof.Digits)
}

// Times formats a factor: "1.90".
func Times(v float64) string { return gpuprof.Significant(v, gpuprof.Digits) }

// Change formats a share as a change: "+5.3 %".
func Change(share float64) string {
	if !gpuprof.IsFinite(share) {
		return None
	}
	if share > mostPercent {
		return "+" + Percent(share)
	}
	return fmt.Sprintf("%+.1f %%", 100*share)
}

// Date formats a time; "" for the zero time.
func Date(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}
