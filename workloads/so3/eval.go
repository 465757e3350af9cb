package so3

import (
	"fmt"
	"math"
)

// PathCoefficients returns sqrt(alpha) of every instruction, the factor of w * w3j * x * y. By e3nn's definition, for
// inputs and outputs of variance 1, alpha = path_weight * N / X, where
//
//	N  by IrrepNorm: component dim(out), norm dim(in1)*dim(in2), none 1
//	X  by PathNorm: element the sum of n over the instructions with the same output
//	   block, path n times the number of these instructions, none 1; if X is 0, it is 1
//	n  number of terms added into one output, see fanIn
func (tp TensorProduct) PathCoefficients() ([]float64, error) {
	if err := tp.Validate(); err != nil {
		return nil, err
	}
	fanInOfSlot := make([]int, len(tp.Out))
	pathsOfSlot := make([]int, len(tp.Out))
	for _, ins := range tp.Instructions {
		fanInOfSlot[ins.Out] += tp.fanIn(ins)
		pathsOfSlot[ins.Out]++
	}
	out := make([]float64, len(tp.Instructions))
	for i, ins := range tp.Instructions {
		n := 1
		switch tp.IrrepNorm {
		case "", IrrepNormComponent:
			n = tp.Out[ins.Out].Ir.Dim()
		case IrrepNormNorm:
			n = tp.In1[ins.In1].Ir.Dim() * tp.In2[ins.In2].Ir.Dim()
		}
		x := 1
		switch tp.PathNorm {
		case "", PathNormElement:
			x = fanInOfSlot[ins.Out]
		case PathNormPath:
			x = tp.fanIn(ins) * pathsOfSlot[ins.Out]
		}
		out[i] = math.Sqrt(ins.PathWeight * float64(n) / float64(max(x, 1)))
	}
	return out, nil
}

// fanIn returns the number of (u, v) pairs that a path adds into one output channel.
func (tp TensorProduct) fanIn(ins Instruction) int {
	m1, m2 := tp.In1[ins.In1].Mul, tp.In2[ins.In2].Mul
	switch ins.Mode {
	case UVW:
		return m1 * m2
	case UVU:
		return m2
	case UVV, UUW:
		return m1
	}
	return 1
}

// Eval computes one sample: it overwrites out (Out.Dim() values) from x (In1.Dim()), y (In2.Dim()) and w
// (WeightNumel(), in instruction order), all in mul_ir layout. It is written for clarity, not speed.
func (tp TensorProduct) Eval(x, y, w, out []float64) error {
	if err := tp.checkSizes("evaluating", sized{"x", len(x), tp.In1.Dim()}, sized{"y", len(y), tp.In2.Dim()},
		sized{"w", len(w), tp.WeightNumel()}, sized{"out", len(out), tp.Out.Dim()}); err != nil {
		return err
	}
	clear(out)
	return tp.eachPath(x, y, w, out, func(p path, _ pathAt) { p.accumulate() })
}

type sized struct {
	name      string
	got, want int
}

// checkSizes returns an error for the first argument with a wrong number of values.
func (tp TensorProduct) checkSizes(doing string, args ...sized) error {
	for _, arg := range args {
		if arg.got != arg.want {
			return fmt.Errorf("%s tensor product %v x %v -> %v: %s has %d values, expected %d", doing, tp.In1, tp.In2, tp.Out, arg.name, arg.got, arg.want)
		}
	}
	return nil
}

// pathAt holds the offsets of an instruction's arguments; w is -1 for an instruction without weights.
type pathAt struct{ x, y, w int }

// eachPath calls f for every instruction, with its path and the offsets of its x, y and w. The path's slices start at
// the instruction's first value in x, y, w and out.
func (tp TensorProduct) eachPath(x, y, w, out []float64, f func(path, pathAt)) error {
	coefficients, err := tp.PathCoefficients()
	if err != nil {
		return err
	}
	weightAt, _ := tp.weightLayout()
	at1, at2, atOut := tp.In1.Offsets(), tp.In2.Offsets(), tp.Out.Offsets()
	for i, ins := range tp.Instructions {
		a, b, c := tp.In1[ins.In1], tp.In2[ins.In2], tp.Out[ins.Out]
		cg, err := SparseCG(a.Ir.L, b.Ir.L, c.Ir.L)
		if err != nil {
			return err
		}
		at := pathAt{at1[ins.In1], at2[ins.In2], -1}
		p := path{mode: ins.Mode, cg: cg, coefficient: coefficients[i], m1: a.Mul, m2: b.Mul, mo: c.Mul,
			x: x[at.x:], y: y[at.y:], out: out[atOut[ins.Out]:]}
		if ins.HasWeight {
			at.w = weightAt[i]
			p.w = w[at.w:]
		}
		f(p, at)
	}
	return nil
}

// path is one instruction with slices of its arguments; w is nil without weights.
type path struct {
	mode        Mode
	cg          *CG
	coefficient float64
	m1, m2, mo  int
	x, y, w     []float64
	out         []float64
}

// accumulate adds the path to out: for each pair (u, v) that the mode couples, z = coefficient * C(x_u, y_v), then
// out_o += w * z for each output channel o from fedBy. op.RefGemm explains the directive.
//
//go:norace
func (p path) accumulate() {
	d1, d2, d3 := 2*p.cg.L1+1, 2*p.cg.L2+1, 2*p.cg.L3+1
	var buf [2*MaxL + 1]float64
	z := buf[:d3]
	for u := range p.m1 {
		for v := range p.m2 {
			if (p.mode == UUW || p.mode == UUU) && u != v {
				continue
			}
			clear(z)
			for _, e := range p.cg.Entries {
				z[e.K] += p.coefficient * e.C * p.x[u*d1+e.I] * p.y[v*d2+e.J]
			}
			first, last := p.fedBy(u, v)
			for o := first; o <= last; o++ {
				weight := p.weight(u, v, o)
				for k := range z {
					p.out[o*d3+k] += weight * z[k]
				}
			}
		}
	}
}

// fedBy returns the first and the last output channel to which the pair (u, v) contributes.
func (p path) fedBy(u, v int) (first, last int) {
	switch p.mode {
	case UVU, UUU:
		return u, u
	case UVV:
		return v, v
	}
	return 0, p.mo - 1
}

// weight returns the weight with which the pair (u, v) contributes to output channel o; see Mode for the shapes.
func (p path) weight(u, v, o int) float64 {
	if p.w == nil {
		return 1
	}
	return p.w[p.weightAt(u, v, o)]
}

func (p path) weightAt(u, v, o int) int {
	switch p.mode {
	case UVW:
		return (u*p.m2+v)*p.mo + o
	case UVU, UVV:
		return u*p.m2 + v
	case UUW:
		return u*p.mo + o
	}
	return u
}
