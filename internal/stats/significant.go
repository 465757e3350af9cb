package stats

import "strconv"

// StoredDigits are the significant digits of a time in a stored baseline: a part
// in a billion, far below what any clock resolves of a step.
const StoredDigits = 9

// Significant is v rounded to so many significant digits; NaN and infinities
// stay what they are.
func Significant(v float64, digits int) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v
	}
	return out
}
