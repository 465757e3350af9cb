package gpuprof

import (
	"math"
	"strconv"
	"strings"
)

// FormatRatio formats a ratio as a factor, "x1.285", with more digits near one; "unknown" if it is not finite.
func FormatRatio(v float64) string {
	if !IsFinite(v) {
		return "unknown"
	}
	return "x" + FormatFactor(v)
}

// FormatFactor is FormatRatio without the "x", for ends of intervals and for axes.
func FormatFactor(v float64) string {
	switch a := math.Abs(v); {
	case !IsFinite(v):
		return "unknown"
	case a >= 1e9, a < 0.0005 && a > 0:
		return strconv.FormatFloat(v, 'e', 1, 64)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// FormatP formats a p-value: "0.012". Below 0.001 it is "<0.001", since no noise model holds there.
func FormatP(p float64) string {
	switch {
	case math.IsNaN(p):
		return "unknown"
	case p < 0.001:
		return "<0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// FormatCount formats a count as "1,234,567". A fractional value has up to five digits, or from 1,000 on one decimal.
func FormatCount(v float64) string {
	const most = 1e15
	switch a := math.Abs(v); {
	case !IsFinite(v):
		return "unknown"
	case v == math.Trunc(v) && a < most:
		return separated(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 1000 && a < most:
		return separated(strconv.FormatFloat(v, 'f', 1, 64))
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

// separated puts commas between groups of three digits before the decimal point.
func separated(digits string) string {
	whole, rest, point := strings.Cut(digits, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if point {
		whole += "." + rest
	}
	return sign + whole
}

// FormatInterval formats the 95 % interval of a ratio; "" without one. Its ends are changes, "95 % +25.1 % to +32.0 %",
// or factors for a ratio of two or more, "95 % x3.900 to x5.600".
func FormatInterval(ratio, low, high float64) string {
	switch {
	case !isPositive(low) || !isPositive(high):
		return ""
	case ratio >= 2:
		return "95 % " + FormatRatio(low) + " to " + FormatRatio(high)
	}
	return "95 % " + FormatChange(low-1) + " to " + FormatChange(high-1)
}

// FormatRatioChange formats a ratio below two as a change and a larger one as a factor, with its 95 % interval if there
// is one: "+28.5 % (95 % +25.1 % to +32.0 %)", "x4.300 (95 % x3.900 to x5.600)". It returns "" without a ratio.
func FormatRatioChange(ratio, low, high float64) string {
	if !isPositive(ratio) {
		return ""
	}
	text := FormatChange(ratio - 1)
	if ratio >= 2 {
		text = FormatRatio(ratio)
	}
	if span := FormatInterval(ratio, low, high); span != "" {
		text += " (" + span + ")"
	}
	return text
}
