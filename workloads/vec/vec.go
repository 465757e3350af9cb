// Package vec holds the host device's inner loops over float32 vectors, in which a matrix product, a tensor product
// and an activation spend their time.
//
// On amd64 with AVX2 and FMA they are assembly (vec_amd64.s); elsewhere they
// are gonum's vector kernels and plain Go. Both round a little differently: a
// fused multiply-add rounds once where the others round twice. None allocates.
package vec

// Axpy adds alpha*x to y; x is at least as long as y.
func Axpy(alpha float32, x, y []float32) {
	if len(y) == 0 {
		return
	}
	axpy(alpha, x[:len(y)], y)
}

// Mul writes a*b to dst; a and b are at least as long as dst.
func Mul(dst, a, b []float32) {
	if len(dst) == 0 {
		return
	}
	mul(dst, a[:len(dst)], b[:len(dst)])
}

// MulAdd adds a*b to dst; a and b are at least as long as dst.
func MulAdd(dst, a, b []float32) {
	if len(dst) == 0 {
		return
	}
	mulAdd(dst, a[:len(dst)], b[:len(dst)])
}

// CellInts is the stride of Sweep's cells.
const CellInts = 4

// Sweep adds m[c]*src_i to dst_k for every cell c = (i, k, …) of cells, CellInts
// integers each, where src_i is n values from i*srcStride on and dst_k the same
// of dst. It is the product of a small sparse matrix M [i,k] with the rows of
// src. Every i and k must lie inside the slices.
func Sweep(dst []float32, dstStride int, src []float32, srcStride, n int, cells []int32, m []float32) {
	if n > 0 && len(m) > 0 && len(cells) >= len(m)*CellInts {
		sweep(dst, dstStride, src, srcStride, n, cells, m)
	}
}

// Pairs is the reverse of the product of a small sparse matrix with copies: for
// every cell c = (i, k, …) and p_u = x_iu dz_ku over n copies u it adds m[c] p_u to
// dw_u, which it overwrites, and w_u p_u to t[c], whose eight numbers are partial
// sums over the copies: u and u+8 have the same. x_i is n values from i*xStride on,
// dz_k likewise.
func Pairs(dw, w, x []float32, xStride int, dz []float32, dzStride, n int, cells []int32, m []float32, t [][8]float32) {
	if n <= 0 {
		return
	}
	if len(m) == 0 || len(cells) < len(m)*CellInts || len(t) < len(m) {
		clear(dw[:n])
		return
	}
	pairSums(dw[:n], w[:n], x, xStride, dz, dzStride, n, cells, m, t)
}

// Silu replaces every x by c*x/(1+exp(-x)), within 3e-7 of the exact value
// relative to c*|x|.
func Silu(x []float32, c float32) {
	if len(x) > 0 {
		silu(x, c)
	}
}

// Gemm adds alpha*a*b to c: a [rows,k] with leading dimension lda, b [k,n] with
// ldb, c [rows,n] with ldc, all row-major.
func Gemm(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	if rows > 0 && n > 0 && k > 0 {
		gemm(rows, n, k, alpha, a, lda, b, ldb, nil, c, ldc)
	}
}

// GemmBias writes row + alpha*a*b to c, where row [n] is added to every row. It equals Gemm on a c filled with row,
// without the fill.
func GemmBias(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, row, c []float32, ldc int) {
	if k <= 0 {
		for r := range max(rows, 0) {
			copy(c[r*ldc:], row[:n])
		}
		return
	}
	if rows > 0 && n > 0 {
		gemm(rows, n, k, alpha, a, lda, b, ldb, row[:n], c, ldc)
	}
}

// GemmT is Gemm with a transposed: a is [k,rows]. work has WorkT values.
func GemmT(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, work []float32) {
	if rows > 0 && n > 0 && k > 0 {
		gemmT(rows, n, k, alpha, a, lda, b, ldb, c, ldc, work[:WorkT(rows, k)])
	}
}

// A product adds in blocks of kc values of k. mr is the number of rows of a tile.
const (
	mr = 6
	kc = 256
)

// WorkT returns the values of GemmT's work memory: a block of a, padded to whole tiles.
func WorkT(rows, k int) int { return (rows + mr - 1) / mr * mr * min(k, kc) }

// SumRows writes to dst the sum of rows rows of src, each stride values after the one before. They are added in
// order.
func SumRows(dst, src []float32, stride, rows int) {
	if rows <= 0 {
		clear(dst)
		return
	}
	if len(dst) > 0 {
		sumRows(dst, src[:(rows-1)*stride+len(dst)], stride, rows)
	}
}

// Elu replaces every x below 0 by e^x - 1, within 1e-7 of the exact value.
func Elu(x []float32) {
	if len(x) > 0 {
		elu(x)
	}
}

// MeanOf8 writes to dst the mean of eight neighbours: the values at i, i+d and i+2d of up and down, and the values at
// i and i+2d of mid. Each holds 2d values more than dst. They are added row by row from the left.
func MeanOf8(dst, up, mid, down []float32, d int) {
	if n := len(dst); n > 0 {
		meanOf8(dst, up[:n+2*d], mid[:n+2*d], down[:n+2*d], d)
	}
}

// Fill sets every value of x to v.
func Fill(x []float32, v float32) {
	fill(x, v)
}

// InvSqrt replaces every x by 1/sqrt(x+add); the sum, the root and the quotient
// are rounded to float32 each.
func InvSqrt(x []float32, add float32) {
	invSqrt(x, add)
}
