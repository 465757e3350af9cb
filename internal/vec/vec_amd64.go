package vec

import "golang.org/x/sys/cpu"

// fast says that the assembly can run; tests switch it to compare both.
var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA

//go:noescape
func mulAVX2(dst, a, b *float32, n int)

//go:noescape
func mulAddAVX2(dst, a, b *float32, n int)

// Strides in values; see Sweep.
//
//go:noescape
func sweepAVX2(dst *float32, dstStride int, src *float32, srcStride, n int, cells *int32, m *float32, count int)

// See Pairs; count is of cells, 1 or more, and t is eight values a cell.
//
//go:noescape
func pairsAVX2(dw, w, x *float32, xStride int, dz *float32, dzStride, n int, cells *int32, m *float32, t *[8]float32, count int)

// siluAVX2 works on n values, a multiple of eight.
//
//go:noescape
func siluAVX2(x *float32, n int, c float32)

// gemm6x16 adds alpha*a*b to six rows of sixteen columns of c; b has k >= 1 rows.
//
//go:noescape
func gemm6x16(k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int, alpha float32)

// gemm4x16 is gemm6x16 of four rows.
//
//go:noescape
func gemm4x16(k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int, alpha float32)

// oneCell makes axpy a sweep of a single cell (0, 0).
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

func pairs(dw, w, x []float32, xStride int, dz []float32, dzStride, n int, cells []int32, m []float32, t [][8]float32) {
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
	if whole < len(x) { // the same arithmetic, so that a value does not depend on its place
		var rest [8]float32
		copy(rest[:], x[whole:])
		siluAVX2(&rest[0], len(rest), c)
		copy(x[whole:], rest[:])
	}
}

// A panel of b is kc x nr values, 16 KiB: it stays in the first-level cache
// while every row passes over it. Packing it also keeps its rows from falling
// into one cache set, as they do where ldb is a power of two. It does not pay
// where few rows read few rows of b: below packRows and packDepth.
const (
	mr        = 6
	nr        = 16
	kc        = 256
	packRows  = 64
	packDepth = 32
)

func gemm(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	if !fast {
		gemmGeneric(rows, n, k, alpha, a, lda, b, ldb, c, ldc)
		return
	}
	whole := wholeRows(rows)
	var panel [kc * nr]float32
	for l := 0; l < k; l += kc {
		depth := min(kc, k-l)
		for j := 0; j < n; j += nr {
			cols := min(nr, n-j)
			from, stride := b[l*ldb+j:], ldb
			if cols < nr || rows > packRows || depth > packDepth || whole < rows {
				pack(panel[:depth*nr], from, ldb, cols)
				from, stride = panel[:], nr
			}
			r := 0
			if cols == nr {
				for ; whole-r >= mr && whole-r != 8; r += mr {
					gemm6x16(depth, &a[r*lda+l], lda, &from[0], stride, &c[r*ldc+j], ldc, alpha)
				}
				for ; r < whole; r += 4 {
					gemm4x16(depth, &a[r*lda+l], lda, &from[0], stride, &c[r*ldc+j], ldc, alpha)
				}
			}
			for ; r < rows; r += mr {
				gemmEdge(min(mr, rows-r), cols, depth, alpha, a[r*lda+l:], lda, &panel, c[r*ldc+j:], ldc)
			}
		}
	}
}

// wholeRows is how many rows tiles of six and four cover. Where the rest of six
// is odd, one padded tile is cheaper.
func wholeRows(rows int) int {
	if rows%2 == 0 && rows >= 4 {
		return rows
	}
	return rows - rows%mr
}

// pack copies columns of b side by side, padded with zeros to sixteen.
func pack(panel, b []float32, ldb, cols int) {
	for l := 0; l*nr < len(panel); l++ {
		row := panel[l*nr : (l+1)*nr]
		if cols == nr {
			*(*[nr]float32)(row) = *(*[nr]float32)(b[l*ldb:])
			continue
		}
		copy(row, b[l*ldb:][:cols])
		clear(row[cols:])
	}
}

// gemmEdge is a tile that is not whole: rows and columns are padded with
// zeros, and only the real part goes back to c. It rounds exactly as a whole
// tile does, so that a result does not depend on how rows were split.
func gemmEdge(rows, cols, k int, alpha float32, a []float32, lda int, panel *[kc * nr]float32, c []float32, ldc int) {
	var out [mr * nr]float32
	for r := range rows {
		copy(out[r*nr:], c[r*ldc:][:cols])
	}
	if rows == mr {
		gemm6x16(k, &a[0], lda, &panel[0], nr, &out[0], nr, alpha)
	} else {
		var left [mr * kc]float32
		for r := range rows {
			copy(left[r*k:(r+1)*k], a[r*lda:][:k])
		}
		gemm6x16(k, &left[0], k, &panel[0], nr, &out[0], nr, alpha)
	}
	for r := range rows {
		copy(c[r*ldc:][:cols], out[r*nr:])
	}
}

// fillAVX2 works on n values, a multiple of eight.
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

// invSqrtAVX2 works on n values, a multiple of eight.
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

// eluAVX2 works on n values, a multiple of eight.
//
//go:noescape
func eluAVX2(x *float32, n int)

// meanOf8AVX2 writes n values, a multiple of eight; see MeanOf8.
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
	if whole < len(x) { // the same arithmetic, so that a value does not depend on its place
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
