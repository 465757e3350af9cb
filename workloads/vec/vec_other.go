//go:build !amd64

package vec

func axpy(alpha float32, x, y []float32) { axpyGeneric(alpha, x, y) }
func mul(dst, a, b []float32)            { mulGeneric(dst, a, b) }
func mulAdd(dst, a, b []float32)         { mulAddGeneric(dst, a, b) }
func silu(x []float32, c float32)        { siluGeneric(x, c) }

func sweep(dst []float32, dstStride int, src []float32, srcStride, n int, cells []int32, m []float32) {
	sweepGeneric(dst, dstStride, src, srcStride, n, cells, m)
}

func gemm(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, row, c []float32, ldc int) {
	gemmGeneric(rows, n, k, alpha, a, lda, b, ldb, row, c, ldc)
}

func gemmT(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, c []float32, ldc int, work []float32) {
	gemmTGeneric(rows, n, k, alpha, a, lda, b, ldb, c, ldc, work)
}

func sumRows(dst, src []float32, stride, rows int) { sumRowsGeneric(dst, src, stride, rows) }

func elu(x []float32)                             { eluGeneric(x) }
func meanOf8(dst, up, mid, down []float32, d int) { meanOf8Generic(dst, up, mid, down, d) }
func fill(x []float32, v float32)                 { fillGeneric(x, v) }
func invSqrt(x []float32, add float32)            { invSqrtGeneric(x, add) }

func pairSums(dw, w, x []float32, xStride int, dz []float32, dzStride, n int, cells []int32, m []float32, t [][8]float32) {
	pairsGeneric(dw, w, x, xStride, dz, dzStride, n, cells, m, t)
}
