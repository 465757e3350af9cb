package so3

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// MulIrrep is a block: Mul copies of the irrep Ir.
type MulIrrep struct {
	Mul int
	Ir  Irrep
}

// Dim returns Mul*(2L+1), the number of values in the block.
func (m MulIrrep) Dim() int { return m.Mul * m.Ir.Dim() }

// String returns e3nn's print form of the block, such as "128x1o".
func (m MulIrrep) String() string { return strconv.Itoa(m.Mul) + "x" + m.Ir.String() }

// Irreps is a direct sum of blocks, in memory order.
type Irreps []MulIrrep

// ParseIrreps reads e3nn strings: terms "[mul x] irrep" joined by "+", with optional spaces, such as "128x0e + 128x1o"
// or "0e+1o". An empty string is the empty sum. The error names the invalid term.
func ParseIrreps(s string) (Irreps, error) {
	if strings.TrimSpace(s) == "" {
		return Irreps{}, nil
	}
	terms := strings.Split(s, "+")
	out := make(Irreps, 0, len(terms))
	for i, term := range terms {
		block, err := parseBlock(strings.TrimSpace(term))
		if err != nil {
			return nil, fmt.Errorf("parsing irreps %q, term %d %q: %w", s, i+1, strings.TrimSpace(term), err)
		}
		out = append(out, block)
	}
	return out, nil
}

func parseBlock(term string) (MulIrrep, error) {
	if term == "" {
		return MulIrrep{}, gpuprof.Errorf(nil, "the term is empty").WithFix("write a block such as 128x0e between the plus signs")
	}
	mulText, name, found := strings.Cut(term, "x")
	if !found {
		mulText, name = "1", term
	}
	mul, err := parseNumber(strings.TrimSpace(mulText), maxParseMul)
	if err != nil {
		return MulIrrep{}, fmt.Errorf("multiplicity %w", err)
	}
	ir, err := parseIrrep(strings.TrimSpace(name))
	if err != nil {
		return MulIrrep{}, err
	}
	return MulIrrep{Mul: mul, Ir: ir}, nil
}

// String returns e3nn's print form, such as "128x0e+128x1o".
func (irs Irreps) String() string {
	terms := make([]string, len(irs))
	for i, m := range irs {
		terms[i] = m.String()
	}
	return strings.Join(terms, "+")
}

// Dim returns the number of values of one sample.
func (irs Irreps) Dim() int {
	d := 0
	for _, m := range irs {
		d += m.Dim()
	}
	return d
}

// NumIrreps returns the sum of the multiplicities.
func (irs Irreps) NumIrreps() int {
	n := 0
	for _, m := range irs {
		n += m.Mul
	}
	return n
}

// LMax returns the highest degree that occurs, or -1 if there is none.
func (irs Irreps) LMax() int {
	l := -1
	for _, m := range irs {
		if m.Mul > 0 {
			l = max(l, m.Ir.L)
		}
	}
	return l
}

// Offsets returns the offset of every block, in values.
func (irs Irreps) Offsets() []int {
	out := make([]int, len(irs))
	at := 0
	for i, m := range irs {
		out[i] = at
		at += m.Dim()
	}
	return out
}

// Count returns the total multiplicity of ir.
func (irs Irreps) Count(ir Irrep) int {
	n := 0
	for _, m := range irs {
		if m.Ir == ir {
			n += m.Mul
		}
	}
	return n
}

// Equal reports whether both have the same blocks in the same order.
func (irs Irreps) Equal(other Irreps) bool { return slices.Equal(irs, other) }

// Sort sorts the blocks stably by irrep. Block i moves to position p[i]; inv is the inverse, sorted[j] = irs[inv[j]].
func (irs Irreps) Sort() (sorted Irreps, p, inv []int) {
	inv = make([]int, len(irs))
	for i := range inv {
		inv[i] = i
	}
	slices.SortStableFunc(inv, func(i, j int) int { return irs[i].Ir.compare(irs[j].Ir) })
	sorted = make(Irreps, len(irs))
	p = make([]int, len(irs))
	for j, i := range inv {
		sorted[j] = irs[i]
		p[i] = j
	}
	return sorted, p, inv
}

// Simplify merges neighbouring blocks of the same irrep and drops empty blocks, without changing the memory layout.
func (irs Irreps) Simplify() Irreps {
	out := make(Irreps, 0, len(irs))
	for _, m := range irs {
		if m.Mul == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Ir == m.Ir {
			out[n-1].Mul += m.Mul
			continue
		}
		out = append(out, m)
	}
	return out
}

// HarmonicIrreps returns 1x0e+1x1o+1x2e+… up to lmax, the irreps of the output of Harmonics; none for a negative lmax.
func HarmonicIrreps(lmax int) Irreps {
	out := make(Irreps, 0, max(lmax+1, 0))
	for l := 0; l <= lmax; l++ {
		out = append(out, MulIrrep{Mul: 1, Ir: Irrep{L: l, P: harmonicParity(l)}})
	}
	return out
}

// check returns an error for the first invalid block, or nil.
func (irs Irreps) check() error {
	for i, m := range irs {
		if m.Mul < 0 {
			return gpuprof.Errorf(nil, "block %d (%v): multiplicity %d is negative", i, m, m.Mul).WithFix("use 0 or more")
		}
		if err := m.Ir.check(); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}
