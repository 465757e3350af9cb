// Package vec holds the host device's inner loops over float32 vectors, which dominate the time of matrix products,
// tensor products and activations. On amd64 with AVX2 and FMA they are assembly (vec_amd64.s), elsewhere plain Go and
// gonum's kernels. Results differ slightly, because a fused multiply-add rounds once, not twice. Nothing allocates.
package vec

// Axpy adds alpha*x to y; x must be at least as long as y.
func Axpy(alpha float32, x, y []float32) {
	if len(y) == 0 {
		return
	}
	axpy(alpha, x[:len(y)], y)
}

// Mul writes a*b to dst; a and b must be at least as long as dst.
func Mul(dst, a, b []float32) {
	if len(dst) == 0 {
		return
	}
	mul(dst, a[:len(dst)], b[:len(dst)])
}

// MulAdd adds a*b to dst; a and b must be at least as long as dst.
func MulAdd(dst, a, b []float32) {
	if len(dst) == 0 {
		return
	}
	mulAdd(dst, a[:len(dst)], b[:len(dst)])
}

// CellInts is the number of integers of one cell of Sweep and Pairs.
const CellInts = 4

// Sweep multiplies a small sparse matrix M [i,k] by the rows of src. The c-th cell is a nonzero element (i, k) of M:
// CellInts integers, which begin with i and k, and the value m[c]. For every cell Sweep adds m[c]*src_i to dst_k. src_i
// is n values from i*srcStride on, dst_k n values from k*dstStride on.
func Sweep(dst []float32, dstStride int, src []float32, srcStride, n int, cells []int32, m []float32) {
	if n > 0 && len(m) > 0 && len(cells) >= len(m)*CellInts {
		sweep(dst, dstStride, src, srcStride, n, cells, m)
	}
}

// Pairs is the backward pass of Sweep if column u < n of a row has the weight w_u. It clears dw. Then, for every cell
// c = (i, k, …) and p_u = x_iu dz_ku, it adds m[c] p_u to dw_u, and w_u p_u to t[c]. t[c] is eight partial sums: column
// u goes to sum u mod 8. x_i is n values from i*xStride on, dz_k n values from k*dzStride on.
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

// Silu replaces every x by c*x/(1+exp(-x)), with an error below 3e-7 relative to c*|x|.
func Silu(x []float32, c float32) {
	if len(x) > 0 {
		silu(x, c)
	}
}

// Gemm adds alpha*a*b to c, row-major: a [rows,k], b [k,n], c [rows,n] with leading dimensions lda, ldb and ldc.
func Gemm(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	if rows > 0 && n > 0 && k > 0 {
		gemm(rows, n, k, alpha, a, lda, b, ldb, nil, c, ldc)
	}
}

// GemmBias writes row + alpha*a*b to c, where row [n] is added to every row; unlike Gemm it does not read c.
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

// GemmT is Gemm with the transpose of a: a is stored as [k,rows]. work has WorkT values.
func GemmT(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, work []float32) {
	if rows > 0 && n > 0 && k > 0 {
		gemmT(rows, n, k, alpha, a, lda, b, ldb, c, ldc, work[:WorkT(rows, k)])
	}
}

// kc is the number of values of k per block of a product, mr the number of rows per tile.
const (
	mr = 6
	kc = 256
)

// WorkT returns the length of GemmT's work memory: a block of a, padded to whole tiles.
func WorkT(rows, k int) int { return (rows + mr - 1) / mr * mr * min(k, kc) }

// SumRows adds rows of src in order and writes their sum to dst. The parameter rows is their number; each starts stride
// values after the one before.
func SumRows(dst, src []float32, stride, rows int) {
	if rows <= 0 {
		clear(dst)
		return
	}
	if len(dst) > 0 {
		sumRows(dst, src[:(rows-1)*stride+len(dst)], stride, rows)
	}
}

// Elu replaces every x below 0 by e^x - 1, with an error below 1e-7.
func Elu(x []float32) {
	if len(x) > 0 {
		elu(x)
	}
}

// MeanOf8 writes to dst the mean of eight neighbours: the values at i, i+d and i+2d of up and down, and at i and i+2d
// of mid, added in row order. Each input has 2d values more than dst.
func MeanOf8(dst, up, mid, down []float32, d int) {
	if n := len(dst); n > 0 {
		meanOf8(dst, up[:n+2*d], mid[:n+2*d], down[:n+2*d], d)
	}
}

// Fill sets every value of x to v.
func Fill(x []float32, v float32) {
	fill(x, v)
}

// InvSqrt replaces every x by 1/sqrt(x+add). Sum, root and quotient are each rounded to float32.
func InvSqrt(x []float32, add float32) {
	invSqrt(x, add)
}
