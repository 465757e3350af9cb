package view

import (
	"math"
	"strconv"

	"github.com/gpuprof/gpuprof"
)

// Three significant digits are what a median with an interval of about one
// percent carries. When both ends of an interval print alike with three,
// digits are added until they differ, so that a quiet machine is not robbed.
const (
	fewDigits  = 3
	mostDigits = 5
)

type prefix struct {
	size float64
	unit string
}

func secondPrefixes() []prefix {
	return []prefix{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}
}

func ratePrefixes(unit string) []prefix {
	return []prefix{{1e12, "T" + unit}, {1e9, "G" + unit}, {1e6, "M" + unit}, {1e3, "k" + unit}, {1, unit}}
}

func prefixesOf(unit string) []prefix {
	switch unit {
	case "s":
		return secondPrefixes()
	case "J":
		return joulePrefixes()
	}
	return ratePrefixes(unit)
}

func joulePrefixes() []prefix {
	return []prefix{{1e3, "kJ"}, {1, "J"}, {1e-3, "mJ"}, {1e-6, "uJ"}}
}

// Joules prints an energy with three digits, or None.
func Joules(v float64) string { return scaled(v, fewDigits, joulePrefixes()) }

// scaled prints v with the prefix that keeps it between 1 and 1000.
func scaled(v float64, digits int, prefixes []prefix) string {
	if !Finite(v) {
		return None
	}
	if v == 0 {
		return "0 " + prefixes[len(prefixes)-1].unit
	}
	// Rounded first, so that 999.96 us prints as 1.00 ms rather than 1000 us.
	size := math.Abs(rounded(v, digits))
	p := prefixes[len(prefixes)-1]
	for _, q := range prefixes {
		if size >= q.size*(1-1e-9) {
			p = q
			break
		}
	}
	return significant(v/p.size, digits) + " " + p.unit
}

// significant prints v with n significant digits and no exponent unless it
// is tiny; digits before the point are never rounded away.
func significant(v float64, n int) string {
	r := rounded(v, n)
	if r == 0 || !Finite(r) {
		return "0"
	}
	// The addend lifts logarithms of powers of ten that come out just below.
	whole := int(math.Floor(math.Log10(math.Abs(r))+1e-12)) + 1
	if whole < -4 {
		return strconv.FormatFloat(v, 'g', n, 64)
	}
	return strconv.FormatFloat(v, 'f', max(0, n-whole), 64)
}

// rounded is v with n significant digits.
func rounded(v float64, n int) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', n-1, 64), 64)
	if err != nil {
		return v
	}
	return out
}

// digitsFor is how many digits a series' figures are printed with.
func digitsFor(s *gpuprof.Series) int {
	if s == nil || !Finite(s.CI95[0]) || !Finite(s.CI95[1]) || s.CI95[0] == s.CI95[1] {
		return fewDigits
	}
	for n := fewDigits; n < mostDigits; n++ {
		if rounded(s.CI95[0], n) != rounded(s.CI95[1], n) {
			return n
		}
	}
	return mostDigits
}

// Seconds prints a time with three digits, or None.
func Seconds(v float64) string { return scaled(v, fewDigits, secondPrefixes()) }

// NS is Seconds of a time of a trace, in nanoseconds.
func NS(v int64) string { return Seconds(gpuprof.Seconds(v)) }

// Median prints the median of a series of seconds, or None.
func Median(s *gpuprof.Series) string { return RateText(s, "s") }

// Cell is Median for a table, where nothing reads better than a zero: a
// stage that does not happen must not look like one that was timed.
func Cell(s *gpuprof.Series) string {
	if Usable(s) == nil || s.Median == 0 {
		return None
	}
	return Median(s)
}

// RateText prints the median of a series in a unit: "51.8 kprobes/s", "12.3 ms".
func RateText(s *gpuprof.Series, unit string) string {
	if Usable(s) == nil {
		return None
	}
	return scaled(s.Median, digitsFor(s), prefixesOf(unit))
}

// SI prints a quantity with three digits and a decimal prefix.
func SI(v float64, unit string) string { return scaled(v, fewDigits, ratePrefixes(unit)) }

// Percent prints a share with one digit after the point: "63.1 %". What is
// there but would print as zero is "<0.1 %".
func Percent(v float64) string {
	switch {
	case !Finite(v):
		return None
	case v > 0 && v < 0.0005:
		return "<0.1 %"
	}
	return strconv.FormatFloat(v*100, 'f', 1, 64) + " %"
}

// ShareCell is a stage's share in a table; None when it has none.
func ShareCell(s Stage) string {
	if s.Exposed == nil || s.Share == 0 {
		return None
	}
	return Percent(s.Share)
}

// HalfWidth is the larger half of a series' interval over its median, with
// two digits: "0.38 %". More would be noise about noise.
func HalfWidth(s *gpuprof.Series) string {
	if Usable(s) == nil || s.Median == 0 {
		return None
	}
	half := max(s.Median-s.CI95[0], s.CI95[1]-s.Median) / s.Median
	switch {
	case !Finite(half):
		return None
	case half > 9.99: // a few samples that differ by factors
		return ">999 %"
	}
	return Percent2(half)
}

// Percent2 prints a share with two digits: "0.38 %".
func Percent2(v float64) string {
	if v != 0 && math.Abs(v) < 0.00005 {
		return "<0.01 %"
	}
	return significant(v*100, 2) + " %"
}

// Rate prints a rate in units of 1e9 with three digits: "12.3".
func Rate(v float64) string {
	if !Finite(v) || v <= 0 {
		return None
	}
	return significant(v/1e9, fewDigits)
}

// Times prints a ratio as a factor: "1.90".
func Times(v float64) string { return significant(v, fewDigits) }
