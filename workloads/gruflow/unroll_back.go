package gruflow

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

type backwardArgs struct {
	slot, ago int
	x         source        // the level's input [T,B,I]
	level     device.Buffer // the carriers' present levels
	dout      op.Ref        // cotangent of the layer's output, from step first on
	first     int
	energy    device.Buffer // destination of the first layer's input cotangent, column 0 only
	dx        device.Buffer // destination of the first layer's whole input cotangent, instead of energy
	add       bool          // adds to the existing gradients
}

// layerBackward returns the backward pass of a layer at one level as two groups. chain computes the cotangents of every
// time step and of the layer's input. grads sums the gradients of the parameters over rows; chain does not need these
// sums.
func (u *unroll) layerBackward(l int, w backwardArgs) (chain, grads group) {
	chain = u.chainGroup(l, w)
	return chain, u.gradsGroup(l, w, chain.gx, chain.gh)
}

// chainGroup returns the first group of layerBackward. The scratch memory of the gates' cotangents lives until
// gradsGroup has read it.
func (u *unroll) chainGroup(l int, w backwardArgs) group {
	g, s, b := u.net, u.net.s, u.layers[l]
	cells, gates, rows := s.B*s.H, s.gates(), s.T*s.B
	gr := group{stage: stGRUBack, layer: l, repeat: s.T, dout: w.dout, minimum: u.chainMinimum(l, w)}
	gr.gx, gr.gh = g.reserve("input gates", int64(rows*gates)), g.reserve("state gates", int64(rows*gates))
	rounded, dx := u.net.reserve("rounded operand", u.roundedWords()), g.reserve("the input's cotangent", int64(rows)*int64(s.H))
	last := func(ref op.Ref) source { return source{arg: ref, at: (s.T - 1) * s.B * gates, by: -s.B * gates} }
	kept, state := u.gatesKept(l, w.slot, s.T-1), u.statesAt(l, w.slot, s.T-1)
	kept.By = -kept.By
	gr.each = append(gr.each, g.Bind(&cellBackKernel, cells, cellBackCost(cells, g.prec, 1), gruCellBwdArgs{
		dout: w.dout, dh: b.dh, chain: b.chain, states: b.states, kept: kept, level: w.level, gx: last(gr.gx).movingArg(4),
		gh: last(gr.gh).movingArg(4), n: cells, H: s.H, at: op.Num{Value: state.at, By: -state.by}, precision: int(g.prec), depth: s.D,
		ago: w.ago, step: op.Num{Value: s.T - 1, By: -1}, first: w.first, last: s.T - 1,
	}))
	gx, gh := source{arg: gr.gx}, last(gr.gh)
	if g.roundsFirst() {
		gr.each = append(gr.each, g.round(gh, rounded, s.B*gates))
		gh = source{arg: rounded}
	}
	gr.each = append(gr.each, g.bindGemm(gh, u.weightsBackward(l).wh, u.zeros, b.chain, s.B, gates, s.H, g.prec))
	switch {
	case l > 0 || w.dx != nil:
		out := any(w.dx)
		if l > 0 {
			out, gr.dx = dx, dx
		}
		if g.roundsFirst() {
			gr.after = append(gr.after, g.round(gx, rounded, rows*gates))
			gx = source{arg: rounded}
		}
		gr.after = append(gr.after, g.bindGemm(gx, u.weightsBackward(l).wi, u.zeros, out, rows, gates, s.inputWidth(l), g.prec))
	default: // only the input's energy needs a cotangent; its weights are one row of the transposed matrix
		gr.after = append(gr.after, g.Bind(&energyBackKernel, s.B, energyBackCost(rows, gates, g.prec), gruEnergyBwdArgs{
			gx: gr.gx, w: u.net.layers[0].wi, de: w.energy, n: s.B, steps: s.T, G: gates, precision: int(g.prec),
		}))
	}
	return gr
}

// chainMinimum returns the least cost of chainGroup. It counts two products, but for the first layer only the energy's
// column of the second product.
func (u *unroll) chainMinimum(l int, w backwardArgs) gpuprof.Cost {
	s, p := u.net.s, u.net.prec
	rows, h, g, e := int64(s.T)*int64(s.B), int64(s.H), int64(s.gates()), u.net.prec.bytes()
	width := int64(1)
	if l > 0 || w.dx != nil {
		width = int64(s.inputWidth(l))
	}
	products := 2 * rows * g * (h + width)
	douts := int64(s.T-w.first) * int64(s.B)
	c := gpuprof.Cost{
		Flops:        products + cellBackFlops*rows*h,
		BytesRead:    e*g*(h+width) + 5*e*rows*h + 4*(douts*h+2*int64(s.B)*h),
		BytesWritten: 4 * (6*rows*h + rows*width + 2*int64(s.B)*h),
		Sequence:     int64(s.T),
	}
	if width == 1 {
		c.BytesWritten += 4 * (int64(s.B) - rows)
	}
	if u.net.vendor {
		c = c.In(p.String(), products)
	}
	return c
}

