package op

import (
	_ "embed"
	"math"

	"github.com/gpuprof/gpuprof"
)

//go:embed reduce.ptx
var reducePTX string

// Reduce puts the rows of a matrix together, column by column:
//
//	x [rows,C] -> out [C] = sum, mean or maximum over the rows
//
// (all values of an array with C = 1). A NaN anywhere in a column is its
// result. Without Deterministic the parts of a sum are added with atomics in
// whatever order they are done, so that it may differ in the last digits from
// run to run; with it they are added in order by a second launch.
type Reduce struct {
	Op            string // "sum", "mean" or "max"
	C             int
	Deterministic bool
}

const (
	reduceSum = iota
	reduceMax
)

// reduceKernel: x, out, rows, C, op, chunk, factor. One item is chunk rows,
// which give one row of out. reduceAtomicKernel: x, out, rows, C, op, chunk;
// they are added to the one row of out.
var (
	reduceKernel       = gpuprof.Kernel{Name: "reduce", Sig: "bbiiiif", Host: reduceHost, PTX: reducePTX, Threads: 256, PerBlock: 1}
	reduceAtomicKernel = gpuprof.Kernel{Name: "reduce_atomic", Sig: "bbiiii", Host: reduceAtomicHost, PTX: reducePTX, Threads: 256, PerBlock: 1}
)

// chunk rows are put together by one item. It depends on the width alone, so
// that the order of additions does too.
func (s Reduce) chunk() int { return max(8192/max(s.C, 1), 16) }

// Scratch is the bytes Bind allocates: one row for every chunk.
func (s Reduce) Scratch(rows int) int64 {
	if !s.Deterministic {
		return 0
	}
	return max(int64(ceilDiv(rows, s.chunk()))*int64(s.C), 1) * floatBytes
}

// Bind binds the operation to rows rows, at least one.
func (s Reduce) Bind(dev gpuprof.Device, x, out gpuprof.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "reduce", 0)
	k.positive("the number of rows", rows)
	k.positive("C", s.C)
	op, factor, flops := reduceSum, float32(1), rows*s.C
	switch s.Op {
	case "sum":
	case "mean":
		factor = float32(1 / float64(rows))
		flops += s.C
	case "max":
		op = reduceMax
	default:
		k.usage("unknown reduction %q; use sum, mean or max", s.Op)
	}
	k.want("x", x, int64(rows)*int64(s.C))
	k.want("out", out, int64(s.C))
	if k.err != nil {
		return k.done()
	}
	k.b.minimum = rate{fixed: move(flops, rows*s.C, s.C)}
	chunk := s.chunk()
	chunks := ceilDiv(rows, chunk)
	if s.Deterministic {
		partial := k.scratch(int64(chunks) * int64(s.C))
		k.launch(&reduceKernel, items{fixed: chunks}, rate{fixed: move(rows*s.C, rows*s.C, chunks*s.C)},
			x, partial, rows, s.C, op, chunk, float32(1))
		k.launch(&reduceKernel, items{fixed: 1}, rate{fixed: move((chunks+1)*s.C, chunks*s.C, s.C)},
			partial, out, chunks, s.C, op, chunks, factor)
		return k.done()
	}
	start := float32(0)
	if op == reduceMax {
		start = float32(math.Inf(-1))
	}
	k.fill(out, s.C, 0, start)
	k.launch(&reduceAtomicKernel, items{fixed: chunks}, rate{fixed: move(rows*s.C, rows*s.C+chunks*s.C, chunks*s.C)},
		x, out, rows, s.C, op, chunk)
	if factor != 1 {
		k.launch(&scaleKernel, items{fixed: s.C}, rate{fixed: move(s.C, s.C, s.C)}, out, itemCount{}, factor)
	}
	return k.done()
}
