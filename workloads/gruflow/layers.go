package gruflow

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// layerBuffers holds a layer's parameters on the device, transposed for row-major products and rounded to the
// precision: wi [K,3H], wh [H,3H].
type layerBuffers struct{ wi, wh, bi, bh device.Buffer }

// gru binds a multi-layer GRU: PyTorch's layers over the input x, with the state h [L,B,H] updated in place. With more
// than one time step each layer has an output sequence [T,B,H].
type gru struct {
	*program
	s      shape
	impl   string
	prec   precision
	cores  int
	tile   int  // rows of a product's item; 0: pickTile chooses by the size
	vendor bool // the vendor's library computes the products
	layers []layerBuffers
	h      device.Buffer
	seq    []op.Ref // one per layer, when T > 1
	lib    *library // set with impl=cudnn
}

// source is a layer's input.
type source struct {
	arg op.Ref
	at  int // first element
	by  int // distance between time steps, in elements
}

// movingArg returns the source as a kernel argument that advances by in.by elements with each time step. bytes is the
// size of an element.
func (in source) movingArg(bytes int64) op.Ref {
	r := in.arg
	r.At, r.By = r.At+bytes*int64(in.at), bytes*int64(in.by)
	return r
}

// offset returns the index of the source's first element, which advances with each time step, for kernels that take an
// offset.
func (in source) offset() op.Num { return op.Num{Value: in.at, By: in.by} }

// bindLayers binds all layers and returns their groups: one per layer, or a single one if a vendor library computes the
// layers. x is the input [T,B,I].
func (g *gru) bindLayers(x device.Buffer) []group {
	if g.lib != nil {
		return []group{g.libraryGroup(x)}
	}
	if g.s.T > 1 && g.seq == nil {
		for range g.s.L {
			g.seq = append(g.seq, g.reserve("a layer's output", int64(g.s.T)*int64(g.s.B)*int64(g.s.H)))
		}
	}
	var out []group
	in := source{arg: op.From(x, 0)}
	for l := range g.s.L {
		gr := group{stage: stGRU, layer: l, minimum: g.layerMinimum(l)}
		g.bindStepped(&gr, l, in)
		out = append(out, gr)
		in = source{arg: op.From(g.h, 0), at: l * g.s.B * g.s.H}
		if g.seq != nil {
			in = source{arg: g.seq[l]}
		}
	}
	return out
}

// layerMinimum returns a layer's arithmetic, and the weights and state that it must move. It counts no data between
// layers, which may stay on the chip.
func (g *gru) layerMinimum(l int) gpuprof.Cost {
	s := g.s
	k, h, rows := int64(s.inputWidth(l)), int64(s.H), int64(s.T)*int64(s.B)
	state := int64(s.B) * h
	products := rows * 2 * 3 * h * (k + h)
	c := gpuprof.Cost{
		Flops:        products + rows*(2*3*h+cellFlops*h),
		BytesRead:    g.prec.bytes()*3*h*(k+h) + 4*(6*h+state),
		BytesWritten: 4 * state,
	}
	if g.vendor || g.lib != nil { // our own kernels round operands but compute in float32
		c = c.In(g.prec.String(), products)
	}
	if g.lib == nil { // at least one launch per time step, each dependent on the previous one
		c.Sequence = int64(s.T)
	}
	if l == 0 {
		c.BytesRead += 4 * rows * k
	}
	if l == s.L-1 && s.T > 1 {
		c.BytesWritten += 4 * rows * h
	}
	return c
}

