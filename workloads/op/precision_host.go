package op

import (
	"unsafe"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// halfWords views argument i's memory as 16-bit values.
func halfWords(a *device.Args, i int) []uint16 {
	v := a.Bytes(i)
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(v))), len(v)/2)
}

func actInplaceHost(a *device.Args, lo, hi int) {
	activateAll(a.Int(2), a.F32(3), a.Floats(0)[lo:hi])
}

func gemmFP32Host(a *device.Args, lo, hi int) {
	kk, n, out := a.Int(3), a.Int(4), a.Floats(2)
	clear(out[lo*n : hi*n])
	vec.Gemm(hi-lo, n, kk, a.F32(5), a.Floats(0)[lo*kk:], kk, a.Floats(1), n, out[lo*n:], n)
}

func gemmTF32Host(a *device.Args, lo, hi int) {
	roundedGemm(a, lo, hi, a.Floats(0), a.Floats(1), roundTF32)
}

func gemmBF16Host(a *device.Args, lo, hi int) {
	roundedGemm(a, lo, hi, halfWords(a, 0), halfWords(a, 1), decodeBF16)
}

func gemmFP16Host(a *device.Args, lo, hi int) {
	roundedGemm(a, lo, hi, halfWords(a, 0), halfWords(a, 1), decodeFP16)
}

// The block of a product whose operands are converted to float32 at a time.
const (
	roundedRows = 32
	roundedK    = 16
	roundedCols = 256
)

// roundedCells couples row k of the right side with row r of the result, for vec.Sweep: ordered by rows of the
// result, so that fewer rows are a prefix.
var roundedCells = makeRoundedCells()

func makeRoundedCells() (cells [roundedRows * roundedK * vec.CellInts]int32) {
	for r := range roundedRows {
		for k := range roundedK {
			copy(cells[(r*roundedK+k)*vec.CellInts:], []int32{int32(k), int32(r)})
		}
	}
	return cells
}

// roundedGemm multiplies operands that wide converts to float32 and adds the products in float32.
func roundedGemm[T uint16 | float32](a *device.Args, lo, hi int, left, right []T, wide func(T) float32) {
	var rows [roundedK * roundedCols]float32
	var factors [roundedRows * roundedK]float32
	kk, n, scale, out := a.Int(3), a.Int(4), a.F32(5), a.Floats(2)
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
