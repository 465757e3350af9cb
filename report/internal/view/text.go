// Package view has the derived figures (shares, rates, bounds) and the words that all reports of a run share.
package view

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gpuprof/gpuprof"
)

// None replaces a figure that does not apply or is not a number.
const None = "-"

// Cut is gpuprof.Cut.
func Cut(s string, limit int) string { return gpuprof.Cut(s, limit) }

// CutPlace is Cut for a code place. It cuts the front of the path and keeps the file and line.
func CutPlace(s string, limit int) string {
	n := utf8.RuneCountInString(s)
	if limit <= 0 || n <= limit || !strings.ContainsAny(s, `/\`) {
		return Cut(s, limit)
	}
	for n >= limit {
		_, size := utf8.DecodeRuneInString(s)
		s, n = s[size:], n-1
	}
	if at := strings.IndexAny(s, `/\`); at >= 0 && !strings.ContainsAny(s[:at], ":( ") {
		s = s[at:]
	}
	return "…" + s
}

// LeftToRight adds a mark to right-to-left text, so that a terminal keeps the figures after it in their columns.
func LeftToRight(s string) string {
	if strings.ContainsFunc(s, rightToLeft) {
		return s + "\u200e"
	}
	return s
}

func rightToLeft(c rune) bool {
	return unicode.In(c, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Samaritan, unicode.Mandaic, unicode.Adlam)
}

// Usable returns s if it has a finite median, and nil otherwise.
func Usable(s *gpuprof.Series) *gpuprof.Series {
	if !s.Usable() {
		return nil
	}
	return s
}

// Samples returns the finite samples, one list per process that has any.
func Samples(s *gpuprof.Series) [][]float64 {
	if s == nil {
		return nil
	}
	var out [][]float64
	for _, run := range s.Runs {
		var ok []float64
		for _, v := range run {
			if gpuprof.IsFinite(v) {
				ok = append(ok, v)
			}
		}
		if len(ok) > 0 {
			out = append(out, ok)
		}
	}
	return out
}

// Interval formats the two ends of an interval. A unit that they share is printed once: "12.3 to 12.4 ms".
func Interval(ci [2]float64, format func(float64) string) string {
	if !gpuprof.IsFinite(ci[0]) || !gpuprof.IsFinite(ci[1]) {
		return None
	}
	lo, hi := format(ci[0]), format(ci[1])
	loNum, loUnit, _ := strings.Cut(lo, " ")
	if _, hiUnit, _ := strings.Cut(hi, " "); loUnit == hiUnit {
		lo = loNum
	}
	return lo + " to " + hi
}

// SeriesInterval formats the interval of a series of seconds, or None.
func SeriesInterval(s *gpuprof.Series) string { return IntervalIn(s, "s") }

// IntervalIn formats the interval of a series in a unit, or None.
func IntervalIn(s *gpuprof.Series, unit string) string {
	if Usable(s) == nil {
		return None
	}
	n := s.Digits()
	return Interval(s.CI95, func(v float64) string { return formatFigure(v, unit, n) })
}

// Processes returns the number of processes with samples in a series; 0 for nil.
func Processes(s *gpuprof.Series) int {
	if s == nil {
		return 0
	}
	n := 0
	for _, r := range s.Runs {
		if len(r) > 0 {
			n++
		}
	}
	return n
}

// fewest is the least number of samples of one process for a 95 % interval. With fewer samples, the interval of a
// series is the range of the samples.
const fewest = 6

// IntervalName names a series' interval: "95 %", or "range" for few samples of one process. The range of such samples
// is no bound for other processes.
func IntervalName(s *gpuprof.Series) string {
	if Processes(s) == 1 && s.N() < fewest {
		return "range"
	}
	return "95 %"
}

// Alike reports whether a series has no interval because its samples are almost equal.
func Alike(s *gpuprof.Series) bool { return Usable(s) != nil && !s.CI95.Known() }

// IntervalScope returns which variation an interval covers: "between processes" or "within one process".
func IntervalScope(s *gpuprof.Series) string {
	if Processes(s) > 1 {
		return "between processes"
	}
	return "within one process"
}

// MetricLabels formats the labels of a sample for Prometheus and OpenMetrics. It omits empty labels.
func MetricLabels(labels [][2]string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var parts []string
	for _, l := range labels {
		if l[1] != "" {
			parts = append(parts, l[0]+`="`+escape.Replace(l[1])+`"`)
		}
	}
	return strings.Join(parts, ",")
}
