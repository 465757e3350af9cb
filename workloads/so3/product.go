package so3

import (
	"errors"
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
)

// Mode names how a path couples the copies of its blocks, by the index letters of (in1, in2, out). Equal letters share
// an index, and a letter missing from out is summed over.
type Mode string

// The modes and the shapes of their weights, row-major:
//
//	uvw  out_w = sum_uv weight[u][v][w] (x_u, y_v)   weight required
//	uvu  out_u = sum_v  weight[u][v]    (x_u, y_v)
//	uvv  out_v = sum_u  weight[u][v]    (x_u, y_v)
//	uuw  out_w = sum_u  weight[u][w]    (x_u, y_u)   without weight, out has multiplicity 1
//	uuu  out_u =        weight[u]       (x_u, y_u)
const (
	UVW Mode = "uvw"
	UVU Mode = "uvu"
	UVV Mode = "uvv"
	UUW Mode = "uuw"
	UUU Mode = "uuu"
)

// Values of TensorProduct.IrrepNorm and PathNorm. Empty means component and element, as in e3nn.
const (
	IrrepNormComponent = "component"
	IrrepNormNorm      = "norm"
	PathNormElement    = "element"
	PathNormPath       = "path"
	NormNone           = "none"
)

// Instruction is one path. It couples block In1 of the first input with block In2 of the second to the irrep of block
// Out, and adds the result to block Out. PathWeight >= 0, usually 1, scales the variance, so its square root scales the
// values; 0 means that the path adds nothing.
type Instruction struct {
	In1, In2, Out int
	Mode          Mode
	HasWeight     bool
	PathWeight    float64
}

// TensorProduct is an equivariant bilinear map from In1 x In2 to Out with e3nn's conventions. IrrepNorm is component,
// norm or none; PathNorm is element, path or none.
type TensorProduct struct {
	In1, In2, Out       Irreps
	Instructions        []Instruction
	IrrepNorm, PathNorm string
}

// Validate returns nil if Eval can run, otherwise an error that names the instruction and the reason.
func (tp TensorProduct) Validate() error {
	for _, side := range []struct {
		name string
		irs  Irreps
	}{{"in1", tp.In1}, {"in2", tp.In2}, {"out", tp.Out}} {
		if err := side.irs.check(); err != nil {
			return fmt.Errorf("checking tensor product, irreps %s: %w", side.name, err)
		}
	}
	switch tp.IrrepNorm {
	case "", IrrepNormComponent, IrrepNormNorm, NormNone:
	default:
		return gpuprof.Errorf(nil, "checking tensor product: unknown irrep normalization %q", tp.IrrepNorm).WithFix("use component, norm or none")
	}
	switch tp.PathNorm {
	case "", PathNormElement, PathNormPath, NormNone:
	default:
		return gpuprof.Errorf(nil, "checking tensor product: unknown path normalization %q", tp.PathNorm).WithFix("use element, path or none")
	}
	for i, ins := range tp.Instructions {
		if err := tp.checkInstruction(ins); err != nil {
			return fmt.Errorf("checking tensor product, instruction %d (%d,%d,%d,%s): %w", i, ins.In1, ins.In2, ins.Out, ins.Mode, err)
		}
	}
	return nil
}

