package collate

import "math"

// consumeRef computes consumeKernel's formula for one edge in float64.
func consumeRef(species int32, v []float32, passes int, cutoff float64) float64 {
	x, y, z := float64(v[0]), float64(v[1]), float64(v[2])
	d := math.Sqrt(x*x + y*y + z*z)
	sum := 0.0
	for k := range passes {
		t := 2 * (d - (float64(k)+0.5)*cutoff/float64(passes))
		sum += 1 / (1 + t*t)
	}
	return sum * (1 + float64(species&255)/256)
}
