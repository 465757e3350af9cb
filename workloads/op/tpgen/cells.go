package tpgen

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

// Term is the term C Y_j of a cell; J is the index j in a row of harmonics.
type Term struct {
	J int
	C float32 // 3j times the path's coefficient
}

// signedCell is a cell (i, k) of M that has the value of a slot or, if minus is set, the negative value.
type signedCell struct {
	i, k  int
	minus bool
}

// slot is a value that some cells of M share up to sign, as the cells of an identity or antisymmetric matrix do. uses
// lists these cells.
type slot struct {
	terms []Term
	uses  []signedCell
}

// triple identifies the code of a path: its degrees, the offset yAt of its harmonics in a row, and its coefficient.
// Paths of several blocks with equal triples are merged.
type triple struct {
	l1, l2, l3, yAt int
	coefficient     float64
}

func (t triple) d1() int { return 2*t.l1 + 1 }
func (t triple) d3() int { return 2*t.l3 + 1 }

// findSlots returns the distinct values, up to sign, of the matrix M, in the order of their first cells. Cells are
// ordered by i. If the output has fewer components than x, they are ordered by k, so that the sum of one output ends
// before the next begins.
func (t triple) findSlots() ([]slot, error) {
	cg, err := so3.SparseCG(t.l1, t.l2, t.l3)
	if err != nil {
		return nil, err
	}
	cells := map[[2]int][]Term{}
	for _, e := range cg.Entries { // in order of j within a cell
		at := [2]int{e.I, e.K}
		cells[at] = append(cells[at], Term{t.yAt + e.J, float32(e.C * t.coefficient)})
	}
	var all []slot
	known := map[string]int{}
	add := func(i, k int) {
		terms := cells[[2]int{i, k}]
		if len(terms) == 0 {
			return
		}
		minus := terms[0].C < 0
		var key strings.Builder
		for n, v := range terms {
			if minus {
				terms[n].C = -v.C
			}
			fmt.Fprintf(&key, "%d:%x ", v.J, math.Float32bits(terms[n].C))
		}
		at, ok := known[key.String()]
		if !ok {
			at = len(all)
			known[key.String()] = at
			all = append(all, slot{terms: terms})
		}
		all[at].uses = append(all[at].uses, signedCell{i, k, minus})
	}
	outer, inner := t.d1(), t.d3()
	if t.isNarrow() {
		outer, inner = inner, outer
	}
	for a := range outer {
		for b := range inner {
			if t.isNarrow() {
				add(b, a)
			} else {
				add(a, b)
			}
		}
	}
	return all, nil
}

func (t triple) isNarrow() bool { return t.l3 < t.l1 }

// path is a path of the product. slots are the distinct values, up to sign, of its matrix M. cells is the number of
// nonzero cells of M, terms the number of summands of all slots. Paths of several merged blocks with an equal triple
// are one path.
type path struct {
	triple
	slots []slot
	cells int
	terms int
	// instructions has the path's instruction in each merged block, -1 if the block has no such path.
	instructions []int
}

func newPath(t triple, blocks int) (*path, error) {
	slots, err := t.findSlots()
	p := &path{triple: t, slots: slots, instructions: slices.Repeat([]int{-1}, blocks)}
	for _, s := range slots {
		p.cells += len(s.uses)
		p.terms += len(s.terms)
	}
	return p, err
}

// Operands that a path's weight may multiply: the features x, the output, or the slots of M.
const (
	onX = iota
	onOut
	onCells
)

// weightSide returns the operand that a path's weight multiplies, and the number of multiplications by the weight.
func (p *path) weightSide() (int, int) {
	switch d1, d3, n := p.d1(), p.d3(), len(p.slots); {
	case n < min(d1, d3):
		return onCells, n
	case d3 < d1:
		return onOut, d3
	default:
		return onX, d1
	}
}
