package e3nn

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// finite ends a run whose loss is not a number any more: the one that the slot's step before
// left on the host, where nobody waits for it.
func (s *session) finite(i int, sl *slot) error {
	if !s.trains() || s.train.done < depth || s.train.step.Scales() {
		return nil
	}
	if optim.Finite(gpuprof.Floats(sl.out)[0]) {
		return nil
	}
	steps := s.train.done
	return optim.Diverged("e3nn", steps, s.restart, func(n int) (string, error) {
		// It can only be in the last steps: a loss is finite where the parameters are, and the step
		// after one that spoils them has none.
		return s.stepAgain(i-steps+n, n >= steps-depth-microOf(s.set))
	})
}

// restart gives the parameters the values they were drawn with.
func (s *session) restart() error {
	s.train.done = 0
	return s.train.step.Restart(s.Compute)
}

// stepAgain makes step i again. With look it returns the first stage that writes what is not
// finite, "" for none.
func (s *session) stepAgain(i int, look bool) (string, error) {
	sl := &s.slots[i%depth]
	edges := s.batches.collate(&sl.host, i%len(s.in.batches))
	if err := s.send(sl, edges, loop.Silent{}); err != nil {
		return "", err
	}
	s.setEdges(i%depth, edges)
	for j := range s.plan {
		so := &s.plan[j]
		if !so.in(i % microOf(s.set)) {
			continue
		}
		for _, b := range so.ops[i%depth] {
			if err := b.Enqueue(s.Compute); err != nil {
				return "", err
			}
		}
		if !look {
			continue
		}
		if ok, err := s.writesFinite(so, edges); err != nil || !ok {
			return allStages()[so.stage].Name, err
		}
	}
	return "", s.Compute.Sync() // before the slot is filled again
}

// writesFinite says whether all that a stage has written for so many edges is finite.
func (s *session) writesFinite(so *stageOps, edges int) (bool, error) {
	l, k, b, own, g := s.model.Layers[so.layer], s.work[so.layer], s.back, s.back.of[so.layer], s.train.grads[so.layer]
	perEdge := func(width int, list ...gpuprof.Buffer) (bool, error) { return s.finiteIn(edges*width, list...) }
	whole := func(list ...gpuprof.Buffer) (bool, error) { return s.finiteIn(0, list...) }
	switch so.stage {
	case stSph:
		return perEdge((s.model.LMax+1)*(s.model.LMax+1), s.harmonics)
	case stRadial:
		return s.radialFinite(so.layer, edges)
	case stRecompute:
		return s.againFinite(so.layer, edges)
	case stProduct:
		if messages := so.ops[0][0].Output(); messages != nil {
			return perEdge(l.TP.Out.Dim(), messages)
		}
		return s.finiteIn(s.rows*l.TP.Out.Dim(), k.mid)
	case stScatter:
		return s.finiteIn(s.rows*l.TP.Out.Dim(), k.mid)
	case stLinearGate:
		return whole(s.layers[so.layer].out)
	case stLoss:
		return whole(b.rho, b.drho, b.energy)
	case stLinearGateBack:
		return s.finiteIn(s.rows*l.TP.Out.Dim(), own.dmid)
	case stForceLoss:
		return whole(s.pull.v, b.energy)
	case stEdgeTangent:
		if ok, err := perEdge(basisSize, s.pull.db); err != nil || !ok {
			return ok, err
		}
		return perEdge((s.model.LMax+1)*(s.model.LMax+1), s.pull.dy)
	case stRadialTangent:
		return perEdge(l.TP.WeightNumel(), s.pull.dw)
	case stProductTangent:
		return s.finiteIn(s.rows*l.TP.Out.Dim(), s.pull.dmid)
	case stLinearGateTangent:
		return s.finiteIn(s.rows*l.Out.Dim(), s.pull.dout)
	case stLinearGateSecond:
		return s.finiteIn(s.rows*l.TP.Out.Dim(), s.pull.gmid)
	case stProductSecond:
		if ok, err := perEdge(l.TP.WeightNumel(), s.pull.gw); err != nil || !ok {
			return ok, err
		}
		return whole(g.x)
	case stRadialSecond:
		return perEdge(mlpHidden, s.pull.ga)
	case stProductBack:
		if ok, err := perEdge(l.TP.WeightNumel(), own.dw); err != nil || !ok {
			return ok, err
		}
		if s.pulls() {
			return true, nil
		}
		return whole(g.x)
	case stSphBack:
		return perEdge(3, b.f)
	case stForces:
		return whole(b.forces)
	case stRadialBack:
		return perEdge(mlpHidden, own.da)
	case stGrads:
		return whole(g.w1, g.w2, g.mix, g.readout)
	}
	for i, p := range s.train.step.Params() {
		if ok, err := whole(s.train.step.Grad(i), p.P); err != nil || !ok {
			return ok, err
		}
	}
	return true, nil
}

func (s *session) radialFinite(layer, edges int) (bool, error) {
	if ok, err := s.finiteIn(edges*basisSize, s.basis); err != nil || !ok {
		return ok, err
	}
	if k := s.work[layer]; s.hiddenOnly() {
		return s.finiteIn(edges*mlpHidden, k.a, k.h)
	}
	return s.againFinite(layer, edges)
}

// againFinite is that of the MLP and its weights.
func (s *session) againFinite(layer, edges int) (bool, error) {
	k := s.work[layer]
	if ok, err := s.finiteIn(edges*mlpHidden, k.a, k.h); err != nil || !ok {
		return ok, err
	}
	return s.finiteIn(edges*s.model.Layers[layer].TP.WeightNumel(), k.w)
}

// finiteIn says whether the first n values of buffers are finite, with 0 all.
func (s *session) finiteIn(n int, list ...gpuprof.Buffer) (bool, error) {
	for _, b := range list {
		many := n
		if many == 0 {
			many = b.Len() / 4
		}
		v, err := op.Receive(s.dev, s.Compute, b, 0, many)
		if err != nil {
			return false, err
		}
		if !optim.Finite(v...) {
			return false, nil
		}
	}
	return true, nil
}
