// Package op holds the kernels that the workloads share. Each operation has four files: NAME.go (shapes, arguments,
// launch shape, counted cost), NAME_host.go (the kernel for the host device), NAME.cu with NAME.ptx.zst compiled from
// it (the kernel for CUDA), and NAME_ref.go (the reference: the same formula in float64).
//
// An operation is a struct of parameters. Bind checks the parameters against the buffers, allocates scratch memory and
// returns a Bound. Bound.Enqueue only launches kernels: it allocates nothing and makes no decision that depends on
// data. A workload allocates its other buffers from an Arena.
//
// Values are float32, indices int32, arrays row-major. A block of irreps has mul copies u of d = 2l+1 components i, in
// one of two layouts: "mul_ir" (e3nn's) stores element (u,i) at off + u*d + i, "ir_mul" at off + i*mul + u.
package op

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// Layout is the storage order of a block of irreps.
type Layout string

// The values of Layout; see the package comment.
const (
	MulIr Layout = "mul_ir"
	IrMul Layout = "ir_mul"
)

func (l Layout) checkLayout(what string) error {
	if l == MulIr || l == IrMul {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "binding %s: unknown layout %q", what, string(l)).WithFix("use mul_ir or ir_mul")
}

// blockStrides returns the distances in a row between copies u and between components i of the block m; see the package
// comment.
func (l Layout) blockStrides(m so3.MulIrrep) (u, i int) {
	if l == IrMul {
		return 1, m.Mul
	}
	return m.Ir.Dim(), 1
}

// ToLayout copies one row of irs from src in mul_ir to dst in layout l.
func ToLayout[F float32 | float64](l Layout, irs so3.Irreps, dst, src []F) {
	permuteBlocks(l, irs, func(flat, there int) { dst[there] = src[flat] })
}

// FromLayout copies one row of irs from src in layout l to dst in mul_ir.
func FromLayout[F float32 | float64](l Layout, irs so3.Irreps, dst, src []F) {
	permuteBlocks(l, irs, func(flat, there int) { dst[flat] = src[there] })
}

func permuteBlocks(l Layout, irs so3.Irreps, move func(mulIr, there int)) {
	at := 0
	for _, m := range irs {
		su, si := l.blockStrides(m)
		d := m.Ir.Dim()
		for u := range m.Mul {
			for i := range d {
				move(at+u*d+i, at+u*su+i*si)
			}
		}
		at += m.Dim()
	}
}

const floatBytes = 4
