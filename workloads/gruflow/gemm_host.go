package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

func gemmHost(args *device.Args, lo, hi int) {
	a := device.View[gruGemmView](args)
	rows, k, n, tile, prec := a.rows.Int(), a.K.Int(), a.N.Int(), a.tile.Int(), precision(a.precision.Int())
	left, w, bias, out := a.a.Floats(), a.w.Floats(), a.bias.Floats(), a.out.Floats()
	panels := ceilDiv(n, gemmPanel)
	for lo < hi { // adjacent items of the same rows run together
		band, first := lo/panels, lo%panels
		last := min(panels, first+hi-lo)
		r0, c0, c1 := band*tile, first*gemmPanel, min(n, last*gemmPanel)
		size := min(tile, rows-r0)
		if prec.isNarrow() {
			narrowRows(prec, viewHalves(left)[a.aAt.Int()+r0*k:], viewHalves(w)[c0:], bias[c0:c1], out[r0*n+c0:], size, k, n)
		} else {
			wideRows(left[a.aAt.Int()+r0*k:], w[c0:], bias[c0:c1], out[r0*n+c0:], size, k, n)
		}
		lo += last - first
	}
}

// wideRows computes rows of a product in float32, for len(bias) of its n columns; w and out begin at the first of
// these.
func wideRows(left, w, bias, out []float32, rows, k, n int) {
	vec.GemmBias(rows, len(bias), k, 1, left, k, w, n, bias, out, n)
}

// Size of the operand pieces that are converted from 16 bits to float32 at a time; a piece fits the L1 cache.
const (
	narrowSide  = 64
	narrowInner = 128
)

// widened is one thread's memory for operands converted to float32. It is not on the stack, because the product's
// fallback on other processors makes its arguments escape.
type widened struct {
	a, b [narrowSide * narrowInner]float32
}

// spare keeps widened memory between calls: as many as threads ran at the same time.
var spare = make(chan *widened, 1024)

func takeWidened() *widened {
	select {
	case w := <-spare:
		return w
	default:
		return new(widened)
	}
}

func (w *widened) giveBack() {
	select {
	case spare <- w:
	default:
	}
}

// narrowRows is wideRows for 16-bit operands, which it converts to float32 piece by piece; sums are float32.
func narrowRows(p precision, left, w []uint16, bias, out []float32, rows, k, n int) {
	space := takeWidened()
	a, b := space.a[:], space.b[:]
	for r := range rows {
		copy(out[r*n:], bias)
	}
	for c0 := 0; c0 < len(bias); c0 += narrowSide {
		cols := min(narrowSide, len(bias)-c0)
		for k0 := 0; k0 < k; k0 += narrowInner {
			inner := min(narrowInner, k-k0)
			for i := range inner {
				p.unpack(b[i*cols:(i+1)*cols], w[(k0+i)*n+c0:][:cols])
			}
			for r0 := 0; r0 < rows; r0 += narrowSide {
				size := min(narrowSide, rows-r0)
				for i := range size {
					p.unpack(a[i*inner:(i+1)*inner], left[(r0+i)*k+k0:][:inner])
				}
				vec.Gemm(size, cols, inner, 1, a, inner, b, cols, out[r0*n+c0:], n)
			}
		}
	}
	space.giveBack()
}
