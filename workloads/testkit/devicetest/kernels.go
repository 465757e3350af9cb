package devicetest

import (
	"runtime"
	"sync/atomic"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Catalogue returns the suite's kernels, for the implementation of another device. Parameters are in the order of the
// signature; k runs over [0, n).
//
//	gate  b    one item: flags[0] = 1, then wait until flags[1] != 0
//	raise bi   one item: flags[i] = 1
//	fill  bi   out[k] = v
//	chain bi   y[k] = 3*y[k] + v, wrapping; the order of launches shows
//	mix   bbif out[k] = f*in[k] + i in float32
//	fail       dies: a panic on the host, a trap elsewhere
//
// Values are int32 except mix's float32. The flags are pinned memory that the
// caller reads and writes meanwhile: volatile, with release and acquire at
// system scope.
func Catalogue() []*device.Kernel {
	return []*device.Kernel{
		{Name: "gate", Sig: "b", Serial: true, Host: func(a *device.Args, _, _ int) {
			flags := a.Ints(0)
			atomic.StoreInt32(&flags[0], 1)
			for atomic.LoadInt32(&flags[1]) == 0 {
				runtime.Gosched()
			}
		}},
		{Name: "raise", Sig: "bi", Serial: true, Host: func(a *device.Args, _, _ int) {
			atomic.StoreInt32(&a.Ints(0)[a.Int(1)], 1)
		}},
		{Name: "fill", Sig: "bi", Host: func(a *device.Args, lo, hi int) {
			out, v := a.Ints(0), int32(a.Int(1))
			for k := lo; k < hi; k++ {
				out[k] = v
			}
		}},
		{Name: "chain", Sig: "bi", Host: func(a *device.Args, lo, hi int) {
			y, v := a.Ints(0), int32(a.Int(1))
			for k := lo; k < hi; k++ {
				y[k] = 3*y[k] + v
			}
		}},
		{Name: "mix", Sig: "bbif", Host: func(a *device.Args, lo, hi int) {
			out, in, i, f := a.Floats(0), a.Floats(1), float32(a.Int(2)), a.F32(3)
			for k := lo; k < hi; k++ {
				out[k] = f*in[k] + i
			}
		}},
		{Name: "fail", Host: func(*device.Args, int, int) { panic("failing on purpose") }},
	}
}
