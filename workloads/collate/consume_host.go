package collate

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

func consumeHost(args *device.Args, lo, hi int) {
	a := device.View[consumeView](args)
	out, ints, floats := a.out.Floats(), a.block.Ints(), a.block.Floats()
	species, src, vec := ints[a.species.Int():], ints[a.src.Int():], floats[a.vec.Int():]
	out = out[a.at.Int():]
	passes, cutoff := a.passes.Int(), a.cutoff.F32()
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