// sumScratch is the scratch memory of a group that sums gradients; a group uses a part of it.
type sumScratch struct{ partial, work, wide, rounded op.Ref }

func (u *unroll) reserveSums() sumScratch {
	s := u.net.s
	return sumScratch{u.net.reserve("partial sums", u.partialWords), u.net.reserve("turned operand", u.workWords),
		u.net.reserve("widened operand", int64(s.T)*int64(s.B)*int64(max(s.I, s.H))), u.net.reserve("rounded operand", u.roundedWords())}
}

// gradsGroup returns the launches that sum the gradients of a layer's parameters over the rows of one level, from the
// cotangents gx and gh of the gates.
func (u *unroll) gradsGroup(l int, w backwardArgs, gx, gh op.Ref) group {
	s, g, scratch := u.net.s, u.layers[l].g, u.reserveSums()
	rows, gates := s.T*s.B, s.gates()
	gr := group{stage: stGrads, layer: l, gx: gx, gh: gh, minimum: u.gradsMinimum(l)}
	for _, b := range []struct {
		gates op.Ref
		to    device.Buffer
	}{{gx, g.bi}, {gh, g.bh}} {
		gr.once = append(gr.once, u.net.Bind(&biasKernel, gates, biasCost(rows, gates), gruBiasArgs{
			g: b.gates, db: b.to, n: gates, rows: rows, add: w.add,
		}))
		if u.net.prec != fp32 { // the other products read these values rounded, too
			gr.once = append(gr.once, u.boundLaunch(op.RoundInPlace(b.gates, rows*gates, u.net.prec.String())))
		}
	}
	in, wide := u.inputAt(l, w.slot, w.x)
	state := u.statesAt(l, w.slot, 0)
	state.by = 0
	u.addOuter(&gr, scratch, gx, in, wide, g.wi, s.inputWidth(l), w.add)
	u.addOuter(&gr, scratch, gh, state, !u.net.prec.isNarrow(), g.wh, s.H, w.add)
	return gr
}

// addOuter appends the launches for one matrix's gradient, from gates [rows,3H] and x [rows,k]. They round x as the
// forward product did.
func (u *unroll) addOuter(gr *group, scratch sumScratch, gates op.Ref, x source, wide bool, to device.Buffer, k int, add bool) {
	s, g := u.net.s, u.net
	rows := s.T * s.B
	n := rows * k
	right := any(x.movingArg(4))
	switch {
	case g.prec == tf32:
		gr.once = append(gr.once, g.Bind(&roundKernel, n, roundCost(n, tf32), gruRoundArgs{
			in: x.arg, out: scratch.wide, n: n, precision: int(tf32), inAt: x.at,
		}))
		right = scratch.wide
	case g.prec.isNarrow():
		if wide {
			gr.once = append(gr.once, g.round(x, scratch.rounded, n))
			x = source{arg: scratch.rounded}
		}
		gr.once = append(gr.once, g.Bind(&widenKernel, n, widenCost(n, g.prec), gruWidenArgs{
			in: x.arg, out: scratch.wide, n: n, precision: int(g.prec), inAt: x.at,
		}))
		right = scratch.wide
	}
	u.addSums(gr, scratch, op.Outer{Rows: rows, M: s.gates(), K: k, Add: add}, gates, right, to)
}

func (u *unroll) addSums(gr *group, scratch sumScratch, o op.Outer, a, b any, to device.Buffer) {
	for _, l := range o.Launches(u.net.Dev.Info().Kind, op.OuterBuffers{A: a, B: b, W: to, Partial: scratch.partial, Table: u.tables[[2]int{o.M, o.K}], Work: scratch.work}) {
		gr.once = append(gr.once, u.boundLaunch(l))
	}
}

func (u *unroll) boundLaunch(l op.Launch) op.Call {
	return u.net.Bind(l.Kernel, l.N, l.Cost, l.Args)
}

func (u *unroll) gradsMinimum(l int) gpuprof.Cost {
	s, e := u.net.s, u.net.prec.bytes()
	rows, h, k, g := int64(s.T)*int64(s.B), int64(s.H), int64(s.inputWidth(l)), int64(s.gates())
	return gpuprof.Cost{
		Flops:        2*rows*g*(k+h) + 2*rows*g,
		BytesRead:    4*6*rows*h + e*rows*(k+h),
		BytesWritten: 4 * g * (k + h + 2),
	}
}