func (tp TensorProduct) checkInstruction(ins Instruction) error {
	for _, b := range []struct {
		name  string
		index int
		irs   Irreps
	}{{"in1", ins.In1, tp.In1}, {"in2", ins.In2, tp.In2}, {"out", ins.Out, tp.Out}} {
		if b.index < 0 || b.index >= len(b.irs) {
			return gpuprof.Errorf(nil, "block %d of %s does not exist: %s %v has %d blocks", b.index, b.name, b.name, b.irs, len(b.irs))
		}
	}
	a, b, c := tp.In1[ins.In1], tp.In2[ins.In2], tp.Out[ins.Out]
	if a.Ir.P*b.Ir.P != c.Ir.P {
		return gpuprof.Errorf(nil, "the parity of %v x %v is not that of %v", a.Ir, b.Ir, c.Ir).WithFix("change the parity of the output block")
	}
	if !obeysTriangle(a.Ir.L, b.Ir.L, c.Ir.L) {
		return gpuprof.Errorf(nil, "%v x %v does not contain %v (triangle rule)", a.Ir, b.Ir, c.Ir).WithFix("choose l from %d to %d", max(a.Ir.L-b.Ir.L, b.Ir.L-a.Ir.L), a.Ir.L+b.Ir.L)
	}
	if top := max(a.Ir.L, b.Ir.L, c.Ir.L); top > MaxL {
		return fmt.Errorf("degree %d is above %d, the highest supported", top, MaxL)
	}
	if !(ins.PathWeight >= 0) || math.IsInf(ins.PathWeight, 0) {
		return gpuprof.Errorf(nil, "path weight %v is not a finite number >= 0, and its root scales the path", ins.PathWeight)
	}
	return checkMode(ins, a.Mul, b.Mul, c.Mul)
}

var errNeedsWeight = gpuprof.Errorf(nil, "the mode uvw needs a weight").WithFix("set HasWeight")

func checkMode(ins Instruction, m1, m2, mo int) error {
	same := func(what string, a, b int) error {
		if a == b {
			return nil
		}
		return fmt.Errorf("mode %s needs equal multiplicities of %s, they are %d and %d", ins.Mode, what, a, b)
	}
	switch ins.Mode {
	case UVW:
		if !ins.HasWeight {
			return errNeedsWeight
		}
		return nil
	case UVU:
		return same("in1 and out", m1, mo)
	case UVV:
		return same("in2 and out", m2, mo)
	case UUW:
		if !ins.HasWeight && mo != 1 {
			return gpuprof.Errorf(nil, "mode uuw without weight needs an output multiplicity of 1, it is %d", mo).WithFix("set HasWeight")
		}
		return same("in1 and in2", m1, m2)
	case UUU:
		return errors.Join(same("in1 and in2", m1, m2), same("in1 and out", m1, mo))
	}
	return gpuprof.Errorf(nil, "unknown mode %q", ins.Mode).WithFix("use uvw, uvu, uvv, uuw or uuu")
}

// WeightShape returns the shape of the weights of instruction i, nil if it has none or is invalid.
func (tp TensorProduct) WeightShape(i int) []int {
	if i < 0 || i >= len(tp.Instructions) {
		return nil
	}
	ins := tp.Instructions[i]
	if !ins.HasWeight || tp.checkInstruction(ins) != nil {
		return nil
	}
	m1, m2, mo := tp.In1[ins.In1].Mul, tp.In2[ins.In2].Mul, tp.Out[ins.Out].Mul
	switch ins.Mode {
	case UVW:
		return []int{m1, m2, mo}
	case UVU, UVV:
		return []int{m1, m2}
	case UUW:
		return []int{m1, mo}
	}
	return []int{m1}
}

// WeightOffsets returns the offset of every instruction's weights in the flat weights, -1 if WeightShape is nil.
func (tp TensorProduct) WeightOffsets() []int {
	out, _ := tp.weightLayout()
	return out
}

// WeightNumel returns the number of weights.
func (tp TensorProduct) WeightNumel() int {
	_, n := tp.weightLayout()
	return n
}

func (tp TensorProduct) weightLayout() (offsets []int, total int) {
	offsets = make([]int, len(tp.Instructions))
	for i := range offsets {
		offsets[i] = -1
		shape := tp.WeightShape(i)
		if shape == nil {
			continue
		}
		offsets[i] = total
		n := 1
		for _, d := range shape {
			n *= d
		}
		total += n
	}
	return offsets, total
}

// NumPaths returns the number of instructions.
func (tp TensorProduct) NumPaths() int { return len(tp.Instructions) }
