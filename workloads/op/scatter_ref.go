package op

// RefScatter sums the values src [degree,C] of one row's edges into out [C].
func RefScatter(s ScatterAdd, src, out []float64) {
	clear(out)
	scale := 1.0
	if s.Scale != 0 {
		scale = float64(s.Scale)
	}
	for e := 0; s.C > 0 && e < len(src)/s.C; e++ {
		for i := range out {
			out[i] += scale * src[e*s.C+i]
		}
	}
}
