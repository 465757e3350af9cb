package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

func actApplyHost(args *device.Args, lo, hi int) {
	a := device.View[actApplyView](args)
	out := a.out.Floats()[lo:hi]
	copy(out, a.x.Floats()[lo:hi])
	activateAll(a.act.Int(), a.c.F32(), out)
}

func actGradHost(args *device.Args, lo, hi int) {
	a := device.View[actGradView](args)
	x, d, act, c := a.x.Floats()[lo:hi], a.d.Floats()[lo:hi], a.act.Int(), a.c.F32()
	if act == actSilu {
		siluGrad(x, d, c)
		return
	}
	for i, v := range x {
		d[i] = float32(float64(d[i]) * float64(c) * activationSlope(act, float64(v)))
	}
}

// siluRun is the number of values that siluOf processes per call.
const siluRun = 512

// siluGrad multiplies d by c silu'(v), with silu'(v) = q (1 + v (1-q)) = q + s (1-q); see siluOf for q and s.
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

// siluOf processes the first n <= siluRun values v of x and returns n. It computes s = silu(v), for which package vec
// evaluates the exponential, and q = sigmoid(v) = s/v.
func siluOf(x []float32, q, s *[siluRun]float32) int {
	n := copy(s[:], x)
	vec.Silu(s[:n], 1)
	for i, v := range x[:n] {
		q[i] = .5 // for small v sigmoid(v) rounds to .5, where s/v would be 0/0
		if v > 1e-7 || v < -1e-7 {
			q[i] = s[i] / v
		}
	}
	return n
}

func addHost(args *device.Args, lo, hi int) {
	a := device.View[addView](args)
	vec.Axpy(1, a.x.Floats()[lo:hi], a.out.Floats()[lo:hi])
}

func flipHost(args *device.Args, lo, hi int) {
	a := device.View[flipView](args)
	src, out, table := a.src.Floats(), a.out.Floats(), a.table.Ints()
	for r := lo; r < hi; r++ {
		t := table[flipInts*r:]
		at, stride := int(t[1]), int(t[3])
		for _, v := range src[t[0]:][:t[2]] {
			out[at] = v
			at += stride
		}
	}
}
