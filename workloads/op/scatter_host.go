package op

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

func scatterAtomicHost(args *device.Args, lo, hi int) {
	a := device.View[scatterAtomicView](args)
	src, dst, out, c := a.src.Floats(), a.dst.Ints(), a.out.Floats(), a.c.Int()
	for e := lo; e < hi; e++ {
		row := out[int(dst[e])*c:][:c]
		for i, v := range src[e*c : (e+1)*c] {
			atomicAdd(&row[i], v)
		}
	}
}

// atomicAdd adds v to *p by compare and swap, as a GPU without atomic float32 adds does.
func atomicAdd(p *float32, v float32) {
	bits := (*uint32)(unsafe.Pointer(p))
	for {
		old := atomic.LoadUint32(bits)
		if atomic.CompareAndSwapUint32(bits, old, math.Float32bits(math.Float32frombits(old)+v)) {
			return
		}
	}
}

func scatterSortedHost(args *device.Args, lo, hi int) {
	a := device.View[scatterSortedView](args)
	src, rowPtr, out, c := a.src.Floats(), a.rowptr.Ints(), a.out.Floats(), a.c.Int()
	for r := lo; r < hi; r++ {
		row := out[r*c : (r+1)*c]
		clear(row)
		for e := int(rowPtr[r]); e < int(rowPtr[r+1]); e++ {
			vec.Axpy(1, src[e*c:(e+1)*c], row)
		}
	}
}

func scaleHost(args *device.Args, lo, hi int) {
	a := device.View[scaleView](args)
	out, s := a.out.Floats()[lo:hi], a.factor.F32()
	for i := range out {
		out[i] *= s
	}
}
