package vec

import "golang.org/x/sys/cpu"

// fast reports whether the assembly can run; tests change it to compare both versions.
var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA

//go:noescape
func mulAVX2(dst, a, b *float32, n int)

//go:noescape
func mulAddAVX2(dst, a, b *float32, n int)

// sweepAVX2 is Sweep over count cells; strides are in values.
//
//go:noescape
func sweepAVX2(dst *float32, dstStride int, src *float32, srcStride, n int, cells *int32, m *float32, count int)

// pairsAVX2 is Pairs for count >= 1 cells; t has eight values per cell.
//
//go:noescape
func pairsAVX2(dw, w, x *float32, xStride int, dz *float32, dzStride, n int, cells *int32, m *float32, t *[8]float32, count int)

// siluAVX2 is Silu for n values, a multiple of eight.
//
//go:noescape
func siluAVX2(x *float32, n int, c float32)

// gemm6x16 writes from + alpha*a*b to six rows of sixteen columns of c. Rows of a are lda values apart and columns
// step; rows of from are ldfrom apart; b has k >= 1 rows.
//
//go:noescape
func gemm6x16(k int, a *float32, lda, step int, b *float32, ldb int, from *float32, ldfrom int, c *float32, ldc int, alpha float32)

// gemm4x16 is gemm6x16 for four rows.
//
//go:noescape
func gemm4x16(k int, a *float32, lda, step int, b *float32, ldb int, from *float32, ldfrom int, c *float32, ldc int, alpha float32)

// pack16 packs sixteen columns of the given rows.
//
//go:noescape
func pack16(dst, src *float32, ld, rows int)

//go:noescape
func pack6(dst, src *float32, ld, rows int)

// sumRowsAVX2 is SumRows for n columns, a multiple of eight.
//
//go:noescape
func sumRowsAVX2(dst, src *float32, stride, rows, n int)

// oneCell is the cell (0, 0): axpy is a Sweep over this one cell.
var oneCell [CellInts]int32

func axpy(alpha float32, x, y []float32) {
	if fast {
		sweepAVX2(&y[0], 0, &x[0], 0, len(y), &oneCell[0], &alpha, 1)
		return
	}
	axpyGeneric(alpha, x, y)
}

func mul(dst, a, b []float32) {
	if fast {
		mulAVX2(&dst[0], &a[0], &b[0], len(dst))
		return
	}
	mulGeneric(dst, a, b)
}

func mulAdd(dst, a, b []float32) {
	if fast {
		mulAddAVX2(&dst[0], &a[0], &b[0], len(dst))
		return
	}
	mulAddGeneric(dst, a, b)
}

func sweep(dst []float32, dstStride int, src []float32, srcStride, n int, cells []int32, m []float32) {
	if fast {
		sweepAVX2(&dst[0], dstStride, &src[0], srcStride, n, &cells[0], &m[0], len(m))
		return
	}
	sweepGeneric(dst, dstStride, src, srcStride, n, cells, m)
}

func pairSums(dw, w, x []float32, xStride int, dz []float32, dzStride, n int, cells []int32, m []float32, t [][8]float32) {
	if fast {
		pairsAVX2(&dw[0], &w[0], &x[0], xStride, &dz[0], dzStride, n, &cells[0], &m[0], &t[0], len(m))
		return
	}
	pairsGeneric(dw, w, x, xStride, dz, dzStride, n, cells, m, t)
}

func silu(x []float32, c float32) {
	if !fast {
		siluGeneric(x, c)
		return
	}
	whole := len(x) &^ 7
	if whole > 0 {
		siluAVX2(&x[0], whole, c)
	}
	if whole < len(x) { // same arithmetic as for the others: a result must not depend on its position
		var rest [8]float32
		copy(rest[:], x[whole:])
		siluAVX2(&rest[0], len(rest), c)
		copy(x[whole:], rest[:])
	}
}

// fillAVX2 is Fill for n values, a multiple of eight.
//
//go:noescape
func fillAVX2(x *float32, n int, v float32)

func fill(x []float32, v float32) {
	whole := 0
	if fast {
		if whole = len(x) &^ 7; whole > 0 {
			fillAVX2(&x[0], whole, v)
		}
	}
	fillGeneric(x[whole:], v)
}

// invSqrtAVX2 is InvSqrt for n values, a multiple of eight.
//
//go:noescape
func invSqrtAVX2(x *float32, n int, add float32)

func invSqrt(x []float32, add float32) {
	whole := 0
	if fast {
		if whole = len(x) &^ 7; whole > 0 {
			invSqrtAVX2(&x[0], whole, add)
		}
	}
	invSqrtGeneric(x[whole:], add)
}

// eluAVX2 is Elu for n values, a multiple of eight.
//
//go:noescape
func eluAVX2(x *float32, n int)

// meanOf8AVX2 is MeanOf8 for n values, a multiple of eight.
//
//go:noescape
func meanOf8AVX2(dst, up, mid, down *float32, d, n int)

func elu(x []float32) {
	if !fast {
		eluGeneric(x)
		return
	}
	whole := len(x) &^ 7
	if whole > 0 {
		eluAVX2(&x[0], whole)
	}
	if whole < len(x) { // same arithmetic as for the others: a result must not depend on its position
		var rest [8]float32
		copy(rest[:], x[whole:])
		eluAVX2(&rest[0], len(rest))
		copy(x[whole:], rest[:])
	}
}

func meanOf8(dst, up, mid, down []float32, d int) {
	whole := 0
	if fast {
		if whole = len(dst) &^ 7; whole > 0 {
			meanOf8AVX2(&dst[0], &up[0], &mid[0], &down[0], d, whole)
		}
	}
	meanOf8Generic(dst[whole:], up[whole:], mid[whole:], down[whole:], d)
}

func sumRows(dst, src []float32, stride, rows int) {
	whole := 0
	if fast {
		if whole = len(dst) &^ 7; whole > 0 {
			sumRowsAVX2(&dst[0], &src[0], stride, rows, whole)
		}
	}
	sumRowsGeneric(dst[whole:], src[whole:], stride, rows)
}
