package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
)

//go:embed readout.ptx.gz
var readoutPTX string

// Readout sums the first Count values of every row, each with its own factor, to
// one value a row, and hands that value's cotangent back:
//
//	x [rows,Width], a [Count] -> rho [rows] = sum_u a_u x_u, added to rho with Add
//	drho [rows], a -> dx [rows,Width] = drho a_u, 0 from Count on
type Readout struct {
	Width, Count int
	Add          bool
}

// readoutKernel: x, a, rho, n, width, count, add; readoutGradKernel: drho, a, dx, n,
// width, count. One item is one row.
var (
	readoutKernel     = gpuprof.Kernel{Name: "readout", Sig: "bbbiiii", Host: readoutHost, Grain: 64, PTX: readoutPTX, Threads: 128, PerBlock: 4}
	readoutGradKernel = gpuprof.Kernel{Name: "readout_grad", Sig: "bbbiii", Host: readoutGradHost, Grain: 64, PTX: readoutPTX, Threads: 128, PerBlock: 4}
)

func (k *binder) readout(r Readout, rows int) {
	if rows < 0 {
		k.usage("use 0 or more", "the number of rows %d is negative", rows)
	}
	if r.Count < 0 || r.Count > r.Width {
		k.usage("use 0 to the width", "%d of %d values of a row are read", r.Count, r.Width)
	}
}

// Bind binds the sum over rows rows.
func (r Readout) Bind(dev gpuprof.Device, x, a, rho gpuprof.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "readout", 0)
	k.readout(r, rows)
	k.want("x", x, int64(rows)*int64(r.Width))
	k.want("a", a, int64(r.Count))
	k.want("rho", rho, int64(rows))
	add, read := 0, rows*r.Count+r.Count
	if r.Add {
		add, read = 1, read+rows
	}
	k.b.minimum = rate{fixed: move(2*rows*r.Count, read, rows)}
	k.launch(&readoutKernel, items{fixed: rows}, k.b.minimum, x, a, rho, itemCount{}, r.Width, r.Count, add)
	return k.done()
}

// BindGrad binds the way back.
func (r Readout) BindGrad(dev gpuprof.Device, drho, a, dx gpuprof.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "readout backwards", 0)
	k.readout(r, rows)
	k.want("drho", drho, int64(rows))
	k.want("a", a, int64(r.Count))
	k.want("dx", dx, int64(rows)*int64(r.Width))
	k.b.minimum = rate{fixed: move(rows*r.Count, rows+r.Count, rows*r.Width)}
	k.launch(&readoutGradKernel, items{fixed: rows}, k.b.minimum, drho, a, dx, itemCount{}, r.Width, r.Count)
	return k.done()
}

// Sum adds n values to one in a fixed order, in double: chunks of sumChunk, then
// the chunks' sums.
type Sum struct{ N int }

const sumChunk = 4096

// sumKernel: x, out, n, values. One item is one chunk, on CUDA a block.
var sumKernel = gpuprof.Kernel{Name: "sum", Sig: "bbii", Host: sumHost, Grain: 1, PTX: readoutPTX, Threads: 256, PerBlock: 1}

// Bind binds the sum of x [N] to out [1].
func (s Sum) Bind(dev gpuprof.Device, x, out gpuprof.Buffer) (*Bound, error) {
	k := newBinder(dev, "sum", 0)
	k.want("x", x, int64(s.N))
	k.want("out", out, 1)
	k.b.minimum = rate{fixed: move(s.N, s.N, 1).In("fp64", int64(s.N))}
	n := s.N
	for {
		chunks := ceilDiv(max(n, 1), sumChunk)
		to := out
		if chunks > 1 {
			to = k.scratch(int64(chunks))
		}
		k.launch(&sumKernel, items{fixed: chunks}, rate{fixed: move(n, n, chunks).In("fp64", int64(n))}, x, to, itemCount{}, n)
		if chunks == 1 {
			return k.done()
		}
		x, n = to, chunks
	}
}

// Scratch is the bytes Bind allocates.
func (s Sum) Scratch() int64 {
	var words int64
	for n := s.N; n > sumChunk; {
		n = ceilDiv(n, sumChunk)
		words += int64(n)
	}
	return words * floatBytes
}
