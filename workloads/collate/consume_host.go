package collate

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

func consumeHost(a *device.Args, lo, hi int) {
	out, ints, floats := a.Floats(0), a.Ints(1), a.Floats(1)
	species, src, vec := ints[a.Int(2):], ints[a.Int(3):], floats[a.Int(4):]
	out = out[a.Int(5):]
	passes, cutoff := a.Int(6), a.F32(7)
	var step float32
	if passes > 0 {
		step = cutoff / float32(passes)
	}
	for e := lo; e < hi; e++ {
		from := src[e]
		if from < 0 {
			out[e] = 0
			continue
		}
		v := vec[3*e : 3*e+3]
		d := float32(math.Sqrt(float64(v[0]*v[0] + v[1]*v[1] + v[2]*v[2])))
		out[e] = smearEdge(d, step, passes) * (1 + float32(species[from]&255)/256)
	}
}

func smearEdge(d, step float32, passes int) float32 {
	var sum float32
	for k := 0; k < passes; {
		end := min(k+consumeTerms, passes)
		var part float32
		for ; k < end; k++ {
			t := (d - (float32(k)+0.5)*step) * 2
			part += 1 / (1 + t*t)
		}
		sum += part
	}
	return sum
}