// bindStepped binds a layer as launches: the input's product for all time steps at once, then for each step the
// state's product and the pointwise part.
func (g *gru) bindStepped(gr *group, l int, in source) {
	s, b := g.s, g.layers[l]
	hAt, rows, rounds := l*s.B*s.H, int64(s.T)*int64(s.B), g.roundsFirst()
	gx, gh := g.bindProducts(gr, l, in, source{arg: op.From(g.h, 0), at: hAt}, g.prec.words(rows*int64(s.inputWidth(l))), rounds, rounds)
	if g.impl == implPlain {
		g.plainCell(gr, l, gx, gh)
		return
	}
	out, at := any(g.h), op.Num{Value: -1}
	if g.seq != nil {
		out, at = any(g.seq[l]), op.Num{By: s.B * s.H}
	}
	gr.each = append(gr.each, g.Bind(&cellKernel, s.B*s.H, cellCost(s.B*s.H, g.biasReads(), g.seq != nil),
		gruCellArgs{
			gx: gx, gh: gh, bx: b.bi, bh: b.bh, h: g.h, out: out, n: s.B * s.H, H: s.H,
			gxAt: op.Num{By: s.B * s.gates()}, hAt: hAt, outAt: at, biased: g.vendor,
		}))
}

// roundsFirst reports whether a kernel rounds operands before the products; the vendor's products round to tf32
// themselves.
func (g *gru) roundsFirst() bool { return g.prec.isNarrow() || g.prec == tf32 && !g.vendor }

// biasReads returns how many biases a cell adds: the vendor's products omit them.
func (g *gru) biasReads() int {
	if g.vendor {
		return 2 * g.s.gates()
	}
	return 0
}

// bindProducts binds the two products of layer l: gx of the input, for all time steps at once, and gh of the state, for
// each time step. roundIn and roundState report whether a kernel first rounds the input or the state. words is the size
// of the rounded input, in four-byte words.
func (g *gru) bindProducts(gr *group, l int, in, state source, words int64, roundIn, roundState bool) (gx, gh op.Ref) {
	s, b, k := g.s, g.layers[l], g.s.inputWidth(l)
	rows, cells := s.T*s.B, s.B*s.H
	gx, gh = g.reserve("input gates", int64(rows)*int64(s.gates())), g.reserve("state gates", int64(s.B)*int64(s.gates()))
	if roundIn {
		rounded := g.reserve("rounded input", words)
		gr.once = append(gr.once, g.round(in, rounded, rows*k))
		in = source{arg: rounded}
	}
	if roundState {
		rounded := g.reserve("rounded state", g.prec.words(int64(cells)))
		gr.each = append(gr.each, g.round(state, rounded, cells))
		state = source{arg: rounded}
	}
	gr.once = append(gr.once, g.bindGemm(in, b.wi, b.bi, gx, rows, k, s.gates(), g.prec))
	gr.each = append(gr.each, g.bindGemm(state, b.wh, b.bh, gh, s.B, s.H, s.gates(), g.prec))
	gr.repeat = s.T
	return gx, gh
}

func (g *gru) round(in source, out any, n int) op.Call {
	return g.Bind(&roundKernel, n, roundCost(n, g.prec), gruRoundArgs{
		in: in.arg, out: out, n: n, precision: int(g.prec), inAt: in.offset(),
	})
}

// bindGemm binds a product. Our own kernel adds the bias; the vendor's product does not.
func (g *gru) bindGemm(in source, w, bias device.Buffer, out any, rows, k, n int, p precision) op.Call {
	if g.vendor {
		return g.Bind(vendorKernels[p], rows, vendorCost(rows, k, n, p), device.ProductArgs{
			A: in.movingArg(p.bytes()), B: w, Out: out, K: k, N: n, Scale: float32(1),
		})
	}
	return g.bindOwnGemm(in, w, bias, out, rows, k, n, p)
}

func (g *gru) bindOwnGemm(in source, w, bias device.Buffer, out any, rows, k, n int, p precision) op.Call {
	tile := g.tile
	if tile == 0 {
		tile = pickTile(rows, n, g.cores)
	}
	items := gemmItems(rows, n, tile)
	return g.Bind(&gemmKernel, items, gemmCost(rows, k, n, p), gruGemmArgs{
		a: in.arg, w: w, bias: bias, out: out, n: items, rows: rows, K: k, N: n, aAt: in.offset(),
		tile: tile, precision: int(p),
	})
}

