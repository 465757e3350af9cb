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
	x, d, act, c := a.Floats(0)[lo:hi], a.Floats(1)[lo:hi], a.Int(3), a.F32(4)
	if act == actSilu {
		siluGrad(x, d, c)
		return
	}
	for i, v := range x {
		d[i] = float32(float64(d[i]) * float64(c) * derive(act, float64(v)))
	}
}

func actTangentHost(a *gpuprof.Args, lo, hi int) {
	x, d, out, act, c := a.Floats(0)[lo:hi], a.Floats(1)[lo:hi], a.Floats(2)[lo:hi], a.Int(4), a.F32(5)
	if act == actSilu {
		copy(out, d)
		siluGrad(x, out, c)
		return
	}
	for i, v := range x {
		out[i] = float32(float64(d[i]) * float64(c) * derive(act, float64(v)))
	}
}

func actSecondHost(a *gpuprof.Args, lo, hi int) {
	x, dx, back, d, act, c := a.Floats(0)[lo:hi], a.Floats(1)[lo:hi], a.Floats(2)[lo:hi], a.Floats(3)[lo:hi], a.Int(5), float64(a.F32(6))
	for i, v := range x {
		d[i] = float32(c * (derive(act, float64(v))*float64(d[i]) + curve(act, float64(v))*float64(dx[i])*float64(back[i])))
	}
}

// siluGrad has the exponentials from vec: with s = silu(v) = q v the slope
// q (1 + v (1-q)) is q + s (1-q), and q = s/v.
func siluGrad(x, d []float32, c float32) {
	var values [512]float32
	for len(x) > 0 {
		n := min(len(x), len(values))
		copy(values[:], x[:n])
		vec.Silu(values[:n], 1)
		for i, s := range values[:n] {
			q := float32(.5) // 1/(1+e^-v) to rounding, and 0/0 is none
			if v := x[i]; v > 1e-7 || v < -1e-7 {
				q = s / v
			}
			d[i] *= c * (q + s*(1-q))
		}
		x, d = x[n:], d[n:]
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
