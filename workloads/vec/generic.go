package vec

import (
	"math"

	"gonum.org/v1/gonum/blas/gonum"
)

// axpyGeneric adds alpha*x to y. It does not call gonum's Saxpy, which is faster on old processors: its assembly stub
// makes the arguments escape to the heap, but callers keep scratch memory on the stack.
func axpyGeneric(alpha float32, x, y []float32) {
	for len(x) >= 8 && len(y) >= 8 {
		p, d := (*[8]float32)(x), (*[8]float32)(y)
		d[0], d[1], d[2], d[3] = d[0]+alpha*p[0], d[1]+alpha*p[1], d[2]+alpha*p[2], d[3]+alpha*p[3]
		d[4], d[5], d[6], d[7] = d[4]+alpha*p[4], d[5]+alpha*p[5], d[6]+alpha*p[6], d[7]+alpha*p[7]
		x, y = x[8:], y[8:]
	}
	for i := range y {
		y[i] += alpha * x[i]
	}
}

// mulGeneric writes a*b to dst. It is unrolled to avoid bounds checks, which saves a third of the time of a plain loop.
func mulGeneric(dst, a, b []float32) {
	for len(dst) >= 8 && len(a) >= 8 && len(b) >= 8 {
		d, p, q := (*[8]float32)(dst), (*[8]float32)(a), (*[8]float32)(b)
		d[0], d[1], d[2], d[3] = p[0]*q[0], p[1]*q[1], p[2]*q[2], p[3]*q[3]
		d[4], d[5], d[6], d[7] = p[4]*q[4], p[5]*q[5], p[6]*q[6], p[7]*q[7]
		dst, a, b = dst[8:], a[8:], b[8:]
	}
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func mulAddGeneric(dst, a, b []float32) {
	for len(dst) >= 8 && len(a) >= 8 && len(b) >= 8 {
		d, p, q := (*[8]float32)(dst), (*[8]float32)(a), (*[8]float32)(b)
		d[0], d[1], d[2], d[3] = d[0]+p[0]*q[0], d[1]+p[1]*q[1], d[2]+p[2]*q[2], d[3]+p[3]*q[3]
		d[4], d[5], d[6], d[7] = d[4]+p[4]*q[4], d[5]+p[5]*q[5], d[6]+p[6]*q[6], d[7]+p[7]*q[7]
		dst, a, b = dst[8:], a[8:], b[8:]
	}
	for i := range dst {
		dst[i] += a[i] * b[i]
	}
}

func sweepGeneric(dst []float32, dstStride int, src []float32, srcStride, n int, cells []int32, m []float32) {
	for c, v := range m {
		i, k := int(cells[c*CellInts]), int(cells[c*CellInts+1])
		axpyGeneric(v, src[i*srcStride:][:n], dst[k*dstStride:][:n])
	}
}

func pairsGeneric(dw, w, x []float32, xStride int, dz []float32, dzStride, n int, cells []int32, m []float32, t [][8]float32) {
	clear(dw)
	for c, v := range m {
		i, k, sum := int(cells[c*CellInts]), int(cells[c*CellInts+1]), &t[c]
		a, b := x[i*xStride:][:n], dz[k*dzStride:][:n]
		for u, p := range a {
			p *= b[u]
			dw[u] += v * p
			sum[u&7] += w[u] * p
		}
	}
}

func siluGeneric(x []float32, c float32) {
	for i, v := range x {
		x[i] = float32(float64(c) * float64(v) / (1 + math.Exp(-float64(v))))
	}
}

// Results narrower than wideCols are computed by rank-one updates of gerRows rows, which load b once per four rows.
// Wider results are computed row by row, in tileCols columns, for which b stays in the L2 cache. Measured on one core
// at depth 100: row by row 21 GF/s from 512 columns on and 11 at 256; rank-one 16 to 17 at any width; gonum's Sgemm, in
// tiles small enough to start no goroutine (at most three blocks of 64x64), 8 to 16.
const (
	wideCols = 512
	tileCols = 2048
	gerRows  = 16
)

func gemmGeneric(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, row, c []float32, ldc int) {
	if row != nil {
		for r := range rows {
			copy(c[r*ldc:], row)
		}
	}
	if n < wideCols {
		for r := 0; r < rows; r += gerRows {
			for l := range k {
				gonum.Implementation{}.Sger(min(gerRows, rows-r), n, alpha, a[r*lda+l:], lda, b[l*ldb:], 1, c[r*ldc:], ldc)
			}
		}
		return
	}
	for j := 0; j < n; j += tileCols {
		w := min(tileCols, n-j)
		for r := range rows {
			row := c[r*ldc+j:][:w]
			for l := range k {
				gonum.Implementation{}.Saxpy(w, alpha*a[r*lda+l], b[l*ldb+j:][:w], 1, row, 1)
			}
		}
	}
}

func gemmTGeneric(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, work []float32) {
	for l := 0; l < k; l += kc {
		depth := min(kc, k-l)
		for i := range depth {
			for r, v := range a[(l+i)*lda:][:rows] {
				work[r*depth+i] = v
			}
		}
		gemmGeneric(rows, n, depth, alpha, work, depth, b[l*ldb:], ldb, nil, c, ldc)
	}
}

func sumRowsGeneric(dst, src []float32, stride, rows int) {
	clear(dst)
	if len(dst) == 0 {
		return
	}
	for r := range rows {
		axpyGeneric(1, src[r*stride:][:len(dst)], dst)
	}
}

func eluGeneric(x []float32) {
	for i, v := range x {
		if v <= 0 {
			x[i] = float32(math.Expm1(float64(v)))
		}
	}
}

func meanOf8Generic(dst, up, mid, down []float32, d int) {
	for i := range dst {
		s := up[i] + up[i+d] + up[i+2*d] + mid[i] + mid[i+2*d] + down[i] + down[i+d] + down[i+2*d]
		dst[i] = s * 0.125
	}
}

func fillGeneric(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

func invSqrtGeneric(x []float32, add float32) {
	for i, v := range x {
		x[i] = 1 / float32(math.Sqrt(float64(v+add)))
	}
}
