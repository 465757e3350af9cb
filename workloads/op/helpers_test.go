package op

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// rig is a host device with one stream and buffers that tests fill and read.
type rig struct {
	t   testing.TB
	dev *host.Device
	s   device.Stream
	rnd *rand.Rand
}

func newRig(t testing.TB, threads int) *rig {
	t.Helper()
	dev, err := host.Open(host.Options{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	s, err := dev.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := &rig{t: t, dev: dev, s: s, rnd: rand.New(rand.NewPCG(seed, 1))}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) alloc(n int) device.Buffer {
	r.t.Helper()
	b, err := r.dev.Alloc(max(n, 1)*4, device.OnDevice)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// normal is a buffer of n standard normal values.
func (r *rig) normal(n int) device.Buffer {
	b := r.alloc(n)
	v := device.Floats(b)
	for i := range v {
		v[i] = float32(r.rnd.NormFloat64())
	}
	return b
}

// poisoned is a buffer of n NaNs.
func (r *rig) poisoned(n int) device.Buffer {
	b := r.alloc(n)
	poison(b)
	return b
}

func poison(b device.Buffer) {
	v := device.Floats(b)
	for i := range v {
		v[i] = float32(math.NaN())
	}
}

func (r *rig) ints(v []int32) device.Buffer {
	b := r.alloc(len(v))
	copy(device.Ints(b), v)
	return b
}

func (r *rig) run(ops ...*Bound) {
	r.t.Helper()
	for _, o := range ops {
		if o == nil {
			continue
		}
		if err := o.Enqueue(r.s); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.s.Sync(); err != nil {
		r.t.Fatal(err)
	}
}

// must closes the bound operation at the end of the test.
func (r *rig) must(b *Bound, err error) *Bound {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := b.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return b
}

func wide(b device.Buffer, from, to int) []float64 {
	v := device.Floats(b)[from:to]
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

// near checks ||got-want||/||want|| < tol; a NaN fails.
func near(t testing.TB, what string, got, want []float64, tol float64) float64 {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, expected %d", what, len(got), len(want))
	}
	var diff, norm float64
	for i := range got {
		diff += (got[i] - want[i]) * (got[i] - want[i])
		norm += want[i] * want[i]
	}
	e := math.Sqrt(diff / math.Max(norm, 1e-300))
	if norm == 0 {
		e = math.Sqrt(diff)
	}
	if !(e < tol) {
		t.Errorf("%s: relative error %.3g, expected below %.1g", what, e, tol)
	}
	return e
}

// graph is edges sorted by destination.
type graph struct {
	src, dst, rowPtr []int32
	nodes            int
}

func (r *rig) graph(degrees []int, nodes int) graph {
	g := graph{nodes: nodes, rowPtr: make([]int32, 1, len(degrees)+1)}
	for row, d := range degrees {
		for range d {
			g.src = append(g.src, int32(r.rnd.IntN(nodes)))
			g.dst = append(g.dst, int32(row))
		}
		g.rowPtr = append(g.rowPtr, int32(len(g.src)))
	}
	return g
}

// prefix is the first e edges over the same rows.
func (g graph) prefix(e int) []int32 {
	p := make([]int32, len(g.rowPtr))
	for i, v := range g.rowPtr {
		p[i] = min(v, int32(e))
	}
	return p
}

func irreps(t testing.TB, s string) so3.Irreps {
	t.Helper()
	irs, err := so3.ParseIrreps(s)
	if err != nil {
		t.Fatal(err)
	}
	return irs
}

// convolution is a bound tensor product with everything it reads.
type convolution struct {
	tp      TensorProduct
	g       graph
	b       TPBuffers
	product *Bound
	scatter *Bound
}

func (r *rig) convolution(tp TensorProduct, g graph) *convolution {
	r.t.Helper()
	e, rows := len(g.src), len(g.rowPtr)-1
	c := &convolution{tp: tp, g: g, b: TPBuffers{
		X: r.normal(g.nodes * tp.TP.In1.Dim()), Y: r.normal(e * tp.TP.In2.Dim()), W: r.normal(e * tp.TP.WeightNumel()),
		Src: r.ints(g.src), Dst: r.ints(g.dst), RowPtr: r.ints(g.rowPtr), Out: r.poisoned(rows * tp.TP.Out.Dim())}}
	r.bind(c)
	return c
}

func (r *rig) bind(c *convolution) {
	r.t.Helper()
	p, s, err := c.tp.Bind(r.dev, c.b, c.g.nodes, len(c.g.rowPtr)-1, len(c.g.src))
	c.product = r.must(p, err)
	if s != nil {
		c.scatter = r.must(s, nil)
	}
}

// reference is all rows in float64 over the first e edges.
func (r *rig) reference(c *convolution, e int) []float64 {
	r.t.Helper()
	in, sh, numel, od := c.tp.TP.In1.Dim(), c.tp.TP.In2.Dim(), c.tp.TP.WeightNumel(), c.tp.TP.Out.Dim()
	out := make([]float64, (len(c.g.rowPtr)-1)*od)
	ptr := c.g.prefix(e)
	for row := range len(ptr) - 1 {
		from, to := int(ptr[row]), int(ptr[row+1])
		var x []float64
		for _, s := range c.g.src[from:to] {
			x = append(x, wide(c.b.X, int(s)*in, int(s+1)*in)...)
		}
		if err := RefTensorProduct(c.tp, x, wide(c.b.Y, from*sh, to*sh), wide(c.b.W, from*numel, to*numel), out[row*od:(row+1)*od]); err != nil {
			r.t.Fatal(err)
		}
	}
	return out
}

func (r *rig) result(c *convolution) []float64 {
	r.t.Helper()
	poison(c.b.Out)
	for _, b := range c.scratch() {
		poison(b)
	}
	r.run(c.product, c.scatter)
	return wide(c.b.Out, 0, (len(c.g.rowPtr)-1)*c.tp.TP.Out.Dim())
}

// scratch is the memory the product owns besides its tables, two of unfused and
// three of the others, which come first, and those of the transpositions, which
// come last.
func (c *convolution) scratch() []device.Buffer {
	switch {
	case c.tp.Impl == ImplUnfused:
		return c.product.owned[2:]
	case c.tp.Impl == ImplFused:
		return nil
	case c.tp.Layout == MulIr:
		return c.product.owned[3:6]
	}
	return c.product.owned[3:]
}

// Bind binds a transposition alone, to rows rows: products have it as one of their launches.
func (t Transpose) Bind(dev device.Device, x, out device.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "transpose", 0)
	k.checkBuffer("x", x, int64(rows)*int64(t.Irreps.Dim()))
	k.checkBuffer("out", out, int64(rows)*int64(t.Irreps.Dim()))
	k.addTranspose(t, x, out, rows)
	if len(k.b.launches) == 1 {
		k.b.minimum = k.b.launches[0].cost
	}
	return k.finishBinding()
}
