package op

import "math"

// RefReduce reduces x [rows,C] to out [C].
func RefReduce(s Reduce, x, out []float64) {
	rows := len(x) / s.C
	for c := range out {
		sum, m := 0.0, math.Inf(-1)
		for r := range rows {
			sum += x[r*s.C+c]
			m = max(m, x[r*s.C+c]) // a NaN stays
		}
		switch s.Op {
		case "sum":
			out[c] = sum
		case "mean":
			out[c] = sum / float64(rows)
		default:
			out[c] = m
		}
	}
}
