package so3

import "slices"

// UVUProduct returns the tensor product of an equivariant convolution (NequIP, MACE): features with irreps in times
// spherical harmonics with irreps sh. It has a weighted path of mode uvu for every block of in, every block of sh and
// every irrep of their product that occurs in target. Each path has an output block of its own, with the multiplicity
// of in's block. The output blocks are sorted stably; instructions and flat weights follow their order. IrrepNorm is
// component and PathNorm element; if sh has multiplicity 1, every coefficient is sqrt(2*l_out+1).
func UVUProduct(in, sh, target Irreps) TensorProduct {
	var mid Irreps
	var instructions []Instruction
	for i, a := range in {
		for j, b := range sh {
			for _, ir := range a.Ir.Product(b.Ir) {
				if target.Count(ir) == 0 {
					continue
				}
				instructions = append(instructions, Instruction{In1: i, In2: j, Out: len(mid), Mode: UVU, HasWeight: true, PathWeight: 1})
				mid = append(mid, MulIrrep{Mul: a.Mul, Ir: ir})
			}
		}
	}
	sorted, p, _ := mid.Sort()
	for i := range instructions {
		instructions[i].Out = p[instructions[i].Out]
	}
	slices.SortFunc(instructions, func(a, b Instruction) int { return a.Out - b.Out })
	return TensorProduct{In1: in, In2: sh, Out: sorted, Instructions: instructions, IrrepNorm: IrrepNormComponent, PathNorm: PathNormElement}
}
