package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// request is a block of device memory, in four-byte words, that is either allocated or only counted.
type request struct {
	what  string
	words int64
	to    *device.Buffer
}

func allocateAll(mem *op.Arena, list []request) {
	for _, r := range list {
		*r.to = mem.Words(r.what, r.words, device.OnDevice)
	}
}

func wordsOf(list []request) (n int64) {
	for _, r := range list {
		n += r.words
	}
	return n
}

// unroll is a GRU with back-propagation through time. It has a number of slots, each for one level (a pass of T time
// steps). A slot keeps r, z, n, u and the state of every layer and time step.
type unroll struct {
	net    *gru // its layers' weights are transposed for the forward products
	slots  int
	layers []unrolled
	zeros  device.Buffer            // zero biases for the backward products
	tables map[[2]int]device.Buffer // for op.Outer, by the gradient's shape
	// Sizes of op.Outer's scratch memory, in four-byte words: of the largest gradient.
	partialWords, workWords int64
}

// unrolled is one layer. p and g are its parameters and gradients in PyTorch's shapes; back holds the weights in the
// format of the backward products. states and kept are the recorded states and gates. dh + chain is the cotangent of
// the layer's state [B,H].
type unrolled struct {
	p, g, back   layerBuffers
	states, kept device.Buffer // [slots*T+1,B,H], [slots*T,B,4H]
	dh, chain    device.Buffer
}

// newUnroll prepares back-propagation through time for the GRU net. It keeps the gates and states that the backward
// pass needs for slots levels; a level is one pass of T time steps. The method open allocates the memory.
func newUnroll(net *gru, slots int) *unroll {
	net.layers = make([]layerBuffers, net.s.L)
	return &unroll{net: net, slots: slots, layers: make([]unrolled, net.s.L), tables: map[[2]int]device.Buffer{}}
}

func (u *unroll) requests() (list []request) {
	s, p := u.net.s, u.net.prec
	add := func(what string, n int64, to *device.Buffer) { list = append(list, request{what, n, to}) }
	cells, g := int64(s.B)*int64(s.H), int64(s.gates())
	for l := range u.layers {
		b, k := &u.layers[l], int64(s.inputWidth(l))
		list = append(list, u.parameterRequests(l)...)
		add("turned weights", p.words(g*k), &u.net.layers[l].wi)
		add("turned weights", p.words(g*int64(s.H)), &u.net.layers[l].wh)
		if p != fp32 { // also for the vendor's products in tf32: a search may find them slower than ours
			add("rounded weights", p.words(g*k), &b.back.wi)
			add("rounded weights", p.words(g*int64(s.H)), &b.back.wh)
		}
		list = append(list, u.recordRequests(l)...)
		add("the state's cotangent", cells, &b.dh)
		add("the state's cotangent", cells, &b.chain)
	}
	add("no bias", int64(max(s.I, s.H)), &u.zeros)
	return list
}

func (u *unroll) parameterRequests(l int) []request {
	s, p, g := u.net.s, &u.layers[l].p, int64(u.net.s.gates())
	return []request{{"GRU weights", g * int64(s.inputWidth(l)), &p.wi}, {"GRU weights", g * int64(s.H), &p.wh}, {"GRU biases", g, &p.bi}, {"GRU biases", g, &p.bh}}
}

func (u *unroll) recordRequests(l int) []request {
	s, p, b := u.net.s, u.net.prec, &u.layers[l]
	cells, steps := int64(s.B)*int64(s.H), int64(u.slots)*int64(s.T)
	return []request{{"states", p.words((steps + 1) * cells), &b.states}, {"gates kept", p.words(steps * 4 * cells), &b.kept}}
}

// outerShapes returns the shapes of the weight gradients, which op.Outer computes.
func (u *unroll) outerShapes() (all [][2]int) {
	s := u.net.s
	all = append(all, [2]int{s.gates(), s.H})
	if s.I != s.H {
		all = append(all, [2]int{s.gates(), s.I})
	}
	return all
}

// open allocates the device memory.
func (u *unroll) open(mem *op.Arena, shapes ...[2]int) {
	s := u.net.s
	allocateAll(mem, u.requests())
	if mem.Err == nil {
		mem.Err = op.Send(mem.Dev, u.net.stream, u.zeros, make([]float32, max(s.I, s.H)))
	}
	kind := mem.Dev.Info().Kind
	for _, m := range shapes {
		o := op.Outer{Rows: s.T * s.B, M: m[0], K: m[1]}
		u.tables[m] = mem.Upload(u.net.stream, "tiles", floatView(o.Table(kind)))
		u.partialWords, u.workWords = max(u.partialWords, o.Partial()), max(u.workWords, o.Work(kind))
	}
	for l := range u.layers {
		b := &u.layers[l]
		u.net.layers[l].bi, u.net.layers[l].bh = b.p.bi, b.p.bh
	}
}

// roundedWords returns the four-byte words of the largest operand that a kernel rounds before a product.
func (u *unroll) roundedWords() int64 {
	s := u.net.s
	return u.net.prec.words(int64(s.T) * int64(s.B) * int64(max(s.I, s.gates())))
}

// weightsBackward returns a layer's weights in the format of the backward products.
func (u *unroll) weightsBackward(l int) layerBuffers {
	if u.net.roundsFirst() {
		return u.layers[l].back
	}
	return u.layers[l].p
}

