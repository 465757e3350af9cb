package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// tileRows is the number of rows of the left matrix (about 100 values each in a radial MLP) that stay in the L2 cache
// while the kernel passes over the right matrix.
const tileRows = 64

func gemmHost(args *device.Args, lo, hi int) {
	a := device.View[gemmView](args)
	kk, n, act := a.K.Int(), a.N.Int(), a.act.Int()
	scale, c := a.scale.F32(), a.c.F32()
	left, right, out := a.a.Floats(), a.b.Floats(), a.out.Floats()
	for r := lo; r < hi; r += tileRows {
		rows := min(tileRows, hi-r)
		block := out[r*n : (r+rows)*n]
		clear(block)
		vec.Gemm(rows, n, kk, scale, left[r*kk:], kk, right, n, block, n)
		activateAll(act, c, block)
	}
}

// activateAll replaces every value of x by c*phi(value).
func activateAll(act int, c float32, x []float32) {
	switch act {
	case actNone:
	case actSilu:
		vec.Silu(x, c)
	default:
		for i, v := range x {
			x[i] = float32(float64(c) * activate(act, float64(v)))
		}
	}
}
