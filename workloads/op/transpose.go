package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

//go:embed transpose.ptx.zst
var transposePTX string

// Transpose changes the layout of each row, x [rows,dim] -> out [rows,dim], to ir_mul or, with ToMulIr, to mul_ir.
type Transpose struct {
	Irreps              so3.Irreps
	ToMulIr, Accumulate bool
}

// One item of transposeKernel is one row. Its table describes a block by offset, rows and columns of the source, and 0.
var transposeKernel = device.Typed[transposeArgs](device.Kernel{Name: "transpose", Host: transposeHost, Grain: 8, PTX: transposePTX, Threads: 256, PerBlock: 1})

func (t Transpose) blockTable() []int32 {
	var table []int32
	at := 0
	for _, m := range t.Irreps {
		r, c := m.Mul, m.Ir.Dim()
		if t.ToMulIr {
			r, c = c, r
		}
		table = append(table, int32(at), int32(r), int32(c), 0)
		at += m.Dim()
	}
	return table
}

func (k *binder) addTranspose(t Transpose, x, out device.Buffer, rows int) {
	dim := t.Irreps.Dim()
	cost := Moved(0, rows*dim, rows*dim)
	if t.Accumulate {
		cost = Moved(rows*dim, 2*rows*dim, rows*dim)
	}
	table := k.uploadInts(t.blockTable())
	k.addLaunch(&transposeKernel, items{fixed: rows}, rate{fixed: cost}, transposeArgs{
		x: x, out: out, table: table, count: itemCount, dim: dim, blocks: len(t.Irreps), add: t.Accumulate,
	})
}

// addToIrMul appends a transpose of x [rows,dim] from mul_ir to ir_mul and returns the buffer of the result.
func (k *binder) addToIrMul(irs so3.Irreps, x device.Buffer, rows int) device.Buffer {
	out := k.allocateScratch(int64(rows) * int64(irs.Dim()))
	k.addTranspose(Transpose{Irreps: irs}, x, out, rows)
	return out
}
