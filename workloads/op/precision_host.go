package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

func actInplaceHost(args *device.Args, lo, hi int) {
	a := device.View[actInplaceView](args)
	activateAll(a.act.Int(), a.c.F32(), a.x.Floats()[lo:hi])
}

func gemmFP32Host(args *device.Args, lo, hi int) {
	a := device.View[gemmLibFp32View](args)
	kk, n, out := a.K.Int(), a.N.Int(), a.out.Floats()
	clear(out[lo*n : hi*n])
	vec.Gemm(hi-lo, n, kk, a.scale.F32(), a.a.Floats()[lo*kk:], kk, a.b.Floats(), n, out[lo*n:], n)
}

func gemmTF32Host(args *device.Args, lo, hi int) {
	a := device.View[gemmLibFp32View](args)
	roundedGemm(a, lo, hi, a.a.Floats(), a.b.Floats(), roundTF32)
}

func gemmBF16Host(args *device.Args, lo, hi int) {
	a := device.View[gemmLibFp32View](args)
	roundedGemm(a, lo, hi, a.a.Halves(), a.b.Halves(), decodeBF16)
}

func gemmFP16Host(args *device.Args, lo, hi int) {
	a := device.View[gemmLibFp32View](args)
	roundedGemm(a, lo, hi, a.a.Halves(), a.b.Halves(), decodeFP16)
}

// Sizes of the blocks that roundedGemm converts to float32 at a time: roundedRows by roundedK values of the left
// operand, roundedK by roundedCols of the right.
const (
	roundedRows = 32
	roundedK    = 16
	roundedCols = 256
)

// roundedCells is the table for vec.Sweep that adds row k of b to row r of the result, for all k and r. It is ordered
// by r, so that a product of fewer rows uses a prefix.
var roundedCells = makeRoundedCells()

func makeRoundedCells() (cells [roundedRows * roundedK * vec.CellInts]int32) {
	for r := range roundedRows {
		for k := range roundedK {
			copy(cells[(r*roundedK+k)*vec.CellInts:], []int32{int32(k), int32(r)})
		}
	}
	return cells
}

// roundedGemm multiplies operands that the function wide converts to float32, and adds the products in float32.
func roundedGemm[T uint16 | float32](a *gemmLibFp32View, lo, hi int, left, right []T, wide func(T) float32) {
	var rows [roundedK * roundedCols]float32
	var factors [roundedRows * roundedK]float32
	kk, n, scale, out := a.K.Int(), a.N.Int(), a.scale.F32(), a.out.Floats()
	clear(out[lo*n : hi*n])
	for k0 := 0; k0 < kk; k0 += roundedK {
		ks := min(roundedK, kk-k0)
		clear(factors[:])
		for c0 := 0; c0 < n; c0 += roundedCols {
			cols := min(roundedCols, n-c0)
			clear(rows[:])
			for k := range ks {
				for j, v := range right[(k0+k)*n+c0:][:cols] {
					rows[k*roundedCols+j] = wide(v)
				}
			}
			for r0 := lo; r0 < hi; r0 += roundedRows {
				count := min(roundedRows, hi-r0)
				for r := range count {
					for k, v := range left[(r0+r)*kk+k0:][:ks] {
						factors[r*roundedK+k] = scale * wide(v)
					}
				}
				vec.Sweep(out[r0*n+c0:], n, rows[:], roundedCols, cols, roundedCells[:count*roundedK*vec.CellInts], factors[:count*roundedK])
			}
		}
	}
}
