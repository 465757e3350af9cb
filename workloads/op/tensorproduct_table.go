package op

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

// tpTable is a tensor product as numbers for its kernels. It lists the paths, for every path the non-zero cells (i,k)
// of M_ik = sum_j C_ijk Y_j, and for every cell the terms of its sum. Cells are ordered by i, or by k if the output has
// fewer components, so that a kernel multiplies by the weights once per component of the narrower side.
type tpTable struct {
	ints      []int32   // paths, cells and terms, one after the other
	constants []float32 // one per term: 3j times coefficient times scale
	paths     int
	cells     int
	flops     int // least operations per edge
}

// A cell is cellInts integers (i, k, first and last+1 term), a term is one integer j, a path is pathInts integers:
//
//	0 xAt  1 yAt  2 wAt  3 oAt   offsets in a row
//	4 mul  5 d1   6 d3
//	7 8    first and last+1 cell
//	9 10   strides of (u, i) in x, 11 12 of (u, k) in out
//	13     1 when the cells are ordered by k
const (
	pathInts = 16
	cellInts = 4
)

type tpTerm struct {
	i, j, k int
	c       float64
}

// pathTerms returns the nonzero coefficients of one path, scaled by factor. A term multiplies component i of In1 by
// component j of In2 and adds to component k of the output. Terms are sorted by (i, k, j), or by (k, i, j) if l3 < l1.
func pathTerms(l1, l2, l3 int, factor float64) ([]tpTerm, error) {
	cg, err := so3.SparseCG(l1, l2, l3)
	if err != nil {
		return nil, err
	}
	terms := make([]tpTerm, len(cg.Entries))
	for n, e := range cg.Entries {
		terms[n] = tpTerm{e.I, e.J, e.K, e.C * factor}
	}
	slices.SortFunc(terms, func(a, b tpTerm) int {
		if l3 < l1 {
			return cmp.Or(cmp.Compare(a.k, b.k), cmp.Compare(a.i, b.i), cmp.Compare(a.j, b.j))
		}
		return cmp.Or(cmp.Compare(a.i, b.i), cmp.Compare(a.k, b.k), cmp.Compare(a.j, b.j))
	})
	return terms, nil
}

func (t TensorProduct) compileTable() (tpTable, error) {
	var tab tpTable
	coefficients, err := t.TP.PathCoefficients()
	if err != nil {
		return tab, err
	}
	xAt, yAt, oAt := t.TP.In1.Offsets(), t.TP.In2.Offsets(), t.TP.Out.Offsets()
	wAt, _ := t.Columns()
	var paths, cells, js []int32
	for p, ins := range t.TP.Instructions {
		a, b, o := t.TP.In1[ins.In1], t.TP.In2[ins.In2], t.TP.Out[ins.Out]
		terms, err := pathTerms(a.Ir.L, b.Ir.L, o.Ir.L, coefficients[p]*t.scaleFactor())
		if err != nil {
			return tab, err
		}
		first := len(cells) / cellInts
		for n, term := range terms {
			if n == 0 || term.i != terms[n-1].i || term.k != terms[n-1].k {
				cells = append(cells, int32(term.i), int32(term.k), int32(len(js)), 0)
			}
			js = append(js, int32(term.j))
			cells[len(cells)-1] = int32(len(js))
			tab.constants = append(tab.constants, float32(term.c))
		}
		xu, xi := t.Layout.blockStrides(a)
		ou, ok := t.Layout.blockStrides(o)
		last, byOut := len(cells)/cellInts, int32(0)
		if o.Ir.L < a.Ir.L {
			byOut = 1
		}
		paths = append(paths, int32(xAt[ins.In1]), int32(yAt[ins.In2]), int32(wAt[p]), int32(oAt[ins.Out]),
			int32(a.Mul), int32(a.Ir.Dim()), int32(o.Ir.Dim()), int32(first), int32(last),
			int32(xu), int32(xi), int32(ou), int32(ok), byOut, 0, 0)
		tab.flops += t.pathFlops(ins, len(terms), last-first)
	}
	tab.paths, tab.cells = len(t.TP.Instructions), len(cells)/cellInts
	tab.ints = slices.Concat(paths, cells, js)
	return tab, nil
}

// pathFlops counts the operations of one path for one edge. M takes two per term, once per copy of the harmonics. Then
// every coupled pair of copies takes w*x and two per cell. A mode that sums over pairs into mo outputs instead
// multiplies the d3 results of each pair by a weight once per output.
func (t TensorProduct) pathFlops(ins so3.Instruction, terms, cells int) int {
	a, b, o := t.TP.In1[ins.In1], t.TP.In2[ins.In2], t.TP.Out[ins.Out]
	pairs, fed := coupledPairs(ins.Mode, a.Mul, b.Mul, o.Mul)
	n := 2*terms*b.Mul + 2*cells*pairs
	if ins.Mode == so3.UVW || ins.Mode == so3.UUW {
		return n + 2*pairs*fed*o.Ir.Dim()
	}
	if ins.HasWeight {
		n += pairs * min(a.Ir.Dim(), o.Ir.Dim())
	}
	return n
}

// coupledPairs returns how many pairs of copies (u,v) a mode couples, and how many outputs each pair contributes to.
func coupledPairs(mode so3.Mode, m1, m2, mo int) (pairs, fed int) {
	switch mode {
	case so3.UVW:
		return m1 * m2, mo
	case so3.UUW:
		return m1, mo
	case so3.UUU:
		return m1, 1
	}
	return m1 * m2, 1
}
