package gruflow

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

type wayBack struct {
	slot, ago int
	x         source        // the level's input [T,B,I]
	level     device.Buffer // the carriers' present levels
	dout      any           // cotangent of the layer's output, from step first on
	first     int
	energy    device.Buffer // destination of the first layer's input cotangent, column 0 only
	dx        device.Buffer // destination of the first layer's whole input cotangent, instead of energy
	add       bool          // adds to the existing gradients
}

// layerBackward returns the backward pass of a layer at one level as two groups. chain computes the cotangents over the
// time steps and that of the input; grads then sums the gradients over rows, which chain does not need.
func (u *unroll) layerBackward(l int, w wayBack) (chain, grads group) {
	return u.chainGroup(l, w), u.gradsGroup(l, w)
}

// chainGroup returns the first group of layerBackward. It takes the scratch memory for the cotangents of the gates,
// which gradsGroup releases.
func (u *unroll) chainGroup(l int, w wayBack) group {
	g, s, b := u.net, u.net.s, u.layers[l]
	cells, gates, rows := s.B*s.H, s.gates(), s.T*s.B
	gr := group{stage: stGRUBack, layer: l, repeat: s.T, take: []scratchRef{u.gx, u.ghAll}, minimum: u.chainMinimum(l, w)}
	step := 4 * int64(s.B*gates)
	last := func(ref scratchRef) moving { return moving{ref, int64(s.T-1) * step, -step} }
	kept, state := u.gatesKept(l, w.slot, s.T-1), u.statesAt(l, w.slot, s.T-1)
	kept.by = -kept.by
	gr.each = append(gr.each, g.launch(&cellBackKernel, cells, cellBackCost(cells, g.prec, 1), gruCellBwdArgs{
		dout: w.dout, dh: b.dh, chain: b.chain, states: b.states, kept: kept, level: w.level, gx: last(u.gx),
		gh: last(u.ghAll), n: cells, H: s.H, at: walking{state.at, -state.by}, precision: int(g.prec), depth: s.D,
		ago: w.ago, step: walking{s.T - 1, -1}, first: w.first, last: s.T - 1,
	}))
	gh := source{arg: u.ghAll, at: (s.T - 1) * s.B * gates, by: -s.B * gates}
	gx := source{arg: u.gx}
	if u.roundsFirst() {
		gr.take, gr.give = append(gr.take, u.rounded), append(gr.give, u.rounded)
		gr.each = append(gr.each, g.round(gh, u.rounded, s.B*gates))
		gh = source{arg: u.rounded}
	}
	gr.each = append(gr.each, g.bindGemm(gh, u.weightsBackward(l).wh, u.zeros, b.chain, s.B, gates, s.H, g.prec))
	switch {
	case l > 0 || w.dx != nil:
		out := any(w.dx)
		if l > 0 {
			out, gr.take = u.dx[l%2], append(gr.take, u.dx[l%2])
		}
		if u.roundsFirst() {
			gr.after = append(gr.after, g.round(gx, u.rounded, rows*gates))
			gx = source{arg: u.rounded}
		}
		gr.after = append(gr.after, g.bindGemm(gx, u.weightsBackward(l).wi, u.zeros, out, rows, gates, s.inputWidth(l), g.prec))
	default: // only the input's energy needs a cotangent; its weights are one row of the transposed matrix
		gr.after = append(gr.after, g.launch(&energyBackKernel, s.B, energyBackCost(rows, gates, g.prec), gruEnergyBwdArgs{
			gx: u.gx, w: u.net.layers[0].wi, de: w.energy, n: s.B, steps: s.T, G: gates, precision: int(g.prec),
		}))
	}
	if ref, ok := w.dout.(scratchRef); ok {
		gr.give = append(gr.give, ref)
	}
	return gr
}

// chainMinimum returns the least cost of chainGroup. It counts two products, but for the first layer only the energy's
// column of the second product.
func (u *unroll) chainMinimum(l int, w wayBack) gpuprof.Cost {
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

// gradsGroup returns the launches that sum the gradients of a layer's parameters over the rows of one level.
func (u *unroll) gradsGroup(l int, w wayBack) group {
	s, g := u.net.s, u.layers[l].g
	rows, gates := s.T*s.B, s.gates()
	gr := group{stage: stGrads, layer: l, take: []scratchRef{u.partial, u.work}, give: []scratchRef{u.partial, u.work, u.gx, u.ghAll}, minimum: u.gradsMinimum(l)}
	for _, b := range []struct {
		gates scratchRef
		to    device.Buffer
	}{{u.gx, g.bi}, {u.ghAll, g.bh}} {
		gr.once = append(gr.once, u.net.launch(&biasKernel, gates, biasCost(rows, gates), gruBiasArgs{
			g: b.gates, db: b.to, n: gates, rows: rows, add: w.add,
		}))
		if u.net.prec != fp32 { // the other products read these values rounded, too
			gr.once = append(gr.once, u.boundLaunch(op.RoundInPlace(b.gates, rows*gates, u.net.prec.String())))
		}
	}
	if u.net.prec != fp32 {
		gr.take, gr.give = append(gr.take, u.wide), append(gr.give, u.wide)
	}
	in, wide := u.inputAt(l, w.slot, w.x)
	if u.net.prec.isNarrow() && wide {
		gr.take, gr.give = append(gr.take, u.rounded), append(gr.give, u.rounded)
	}
	state := u.statesAt(l, w.slot, 0)
	state.by = 0
	u.addOuter(&gr, u.gx, in, wide, g.wi, s.inputWidth(l), w.add)
	u.addOuter(&gr, u.ghAll, state, !u.net.prec.isNarrow(), g.wh, s.H, w.add)
	return gr
}

// addOuter appends the launches for one matrix's gradient, from gates [rows,3H] and x [rows,k]. They round x as the
// forward product did.
func (u *unroll) addOuter(gr *group, gates scratchRef, x source, wide bool, to device.Buffer, k int, add bool) {
	s, g := u.net.s, u.net
	rows := s.T * s.B
	n := rows * k
	right := any(x.movingArg(4))
	switch {
	case g.prec == tf32:
		gr.once = append(gr.once, g.launch(&roundKernel, n, roundCost(n, tf32), gruRoundArgs{
			in: x.arg, out: u.wide, n: n, precision: int(tf32), inAt: x.at,
		}))
		right = u.wide
	case g.prec.isNarrow():
		if wide {
			gr.once = append(gr.once, g.round(x, u.rounded, n))
			x = source{arg: u.rounded}
		}
		gr.once = append(gr.once, g.launch(&widenKernel, n, widenCost(n, g.prec), gruWidenArgs{
			in: x.arg, out: u.wide, n: n, precision: int(g.prec), inAt: x.at,
		}))
		right = u.wide
	}
	u.addSums(gr, op.Outer{Rows: rows, M: s.gates(), K: k, Add: add}, gates, right, to)
}

func (u *unroll) addSums(gr *group, o op.Outer, a, b any, to device.Buffer) {
	for _, l := range o.Launches(u.net.Dev.Info().Kind, op.OuterBuffers{A: a, B: b, W: to, Partial: u.partial, Table: u.tables[[2]int{o.M, o.K}], Work: u.work}) {
		gr.once = append(gr.once, u.boundLaunch(l))
	}
}

func (u *unroll) boundLaunch(l op.Launch) launch {
	return u.net.launch(l.Kernel, l.N, l.Cost, l.Args)
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
