package so3

import (
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
)

// orthogonalTolerance is the largest allowed deviation of R R^T from the identity: far above rounding, and below real
// mistakes.
const orthogonalTolerance = 1e-9

// WignerD returns D^l(r) for a proper rotation r in (x, y, z) order as a dense row-major [2l+1][2l+1] matrix, with
// Y_l(r v) = D^l(r) Y_l(v). It returns an error if r is not orthogonal or is improper; Irreps.D also takes improper r,
// by the parity of the irreps. D^l is built degree by degree:
//
//	D^0 = 1,  D^1 = r,  D^{l+1} = (2l+3) C (D^l x r) C^T  with C = w3j(l, 1, l+1).
func WignerD(l int, r [3][3]float64) ([]float64, error) {
	if l < 0 || l > MaxL {
		return nil, fmt.Errorf("computing Wigner D: degree %d is outside 0..%d", l, MaxL)
	}
	det, err := orthogonalSign(r)
	if err != nil {
		return nil, fmt.Errorf("computing Wigner D of degree %d: %w", l, err)
	}
	if det < 0 {
		return nil, gpuprof.Errorf(nil, "computing Wigner D of degree %d: the matrix is improper (determinant -1)", l).WithFix("pass its negative and apply the parity of the irrep")
	}
	d := []float64{1}
	for k := 0; k < l; k++ {
		d, err = raiseD(k, d, r)
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// raiseD returns D^{l+1} from D^l and r. For l=0 it gives r, because w3j(0,1,1) = delta/sqrt(3).
func raiseD(l int, d []float64, r [3][3]float64) ([]float64, error) {
	cg, err := SparseCG(l, 1, l+1)
	if err != nil {
		return nil, err
	}
	dim, up := 2*l+1, 2*l+3
	out := make([]float64, up*up)
	for _, p := range cg.Entries {
		for _, q := range cg.Entries {
			out[p.K*up+q.K] += float64(up) * p.C * q.C * d[p.I*dim+q.I] * r[p.J][q.J]
		}
	}
	return out, nil
}

// orthogonalSign returns the determinant (+1 or -1) of an orthogonal matrix, an error for other matrices.
func orthogonalSign(r [3][3]float64) (float64, error) {
	for i := range 3 {
		for j := range 3 {
			dot := r[i][0]*r[j][0] + r[i][1]*r[j][1] + r[i][2]*r[j][2]
			if i == j {
				dot--
			}
			if !(math.Abs(dot) <= orthogonalTolerance) { // in this form NaN fails
				return 0, gpuprof.Errorf(nil, "the 3x3 matrix is not orthogonal (rows %d and %d off by %.3g)", i, j, dot).WithFix("pass a rotation or a reflection")
			}
		}
	}
	det := r[0][0]*(r[1][1]*r[2][2]-r[1][2]*r[2][1]) -
		r[0][1]*(r[1][0]*r[2][2]-r[1][2]*r[2][0]) +
		r[0][2]*(r[1][0]*r[2][1]-r[1][1]*r[2][0])
	return math.Copysign(1, det), nil
}

// D returns the matrix by which an element r of O(3), proper or improper, acts on data of these irreps in mul_ir
// layout. It is a dense row-major [Dim][Dim] matrix, block-diagonal. For an improper r each block is p * D^l(-r), with
// the parity p.
func (irs Irreps) D(r [3][3]float64) ([]float64, error) {
	if err := irs.check(); err != nil {
		return nil, fmt.Errorf("computing D of irreps %v: %w", irs, err)
	}
	det, err := orthogonalSign(r)
	if err != nil {
		return nil, fmt.Errorf("computing D of irreps %v: %w", irs, err)
	}
	proper := r
	for i := range 3 {
		for j := range 3 {
			proper[i][j] *= det
		}
	}
	dim := irs.Dim()
	out := make([]float64, dim*dim)
	at := 0
	for _, m := range irs {
		block, err := WignerD(m.Ir.L, proper)
		if err != nil {
			return nil, fmt.Errorf("computing D of irreps %v: %w", irs, err)
		}
		sign := 1.0
		if det < 0 {
			sign = float64(m.Ir.P)
		}
		d := m.Ir.Dim()
		for range m.Mul {
			for i := range d {
				for j := range d {
					out[(at+i)*dim+at+j] = sign * block[i*d+j]
				}
			}
			at += d
		}
	}
	return out, nil
}
