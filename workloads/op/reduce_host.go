package op

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/gpuprof/gpuprof"
)

func reduceHost(a *gpuprof.Args, lo, hi int) {
	rows, cols, op, chunk, factor := a.Int(2), a.Int(3), a.Int(4), a.Int(5), a.F32(6)
	x, out := a.Floats(0), a.Floats(1)
	for item := lo; item < hi; item++ {
		for c := range cols {
			out[item*cols+c] = factor * reduceColumn(op, x, cols, c, item*chunk, min((item+1)*chunk, rows))
		}
	}
}

func reduceAtomicHost(a *gpuprof.Args, lo, hi int) {
	rows, cols, op, chunk := a.Int(2), a.Int(3), a.Int(4), a.Int(5)
	x, out := a.Floats(0), a.Floats(1)
	for item := lo; item < hi; item++ {
		for c := range cols {
			v := reduceColumn(op, x, cols, c, item*chunk, min((item+1)*chunk, rows))
			if op == reduceMax {
				atomicMax(&out[c], v)
			} else {
				atomicAdd(&out[c], v)
			}
		}
	}
}

// reduceColumn puts rows [from, to) of column c together, a sum in float64.
func reduceColumn(op int, x []float32, cols, c, from, to int) float32 {
	if op == reduceMax {
		m := float32(math.Inf(-1))
		for r := from; r < to; r++ {
			if v := x[r*cols+c]; v > m || v != v {
				m = v
			}
		}
		return m
	}
	sum := 0.0
	for r := from; r < to; r++ {
		sum += float64(x[r*cols+c])
	}
	return float32(sum)
}

// atomicMax makes *p the larger of itself and v; a NaN is larger than all.
func atomicMax(p *float32, v float32) {
	bits := (*uint32)(unsafe.Pointer(p))
	for {
		old := atomic.LoadUint32(bits)
		if was := math.Float32frombits(old); !(v > was || v != v && was == was) {
			return
		}
		if atomic.CompareAndSwapUint32(bits, old, math.Float32bits(v)) {
			return
		}
	}
}
