package e3nn

import (
	"cmp"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// checkFinite ends a run whose loss became NaN or infinite. It reads the loss that the slot's previous step copied to
// the host, without a wait.
func (s *session) checkFinite(i int, sl *slot) error {
	if !s.k.Trains() || s.train.done < depth || s.train.step.Scales() {
		return nil
	}
	if optim.Finite(device.Floats(sl.out)[0]) {
		return nil
	}
	steps := s.train.done
	return optim.Diverged("e3nn", steps, s.restartParameters, func(n int) (string, error) {
		// Only the last steps are searched: parameters that are NaN make the loss of the next step NaN.
		return s.stepAgain(i-steps+n, n >= steps-depth-s.k.Micro())
	})
}

func (s *session) restartParameters() error {
	s.train.done = 0
	return s.train.step.Restart(s.Compute)
}

// stepAgain repeats step i. If look is set, it returns the first stage that writes NaN or infinity, or "" if there is
// none.
func (s *session) stepAgain(i int, look bool) (string, error) {
	sl := &s.slots[i%depth]
	edges := s.batches.collate(&sl.host, i%len(s.in.batches))
	if err := s.send(sl, edges, loop.Silent{}); err != nil {
		return "", err
	}
	s.setEdges(i%depth, edges)
	for j := range s.plan {
		so := &s.plan[j]
		if !so.appliesTo(i % s.k.Micro()) {
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
	return "", s.Compute.Sync() // before the slot's host buffers are filled again
}

// written holds outputs of a stage: the first n values of each buffer, or all values if n is 0.
type written struct {
	n  int
	of []device.Buffer
}

func (s *session) writesFinite(so *stageOps, edges int) (bool, error) {
	c := op.Checker{Mem: &s.mem, Stream: s.Compute}
	for _, w := range s.writes(so, edges) {
		for _, b := range w.of {
			if !optim.Finite(c.Read(b, 0, cmp.Or(w.n, b.Len()/4))...) {
				return false, nil
			}
		}
	}
	return true, c.Err
}

func (s *session) writes(so *stageOps, edges int) []written {
	l, k, b, own, g := s.model.Layers[so.layer], s.work[so.layer], s.back, s.back.of[so.layer], s.train.grads[so.layer]
	sh, nw, rows := (s.model.LMax+1)*(s.model.LMax+1), l.TP.WeightNumel(), s.rows*l.TP.Out.Dim()
	some := func(n int, of ...device.Buffer) written { return written{n, of} }
	whole := func(of ...device.Buffer) written { return written{0, of} }
	radial, again := []written{some(edges*basisSize, s.basis)}, []written{some(edges*mlpHidden, k.a, k.h), some(edges*nw, k.w)}
	radial = append(radial, again...)
	product := some(rows, k.mid)
	if messages := so.ops[0][0].Output(); messages != nil && so.stage == stProduct {
		product = some(edges*l.TP.Out.Dim(), messages)
	}
	all := map[int][]written{
		stRadial: radial, stSph: {some(edges*sh, s.harmonics)}, stRecompute: again, stProduct: {product}, stScatter: {product},
		stLinearGate: {whole(s.layers[so.layer].out)}, stLoss: {whole(b.rho, b.drho, b.energy)},
		stLinearGateBack: {some(rows, own.dmid)}, stProductBack: {some(edges*nw, own.dw), whole(g.x)}, stRadialBack: {some(edges*mlpHidden, own.da)},
		stGrads: {whole(g.w1, g.w2, g.mix, g.readout)},
	}
	if w, ok := all[so.stage]; ok {
		return w
	}
	var params []written // written by clipping and the optimizer
	for i, param := range s.train.step.Params() {
		params = append(params, whole(s.train.step.Grad(i), param.P))
	}
	return params
}
