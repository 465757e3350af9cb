package gruflow

import (
	_ "embed"
	"errors"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
)

//go:embed backward.ptx.gz
var backwardPTX string

// The kernels of back-propagation through time; refCellBack has the formulas.
var (
	// A cell that keeps what its backward reads: from the products gx [T,B,3H] and gh
	// [B,3H], biases in them, the next state, and in kept [T,B,4H] rows of r, z, n and
	// u = W_hn h + b_hn. states [T+1,B,H] has a step's state before the one it makes.
	// Arguments: gx, gh, states, kept, n, B, H, step. One item is one unit.
	keepKernel = gpuprof.Kernel{Name: "gru_keep", Sig: "bbbbiiii", Host: keepHost, Grain: 4096, PTX: backwardPTX, Threads: 256, PerBlock: 256}
	// The cell backwards: dh [B,H] comes as the cotangent of the new state, to which a
	// step's dout [T,B,H] is added, and leaves times z; gx and gh [T,B,3H] get what the
	// products backwards read. Arguments: dout, dh, states, kept, gx, gh, n, B, H, step.
	// One item is one unit.
	cellBackKernel = gpuprof.Kernel{Name: "gru_cell_bwd", Sig: "bbbbbbiiii", Host: cellBackHost, Grain: 4096, PTX: backwardPTX, Threads: 256, PerBlock: 256}
	// out [rows,N] += a [rows,K] w [K,N]. Arguments: a, w, out, n, rows, K, N, aAt. An
	// item is gradTile rows by as many columns, items of the same rows side by side.
	chainKernel = gpuprof.Kernel{Name: "gru_chain", Sig: "bbbiiiii", Host: chainHost, PTX: backwardPTX, Threads: 256, PerBlock: 1}
	// dw [M,K] = g^T [M,rows] x [rows,K], g [rows,M], summed in chunks of gradChunk rows
	// whose sums are added in order. Arguments: g, x, dw, n, rows, M, K, xAt. An
	// item is gradTile by gradTile of dw.
	weightsKernel = gpuprof.Kernel{Name: "gru_weights", Sig: "bbbiiiii", Host: weightsHost, PTX: backwardPTX, Threads: 256, PerBlock: 1}
	// db [M] is the sum of the rows of g [rows,M], in the same chunks. Arguments: g, db,
	// n, rows. One item is one column.
	biasKernel = gpuprof.Kernel{Name: "gru_bias", Sig: "bbii", Host: biasHost, Grain: 64, PTX: backwardPTX, Threads: 64, PerBlock: 64}
)

const (
	// gradTile is the side of an item of a product of the backward.
	gradTile = 64
	// gradChunk is the rows of which one float32 sum is made. A sum of 74,250 random
	// products was off by 5e-6 of its scale in one go and by 2e-6 in chunks.
	gradChunk = 4096
)

// layerBackward is a layer's memory: weights as the products read them, states and
// what is kept of every step, and gradients.
type layerBackward struct {
	fwd            layerBuffers
	wi, wh         gpuprof.Buffer // [3H,K] and [3H,H], as PyTorch has them
	states, kept   gpuprof.Buffer
	dh             gpuprof.Buffer // [B,H]: the cotangent of the last state, then of the first
	gx, gh         gpuprof.Buffer // [T,B,3H]
	dx             gpuprof.Buffer // [T,B,K]
	dwi, dwh       gpuprof.Buffer
	dbi, dbh       gpuprof.Buffer
	forward, chain []launch
}

// Backward is a GRU by itself with its back-propagation through time, in float32: what
// vectors of gradients are checked with and other programs are raced against.
type Backward struct {
	*program
	s       shape
	mem     op.Arena
	x, dout gpuprof.Buffer
	layers  []layerBackward
}

