package gruflow

import (
	"errors"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// bindTraining binds the step of a slot (one of the steps in flight): forward through all levels, the loss, backward,
// the optimizer.
func (s *session) bindTraining(sl *slot) error {
	t := s.train
	if t.sum == nil { // both slots share the loss and the optimizer
		if err := t.bindLoss(s.mem.Dev); err != nil {
			return err
		}
	}
	for l := range s.shape.L {
		sl.groups = append(sl.groups, t.u.weightGroup(l))
	}
	for micro := range t.step.Micro() {
		all := s.microBatch(sl, micro)
		for i := range all {
			all[i].micro = micro
		}
		sl.groups = append(sl.groups, all...)
	}
	for i := range t.parts {
		p := &t.parts[i]
		stage := stOptimizer
		if p.Clips {
			stage = stClip
		}
		sl.groups = append(sl.groups, group{stage: stage, lib: p.Ops, minimum: p.Ops.Minimum(), part: p})
	}
	return s.Err
}

// microBatch returns the groups of launches for one micro-batch: all levels of the window forward, the loss, and the
// levels backward.
func (s *session) microBatch(sl *slot, micro int) (all []group) {
	t := s.train
	for j := range t.window {
		all = append(all, s.levelDown(sl, micro, j)...)
	}
	all = append(all, s.lossGroup(micro))
	for j := t.window - 1; j >= 0; j-- {
		if last := t.lastLevel(j); last == j && j != t.window-1 {
			all = append(all, s.recomputeLevels(sl, micro, j)...)
		}
		all = append(all, s.levelUp(sl, micro, j)...)
	}
	return all
}

// lastLevel returns the last level that is recorded together with level j: the one before the next checkpoint, or the
// last one of the window.
func (t *recording) lastLevel(j int) int { return min(j/t.every*t.every+t.every, t.window) - 1 }

// levelInput returns three values for level j of the window: its input x in the session's slot sl; slot, the index in
// the recording where the level is kept; and ago, the number of the window's levels after j.
func (s *session) levelInput(sl *slot, micro, j int) (x source, slot, ago int) {
	n := s.shape.T * s.shape.B * s.shape.I
	return source{arg: op.From(sl.x, 0), at: (micro*s.rec.window + j) * n}, j % s.rec.every, s.rec.window - 1 - j
}

// runningState returns the part of a state [L,B,H] that belongs to layer l.
func (s *session) runningState(state device.Buffer, l int) op.Ref {
	return op.From(state, l*s.shape.B*s.shape.H)
}

// beginLaunches returns the launches that copy the state before the first recorded level to the recording.
func (s *session) beginLaunches(state device.Buffer) []op.Call {
	return s.rec.u.beginLaunches(op.From(state, 0))
}

// levelDown returns the groups of launches of the forward pass of level j of the window. Between two levels that are
// recorded together the state is in the recording; otherwise it is in s.net.h.
func (s *session) levelDown(sl *slot, micro, j int) (all []group) {
	t, sh, d := s.rec, s.shape, s.flow
	x, slot, _ := s.levelInput(sl, micro, j)
	for l := range sh.L {
		all = append(all, t.u.forwardGroup(l, slot, x, s.runningState(s.net.h, l)))
	}
	n := sh.T * sh.B
	var before []op.Call
	if slot == 0 {
		if t.states != nil {
			all := sh.L * sh.B * sh.H
			before = append(before, t.u.copyLaunch(source{arg: op.From(s.net.h, 0)}, t.states[j/t.every], all))
		}
		before = append(before, s.beginLaunches(s.net.h)...)
	}
	before = append(before, s.Bind(&injectKernel, n, injectCost(n), gruInjectArgs{
		x: op.From(sl.x, x.at), energy: d.energy, n: n, I: sh.I, B: sh.B,
	}))
	all[0].once = append(before, all[0].once...)

	// State of the top layer, in which the carriers' update clears the rows of carriers that leave.
	top, at, layers := any(s.net.h), (sh.L-1)*sh.B*sh.H, sh.L
	head := top
	if !s.prec.isNarrow() {
		state := t.u.statesAt(sh.L-1, slot+1, 0)
		top, at, layers, head = state.arg, state.at, 1, op.From(state.arg.Buf, state.at)
	}
	flow := group{stage: stFlow, minimum: flowCost(sh)}
	flow.minimum.BytesWritten += 4 * pathWords * int64(sh.B)
	flow.once = []op.Call{s.Bind(&flowKernel, sh.B, flow.minimum, gruFlowArgs{
		proj: d.proj, bias: d.bias, h: head, energy: d.energy, level: d.level, place: d.place, source: d.source,
		out: d.record, path: op.From(t.path, j*sh.B*pathWords), n: sh.B, B: sh.B, H: sh.H, L: layers,
		D: sh.D, keeps: true,
	})}
	cleared := sh.L
	if !s.prec.isNarrow() { // the update clears the top layer's state in the recording
		cleared--
	}
	flow.once = append(flow.once, s.leavingLaunches(cleared, slot, 0, s.net.h)...)
	if j == t.lastLevel(j) {
		flow.once = append(flow.once, t.u.endLaunches(slot, s.net.h)...)
	}
	metrics := s.metricsOf(top, at, op.From(d.metrics, j*sh.metrics()))
	for i := range all {
		all[i].level = j
	}
	flow.level, metrics.level = j, j
	return append(all, flow, metrics)
}

// leavingLaunches returns launches that clear the states of carriers that left in an earlier move, in the first layers.
// ago is the number of moves since then, layers the number of layers to clear.
func (s *session) leavingLaunches(layers, slot, ago int, state device.Buffer) (all []op.Call) {
	for l := range layers {
		all = append(all, s.rec.u.leaveLaunch(l, slot, ago, s.flow.level, s.runningState(state, l)))
	}
	return all
}

// recomputeLevels returns the groups that recompute the recording of the levels up to j, from the checkpoint before them.
// The running state overwrites the checkpoint, because no later work reads it.
func (s *session) recomputeLevels(sl *slot, micro, j int) (all []group) {
	t := s.train
	first := j / t.every * t.every
	state := t.states[j/t.every]
	for i := first; i <= j; i++ {
		x, slot, ago := s.levelInput(sl, micro, i)
		for l := range s.shape.L {
			g := t.u.forwardGroup(l, slot, x, s.runningState(state, l))
			g.stage, g.level = stRecompute, i
			if l == 0 && i == first {
				g.once = append(s.beginLaunches(state), g.once...)
			}
			all = append(all, g)
		}
		if i < j { // level j itself needs no clearing: its backward pass restores the states anyway
			all = append(all, group{stage: stRecompute, layer: s.shape.L, level: i, once: s.leavingLaunches(s.shape.L, slot, ago, state)})
		}
	}
	return all
}

func (t *training) bindLoss(dev device.Device) (err error) {
	s := t.u.net.s
	if t.sum, err = (op.Sum{N: s.D + s.B}).Bind(dev, t.losses, t.loss); err != nil {
		return err
	}
	t.parts, err = t.step.Bind()
	return err
}

func (t *training) close() (err error) {
	if t.sum != nil {
		err = t.sum.Close()
	}
	for _, p := range t.parts {
		if p.Ops != nil {
			err = errors.Join(err, p.Ops.Close())
		}
	}
	return err
}

// lossGroup returns the group that computes the loss and the cotangents from which the backward pass starts.
func (s *session) lossGroup(micro int) group {
	t, sh, n := s.train, s.shape, s.shape.D+s.shape.B
	g := group{stage: stLoss, minimum: lossCost(sh, t.window)}
	g.once = []op.Call{s.Bind(&lossKernel, n, lossCost(sh, t.window), gruLossArgs{
		metrics: s.flow.metrics, target: t.target, place: s.flow.place, ddose: t.ddose, dplace: t.dplace, de: t.de,
		losses: t.losses, n: n, D: sh.D, levels: t.window, width: sh.metrics(), fixed: metFixed,
		kappa: float32(lossKappa),
	})}
	for l := range sh.L { // after the last level no cotangent of the states arrives
		for _, b := range []device.Buffer{t.u.layers[l].dh, t.u.layers[l].chain} {
			g.once = append(g.once, s.Bind(&fillKernel, sh.B*sh.H, fillCost(sh.B*sh.H), gruFillArgs{
				out: b, n: sh.B * sh.H, value: float32(0),
			}))
		}
	}
	g.lib, g.minimum = t.sum, g.minimum.Add(t.sum.Minimum())
	// The loss goes next to the metrics, so that one copy reads both.
	g.after = []op.Call{t.u.copyLaunch(source{arg: op.From(t.loss, 0)}, op.From(s.flow.metrics, t.window*sh.metrics()), 1)}
	more := t.step.Scaled(optim.Cotangent{B: t.ddose, N: sh.D}, optim.Cotangent{B: t.dplace, N: 2 * sh.B})
	if micro == 0 {
		more = append(more, t.step.Zeros()...)
	}
	for _, l := range more {
		g.after = append(g.after, t.u.boundLaunch(l))
	}
	return g
}

// levelUp returns the groups of launches of the backward pass of level j, in the micro-batch with index micro.
func (s *session) levelUp(sl *slot, micro, j int) (all []group) {
	t, sh := s.train, s.shape
	x, slot, ago := s.levelInput(sl, micro, j)
	add := j < t.window-1 || t.step.Adds(micro)
	dh := s.reserve("the state's cotangent", int64(sh.B)*int64(sh.H))
	flow := group{stage: stFlowBack, dx: dh, minimum: flowBackCost(sh)}
	for l := range sh.L {
		flow.once = append(flow.once, t.u.restoreLaunch(l, slot, ago, s.flow.level))
	}
	flow.once = append(flow.once, s.Bind(&flowBackKernel, sh.B, flowBackCost(sh), gruFlowBwdArgs{
		proj: s.flow.proj, path: op.From(t.path, j*sh.B*pathWords), level: s.flow.level,
		ddose: t.ddose, de: t.de, dplace: t.dplace, dp: t.dp, dh: dh, n: sh.B, H: sh.H, D: sh.D, ago: ago,
	}))
	all = append(all, flow, s.projectionGrads(slot, add))
	w := backwardArgs{slot: slot, ago: ago, x: x, level: s.flow.level, dout: dh, first: sh.T - 1, energy: t.de, add: add}
	for l := sh.L - 1; l >= 0; l-- {
		chain, grads := t.u.layerBackward(l, w)
		all = append(all, chain, grads)
		w.dout, w.first = chain.dx, 0
	}
	for i := range all {
		all[i].level, all[i].add = j, add
	}
	return all
}

// projectionGrads returns the group that sums the gradients of the projection over the carriers of a level.
func (s *session) projectionGrads(slot int, add bool) group {
	t, sh := s.train, s.shape
	u, n, scratch := t.u, sh.B*sh.H, t.u.reserveSums()
	proj, bias := t.projection()
	g := group{stage: stGrads, layer: sh.L}
	b, h := int64(sh.B), int64(sh.H)
	g.minimum = gpuprof.Cost{Flops: 2*outputs*b*h + outputs*b, BytesRead: 4*outputs*b + s.prec.bytes()*b*h, BytesWritten: 4 * outputs * (h + 1)}
	state := u.statesAt(sh.L-1, slot+1, 0)
	state.by = 0
	right := any(state.movingArg(4))
	if s.prec.isNarrow() {
		g.once = append(g.once, s.Bind(&widenKernel, n, widenCost(n, s.prec), gruWidenArgs{
			in: state.arg, out: scratch.wide, n: n, precision: int(s.prec), inAt: state.at,
		}))
		right = scratch.wide
	}
	u.addSums(&g, scratch, op.Outer{Rows: sh.B, M: outputs, K: sh.H, Add: add}, t.dp, right, proj)
	g.once = append(g.once, s.Bind(&biasKernel, outputs, biasCost(sh.B, outputs), gruBiasArgs{
		g: t.dp, db: bias, n: outputs, rows: sh.B, add: add,
	}))
	return g
}
