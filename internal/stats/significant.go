package stats

import "strconv"

// StoredDigits is the number of significant digits of a stored time, far below any clock's resolution.
const StoredDigits = 9

// Significant rounds v to a number of significant digits; NaN and infinities remain unchanged.
func Significant(v float64, digits int) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v
	}
	return out
}
