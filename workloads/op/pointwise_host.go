package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

func actApplyHost(a *device.Args, lo, hi int) {
	out := a.Floats(1)[lo:hi]
	copy(out, a.Floats(0)[lo:hi])
	activateAll(a.Int(3), a.F32(4), out)
}

func actGradHost(a *device.Args, lo, hi int) {
	x, d, act, c := a.Floats(0)[lo:hi], a.Floats(1)[lo:hi], a.Int(3), a.F32(4)
	if act == actSilu {
		siluGrad(x, d, c)
		return
	}
	for i, v := range x {
		d[i] = float32(float64(d[i]) * float64(c) * activationSlope(act, float64(v)))
	}
}

// siluRun is the number of values processed at a time.
const siluRun = 512

// siluGrad multiplies d by c and the slope q (1 + v (1-q)), which equals q + s (1-q).
func siluGrad(x, d []float32, c float32) {
	var q, s [siluRun]float32
	for len(x) > 0 {
		n := siluOf(x, &q, &s)
		for i, q := range q[:n] {
			d[i] *= c * (q + s[i]*(1-q))
		}
		x, d = x[n:], d[n:]
	}
}

// siluOf writes q = sigmoid(v) and s = silu(v) = q v of the first values of x, and returns how many. The exponentials
// come from vec, and q is s/v.
func siluOf(x []float32, q, s *[siluRun]float32) int {
	n := copy(s[:], x)
	vec.Silu(s[:n], 1)
	for i, v := range x[:n] {
		q[i] = .5 // 1/(1+e^-v) to rounding, and 0/0 is none
		if v > 1e-7 || v < -1e-7 {
			q[i] = s[i] / v
		}
	}
	return n
}

func addHost(a *device.Args, lo, hi int) {
	vec.Axpy(1, a.Floats(0)[lo:hi], a.Floats(1)[lo:hi])
}

func flipHost(a *device.Args, lo, hi int) {
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
