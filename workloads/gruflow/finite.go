package gruflow

import (
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// finite ends a run whose loss is not a number any more: the one that the slot's step before
// left on the host, where nobody waits for it. Reads one by one leave none there.
func (s *session) finite(i int, sl *slot) error {
	if s.train == nil || s.Items > 0 || s.train.step.Scales() {
		return nil
	}
	v := gpuprof.Floats(sl.metrics)
	if loss := float64(v[len(v)-1]); !math.IsNaN(loss) && !math.IsInf(loss, 0) {
		return nil
	}
	stage, err := s.firstNotFinite(i)
	if err != nil {
		return err
	}
	return optim.Diverged("gruflow", stage)
}

// firstNotFinite makes the steps since the start again, and names the first stage that
// writes what is not finite. It can only be in the last steps: a loss is finite where the
// parameters are, and the step after one that spoils them has none.
func (s *session) firstNotFinite(i int) (string, error) {
	t := s.train
	steps := t.done
	if err := s.restore(); err != nil {
		return "", err
	}
	c := &checker{s: s}
	for n := range steps {
		at := i - steps + n
		c.slot = at % depth
		sl := &s.slots[c.slot]
		if err := s.send(sl, at%s.batches, loop.Silent{}); err != nil {
			return "", err
		}
		for k := range sl.groups {
			g := &sl.groups[k]
			if err := s.run(g); err != nil {
				return "", err
			}
			if n < steps-depth-1 {
				continue
			}
			ok, err := c.writesFinite(g)
			if err != nil {
				return "", err
			}
			if !ok {
				return allStages()[g.stage].Name, nil
			}
		}
	}
	return "", gpuprof.Errorf(gpuprof.ErrCheck, "training gruflow: a loss was not finite, and the same steps again have finite ones").WithFix("use deterministic=on, and look for faults of the device's memory")
}

// writesFinite says whether all that a group has written is finite.
func (c *checker) writesFinite(g *group) (bool, error) {
	s, t := c.s, c.s.train
	words := func(list ...gpuprof.Buffer) (bool, error) {
		for _, b := range list {
			v, err := c.read(b, 0, b.Len()/4)
			if err != nil || !finite(v) {
				return false, err
			}
		}
		return true, nil
	}
	switch g.stage {
	case stWeights, stOptimizer:
		var all []gpuprof.Buffer
		for _, p := range t.step.Params() {
			all = append(all, p.P)
		}
		return words(all...)
	case stGRU, stRecompute:
		if g.layer == s.shape.L {
			return true, nil
		}
		n := s.shape.T * s.shape.B * s.shape.H
		v, err := c.stored(t.u.layers[g.layer].kept, g.level%t.every*4*n, 4*n)
		return finite(v), err
	case stFlow:
		return words(s.flow.record, s.flow.energy, s.flow.place)
	case stMetrics:
		v, err := c.read(s.flow.metrics, g.level*s.shape.metrics(), s.shape.metrics())
		return finite(v), err
	case stLoss:
		return words(t.loss, t.ddose, t.dplace)
	case stFlowBack:
		return words(t.de, t.dplace, t.dp)
	case stGRUBack:
		return words(t.u.layers[g.layer].dh, t.u.layers[g.layer].chain, t.de)
	case stGrads:
		return words(c.gradsOf(g.layer)...)
	}
	for l := range s.shape.L + 1 {
		if ok, err := words(c.gradsOf(l)...); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func finite(v []float32) bool {
	for _, x := range op.As[float64](v) {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}