// weightGroup returns the group of launches that convert a layer's weights to the products' formats.
func (u *unroll) weightGroup(l int) (gr group) {
	s, p, b := u.net.s, u.net.prec, u.layers[l]
	gr = group{stage: stWeights, layer: l}
	for _, m := range []struct {
		from, turned, rounded device.Buffer
		k                     int
	}{{b.p.wi, u.net.layers[l].wi, b.back.wi, s.inputWidth(l)}, {b.p.wh, u.net.layers[l].wh, b.back.wh, s.H}} {
		n := s.gates() * m.k
		gr.once = append(gr.once, u.net.Bind(&transposeKernel, n, turnCost(n, p), gruTurnArgs{
			p: m.from, out: m.turned, n: n, rows: s.gates(), K: m.k, precision: int(p),
		}))
		gr.minimum = gr.minimum.Add(turnCost(n, p))
		if u.net.roundsFirst() {
			gr.once = append(gr.once, u.net.round(source{arg: op.From(m.from, 0)}, m.rounded, n))
			gr.minimum.BytesWritten += p.bytes() * int64(n)
		}
	}
	return gr
}

// statesAt returns a layer's states recorded in a slot, from time step t on. For t = T it returns the state after the
// last time step.
func (u *unroll) statesAt(l, slot, t int) source {
	n := u.net.s.B * u.net.s.H
	return source{arg: op.From(u.layers[l].states, 0), at: (slot*u.net.s.T + t) * n, by: n}
}

// gatesKept returns a layer's gates recorded in a slot, from time step t on.
func (u *unroll) gatesKept(l, slot, t int) op.Ref {
	n := 4 * u.net.prec.bytes() * int64(u.net.s.B) * int64(u.net.s.H)
	return op.Ref{Buf: u.layers[l].kept, At: n * int64(slot*u.net.s.T+t), By: n}
}

// inputAt returns the input [T,B,K] of a layer at the level that a slot records: x, or the states of the preceding
// layer. wide reports whether it is float32.
func (u *unroll) inputAt(l, slot int, x source) (in source, wide bool) {
	if l == 0 {
		return x, true
	}
	in = u.statesAt(l-1, slot, 1)
	in.by = 0
	return in, !u.net.prec.isNarrow()
}

// forwardGroup returns the launches of a layer's forward pass through the level that a slot records. h is the layer's
// state in float32, which 16-bit precisions need.
func (u *unroll) forwardGroup(l, slot int, x source, h op.Ref) (gr group) {
	g, s, b := u.net, u.net.s, u.net.layers[l]
	rows, cells := s.T*s.B, s.B*s.H
	gr = group{stage: stGRU, layer: l, minimum: g.layerMinimum(l)}
	gr.minimum.BytesWritten += 5 * g.prec.bytes() * int64(rows) * int64(s.H)
	in, wide := u.inputAt(l, slot, x)
	at, rounds := u.statesAt(l, slot, 0), g.roundsFirst()
	gx, gh := g.bindProducts(&gr, l, in, at, u.roundedWords(), rounds && wide, rounds && !g.prec.isNarrow())
	gr.each = append(gr.each, g.Bind(&keepKernel, cells, keepCost(cells, g.biasReads(), g.prec), gruKeepArgs{
		gx: source{arg: gx, by: s.B * s.gates()}.movingArg(4), gh: gh, bx: b.bi, bh: b.bh, h: h,
		states: u.layers[l].states, kept: u.gatesKept(l, slot, 0), n: cells, H: s.H, at: at.offset(),
		precision: int(g.prec), biased: g.vendor,
	}))
	return gr
}

// leaveLaunch returns a launch that clears a layer's state after the level recorded in a slot, in the rows of carriers
// that left in an earlier move. ago is the number of moves since then.
func (u *unroll) leaveLaunch(l, slot, ago int, level device.Buffer, h op.Ref) op.Call {
	s := u.net.s
	return u.net.Bind(&leaveKernel, s.B*s.H, leaveCost(s, u.net.prec), gruLeaveArgs{
		states: u.layers[l].states, h: h, level: level, n: s.B * s.H, H: s.H, at: u.statesAt(l, slot+1, 0).at,
		precision: int(u.net.prec), depth: s.D, ago: ago,
	})
}

func (u *unroll) restoreLaunch(l, slot, ago int, level device.Buffer) op.Call {
	s := u.net.s
	return u.net.Bind(&restoreKernel, s.B*s.H, restoreCost(s, u.net.prec), gruRestoreArgs{
		states: u.layers[l].states, kept: u.gatesKept(l, slot, s.T-1), level: level, n: s.B * s.H, H: s.H,
		at: u.statesAt(l, slot+1, 0).at, precision: int(u.net.prec), depth: s.D, ago: ago,
	})
}

// beginLaunches returns launches that copy the state h [L,B,H] to the start of the first slot. In a 16-bit precision
// they round it.
func (u *unroll) beginLaunches(h op.Ref) (all []op.Call) {
	n := u.net.s.B * u.net.s.H
	for l := range u.layers {
		from := source{arg: h, at: l * n}
		if u.net.prec.isNarrow() {
			all = append(all, u.net.round(from, u.layers[l].states, n))
			continue
		}
		all = append(all, u.copyLaunch(from, u.layers[l].states, n))
	}
	return all
}

// endLaunches returns launches that copy the layers' hidden states after the level recorded in the given slot to h
// [L,B,H]. In a 16-bit precision there are none, because h already holds them.
func (u *unroll) endLaunches(slot int, h device.Buffer) (all []op.Call) {
	n := u.net.s.B * u.net.s.H
	for l := range u.layers {
		if !u.net.prec.isNarrow() {
			from := u.statesAt(l, slot+1, 0)
			from.by = 0
			all = append(all, u.copyLaunch(from, op.From(h, l*n), n))
		}
	}
	return all
}

func (u *unroll) copyLaunch(from source, to any, n int) op.Call {
	return u.net.Bind(&roundKernel, n, roundCost(n, fp32), gruRoundArgs{
		in: from.arg, out: to, n: n, precision: int(fp32), inAt: from.at,
	})
}
