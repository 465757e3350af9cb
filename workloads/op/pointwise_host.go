package op

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/vec"
)

func actApplyHost(a *gpuprof.Args, lo, hi int) {
	out := a.Floats(1)[lo:hi]
	copy(out, a.Floats(0)[lo:hi])
	activateAll(a.Int(3), a.F32(4), out)
}

func actGradHost(a *gpuprof.Args, lo, hi int) {
	x, d, act, c := a.Floats(0)[lo:hi], a.Floats(1)[lo:hi], a.Int(3), float64(a.F32(4))
	for i, v := range x {
		d[i] = float32(float64(d[i]) * c * derive(act, float64(v)))
	}
}

func addHost(a *gpuprof.Args, lo, hi int) {
	vec.Axpy(1, a.Floats(0)[lo:hi], a.Floats(1)[lo:hi])
}

func flipHost(a *gpuprof.Args, lo, hi int) {
	src, out, table := a.Floats(0), a.Floats(1), a.Ints(2)
	for r := lo; r < hi; r++ {
		t := table[flipInts*r:]
		at, stride := int(t[1]), int(t[3])
		for _, v := range src[t[0]:][:t[2]] {
			out[at] = v
			at += stride
		}
	}
}