// NewBackward allocates and binds a GRU and its backward on dev; Close releases it. Of
// c, Impl and Precision are not read.
func NewBackward(dev gpuprof.Device, c ForwardConfig) (*Backward, error) {
	f := &Backward{s: shape{T: c.TimeSteps, B: c.Batch, I: c.Input, H: c.Hidden, L: len(c.Layers), D: 1}, mem: op.Arena{Dev: dev}}
	stream, err := dev.NewStream("gru")
	if err != nil {
		return nil, err
	}
	f.program = newProgram(dev, stream)
	s, words := f.s, func(what string, n ...int) gpuprof.Buffer {
		all := int64(1)
		for _, v := range n {
			all *= int64(v)
		}
		return f.mem.Words(what, all, gpuprof.OnDevice)
	}
	f.x, f.dout = words("the input", s.T, s.B, s.I), words("the output's cotangent", s.T, s.B, s.H)
	for l, p := range c.Layers {
		k, g := s.width(l), s.gates()
		f.layers = append(f.layers, layerBackward{
			fwd: uploadLayer(&f.mem, stream, layerParams{p.WeightIH, p.WeightHH, p.BiasIH, p.BiasHH}, s.H, fp32),
			wi:  f.mem.Upload(stream, "GRU weights", p.WeightIH), wh: f.mem.Upload(stream, "GRU weights", p.WeightHH),
			states: words("states", s.T+1, s.B, s.H), kept: words("gates kept", s.T, s.B, 4, s.H), dh: words("the state's cotangent", s.B, s.H),
			gx: words("the input gates' cotangent", s.T, s.B, g), gh: words("the state gates' cotangent", s.T, s.B, g), dx: words("the input's cotangent", s.T, s.B, k),
			dwi: words("gradients", g, k), dwh: words("gradients", g, s.H), dbi: words("gradients", g), dbh: words("gradients", g),
		})
	}
	if err = f.mem.Err; err == nil {
		f.bind(dev.Info().Cores)
		err = f.Err
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// bind makes every layer's launches. gx and gh hold the gates' sums going forward, and
// their cotangents going back.
func (f *Backward) bind(cores int) {
	s, rows, g := f.s, f.s.T*f.s.B, f.s.gates()
	net := gru{program: f.program, s: s, cores: cores}
	in, inAt := f.x, 0
	for l := range f.layers {
		b, k := &f.layers[l], s.width(l)
		b.forward = append(b.forward, net.ownGemm(source{in, inAt}, b.fwd.wi, b.fwd.bi, b.gx, rows, k, g, fp32))
		for t := range s.T {
			b.forward = append(b.forward, net.ownGemm(source{b.states, t * s.B * s.H}, b.fwd.wh, b.fwd.bh, b.gh, s.B, s.H, g, fp32),
				f.launch(&keepKernel, s.B*s.H, keepCost(s.B*s.H), b.gx, b.gh, b.states, b.kept, s.B*s.H, s.B, s.H, t))
		}
		in, inAt = b.states, s.B*s.H
	}
	dout := f.dout
	for l := s.L - 1; l >= 0; l-- {
		b := &f.layers[l]
		for t := s.T - 1; t >= 0; t-- {
			b.chain = append(b.chain,
				f.launch(&cellBackKernel, s.B*s.H, cellBackCost(s.B*s.H), dout, b.dh, b.states, b.kept, b.gx, b.gh, s.B*s.H, s.B, s.H, t),
				f.chainGemm(b.gh, t*s.B*g, b.wh, b.dh, s.B, g, s.H))
		}
		f.bindGradients(l)
		dout = b.dx
	}
}

// bindGradients makes a layer's products over all time steps: those that the chain
// does not wait for.
func (f *Backward) bindGradients(l int) {
	s, b, rows, g := f.s, &f.layers[l], f.s.T*f.s.B, f.s.gates()
	k := s.width(l)
	input, at := f.x, 0
	if l > 0 {
		input, at = f.layers[l-1].states, s.B*s.H
	}
	weights := func(gates, x gpuprof.Buffer, at int, dw, db gpuprof.Buffer, k int) {
		n := ceilDiv(g, gradTile) * ceilDiv(k, gradTile)
		b.chain = append(b.chain, f.launch(&weightsKernel, n, weightsCost(rows, g, k), gates, x, dw, n, rows, g, k, at),
			f.launch(&biasKernel, g, biasCost(rows, g), gates, db, g, rows))
	}
	b.chain = append(b.chain, f.launch(&fillKernel, rows*k, fillCost(rows*k), b.dx, rows*k, float32(0)), f.chainGemm(b.gx, 0, b.wi, b.dx, rows, g, k))
	weights(b.gx, input, at, b.dwi, b.dbi, k)
	weights(b.gh, b.states, 0, b.dwh, b.dbh, s.H)
}

func (f *Backward) chainGemm(a gpuprof.Buffer, at int, w, out gpuprof.Buffer, rows, k, n int) launch {
	items := ceilDiv(rows, gradTile) * ceilDiv(n, gradTile)
	return f.launch(&chainKernel, items, chainCost(rows, k, n), a, w, out, items, rows, k, n, at)
}

// Set uploads the input x [T,B,I], the state h0 [L,B,H] and the cotangents of the
// top layer's output, dout [T,B,H], and of the last states, dhn [L,B,H].
func (f *Backward) Set(x, h0, dout, dhn []float32) error {
	row := f.s.B * f.s.H
	err := errors.Join(op.Send(f.mem.Dev, f.stream, f.x, x), op.Send(f.mem.Dev, f.stream, f.dout, dout))
	for l := range f.layers {
		b := &f.layers[l]
		err = errors.Join(err, op.Send(f.mem.Dev, f.stream, b.states, h0[l*row:(l+1)*row]), op.Send(f.mem.Dev, f.stream, b.dh, dhn[l*row:(l+1)*row]))
	}
	return err
}

// Run computes all time steps forward and backward, and waits. A second Run starts
// with the cotangents of the last states that the first one left, those of h0.
func (f *Backward) Run() error {
	for l := range f.layers {
		if err := f.enqueueAll(f.layers[l].forward); err != nil {
			return err
		}
	}
	for l := len(f.layers) - 1; l >= 0; l-- {
		if err := f.enqueueAll(f.layers[l].chain); err != nil {
			return err
		}
	}
	return f.stream.Sync()
}

func (f *Backward) enqueueAll(all []launch) error {
	for i := range all {
		if err := f.enqueue(&all[i], 0); err != nil {
			return err
		}
	}
	return nil
}

// Gradients are what a Backward computed: dx [T,B,I], dh0 [L,B,H] and a layer's
// gradients in the shapes of its parameters.
type Gradients struct {
	DX, DH0 []float32
	Layers  []Layer
}

// Gradients reads the gradients of the last Run.
func (f *Backward) Gradients() (Gradients, error) {
	var g Gradients
	var failed error
	read := func(b gpuprof.Buffer, n int) []float32 {
		v, err := op.Receive(f.mem.Dev, f.stream, b, 0, n)
		failed = errors.Join(failed, err)
		return v
	}
	s := f.s
	for l, b := range f.layers {
		g.DH0 = append(g.DH0, read(b.dh, s.B*s.H)...)
		g.Layers = append(g.Layers, Layer{read(b.dwi, s.gates()*s.width(l)), read(b.dwh, s.gates()*s.H), read(b.dbi, s.gates()), read(b.dbh, s.gates())})
	}
	g.DX = read(f.layers[0].dx, s.T*s.B*s.I)
	return g, failed
}

// Close waits for work in flight and frees the device memory.
func (f *Backward) Close() error {
	return errors.Join(f.stream.Sync(), f.stream.Close(), f.segments.Free(), f.mem.Free())
}

// keepCost is n units forward, each with four values kept.
func keepCost(n int) gpuprof.Cost {
	c := cellCost(n, 0, false)
	c.BytesWritten += 4 * 4 * int64(n)
	return c
}

// cellBackCost is n units backwards: a sum, six products of the chain and the gates'
// derivatives; four values kept, the state and two cotangents read, and six gates and
// a cotangent written.
func cellBackCost(n int) gpuprof.Cost {
	return gpuprof.Cost{Flops: 19 * int64(n), BytesRead: 4 * 7 * int64(n), BytesWritten: 4 * 7 * int64(n)}
}

// chainCost is a product that is added to what is there.
func chainCost(rows, k, n int) gpuprof.Cost {
	r, kk, nn := int64(rows), int64(k), int64(n)
	return gpuprof.Cost{Flops: 2 * r * kk * nn, BytesRead: 4 * (r*kk + kk*nn + r*nn), BytesWritten: 4 * r * nn}
}

func weightsCost(rows, m, k int) gpuprof.Cost {
	r, mm, kk := int64(rows), int64(m), int64(k)
	return gpuprof.Cost{Flops: 2 * r * mm * kk, BytesRead: 4 * r * (mm + kk), BytesWritten: 4 * mm * kk}
}

func biasCost(rows, m int) gpuprof.Cost {
	n := int64(rows) * int64(m)
	return gpuprof.Cost{Flops: n, BytesRead: 4 * n, BytesWritten: 4 * int64(m)}
}