// plainCell binds the pointwise part with one launch per operation, like an eager cell.
func (g *gru) plainCell(gr *group, l int, gx, gh op.Ref) {
	s := g.s
	n, wide := s.B*s.H, s.gates()
	r, z, c := g.reserve("reset gate", int64(n)), g.reserve("update gate", int64(n)), g.reserve("candidate", int64(n))
	// An operand is an array, its offset, and the distance between its rows.
	type operand struct {
		arg any
		at  any
		row int
	}
	own := func(ref op.Ref) operand { return operand{ref, 0, s.H} }
	ofX := func(gate int) operand { return operand{gx, op.Num{Value: gate * s.H, By: s.B * wide}, wide} }
	ofH := func(gate int) operand { return operand{gh, gate * s.H, wide} }
	h := operand{g.h, l * n, s.H}
	if g.vendor {
		g.addBiases(gr, l, gx, gh)
	}
	do := func(kern *device.Kernel, flops int, out, a, b operand) {
		operands := 2
		if kern == &sigmoidKernel || kern == &tanhKernel || kern == &copyKernel {
			operands = 1
		}
		gr.each = append(gr.each, g.Bind(kern, n, elementwiseCost(n, flops, operands), elementwiseArgs{
			a: a.arg, b: b.arg, out: out.arg, n: n, H: s.H, aAt: a.at, aRow: a.row, bAt: b.at, bRow: b.row,
			outAt: out.at, outRow: out.row,
		}))
	}
	do(&addKernel, 1, own(r), ofX(0), ofH(0))
	do(&sigmoidKernel, 4, own(r), own(r), own(r))
	do(&addKernel, 1, own(z), ofX(1), ofH(1))
	do(&sigmoidKernel, 4, own(z), own(z), own(z))
	do(&mulKernel, 1, own(c), own(r), ofH(2))
	do(&addKernel, 1, own(c), ofX(2), own(c))
	do(&tanhKernel, 2, own(c), own(c), own(c))
	do(&subKernel, 1, own(r), h, own(c)) // h - n, in the reset gate's block, which is no longer needed
	do(&mulKernel, 1, own(z), own(z), own(r))
	do(&addKernel, 1, h, own(c), own(z))
	if g.seq != nil {
		do(&copyKernel, 0, operand{g.seq[l], op.Num{By: n}, s.H}, h, h)
	}
}

// addBiases adds, in separate launches, the biases that the vendor's products omit: the same row to all rows of gx or
// gh.
func (g *gru) addBiases(gr *group, l int, gx, gh op.Ref) {
	wide, b := g.s.gates(), g.layers[l]
	add := func(to op.Ref, rows int, bias device.Buffer) op.Call {
		return g.Bind(&addKernel, rows*wide, elementwiseCost(rows*wide, 1, 2), elementwiseArgs{
			a: to, b: bias, out: to, n: rows * wide, H: wide, aAt: 0, aRow: wide, bAt: 0, bRow: 0, outAt: 0,
			outRow: wide,
		})
	}
	gr.once = append(gr.once, add(gx, g.s.T*g.s.B, b.bi))
	gr.each = append(gr.each, add(gh, g.s.B, b.bh))
}

func uploadLayer(a *op.Arena, stream device.Stream, p layerParams, h int, prec precision) layerBuffers {
	weights := func(w []float32) device.Buffer {
		return a.Upload(stream, "GRU weights", prec.roundedCopy(transpose(w, 3*h)))
	}
	return layerBuffers{wi: weights(p.wi), wh: weights(p.wh), bi: a.Upload(stream, "GRU biases", p.bi), bh: a.Upload(stream, "GRU biases", p.bh)}
}

func transpose(w []float32, rows int) []float32 {
	out, k := make([]float32, len(w)), len(w)/rows
	for i := range rows {
		for j := range k {
			out[j*rows+i] = w[i*k+j]
		}
	}
	return out
}
