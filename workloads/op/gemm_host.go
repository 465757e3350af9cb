package op

import (
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/gpuprof/gpuprof"
)

// A tile of the right-hand side of tileCols columns (about 100 deep in a radial
// MLP) stays in the second-level cache while tileRows rows pass over it.
// Results narrower than wideCols are formed by rank-one updates of gerRows rows
// instead, which load the right-hand side once for four rows. Measured on one
// core at depth 100: row by row 21 GF/s from 512 columns on and 11 at 256;
// rank-one 16 to 17 at any width; the library's own Sgemm on tiles small enough
// that it starts no goroutine (at most three blocks of 64x64) 8 to 16; a 4x4
// register kernel in plain Go 5.5.
const (
	tileRows = 64
	tileCols = 2048
	wideCols = 512
	gerRows  = 16
)

func gemmHost(a *gpuprof.Args, lo, hi int) {
	kk, n, act := a.Int(4), a.Int(5), a.Int(6)
	scale, c := a.F32(7), float64(a.F32(8))
	left, right, out := a.Floats(0), a.Floats(1), a.Floats(2)
	for r := lo; r < hi; r += tileRows {
		rows := min(tileRows, hi-r)
		block := out[r*n : (r+rows)*n]
		clear(block)
		gemmRows(rows, n, kk, scale, left[r*kk:], kk, right, n, block, n)
		if act == actNone {
			continue
		}
		for i, v := range block {
			block[i] = float32(c * activate(act, float64(v)))
		}
	}
}

// gemmRows adds alpha*a*b to c for at most tileRows rows: a [rows,k] with
// leading dimension lda, b [k,n], c [rows,n].
func gemmRows(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	for j := 0; j < n; j += tileCols {
		gemmTile(rows, min(tileCols, n-j), k, alpha, a, lda, b[j:], ldb, c[j:], ldc)
	}
}

// gemmTile is the one place that multiplies matrices on the host: c += alpha a b
// for at most tileRows x tileCols results, without allocation.
func gemmTile(rows, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	if n < wideCols {
		for r := 0; r < rows; r += gerRows {
			for l := range k {
				gonum.Implementation{}.Sger(min(gerRows, rows-r), n, alpha, a[r*lda+l:], lda, b[l*ldb:], 1, c[r*ldc:], ldc)
			}
		}
		return
	}
	for r := range rows {
		row := c[r*ldc:][:n]
		for l := range k {
			axpy(alpha*a[r*lda+l], b[l*ldb:][:n], row)
		}
	}
}

// axpy adds alpha*x to y.
func axpy(alpha float32, x, y []float32) {
	gonum.Implementation{}.Saxpy(len(x), alpha, x, 1, y, 1)
}
