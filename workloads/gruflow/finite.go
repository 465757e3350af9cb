package gruflow

import (
	"context"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// checkFinite ends a run whose loss became NaN or infinite. It reads the loss that the slot's previous step copied to
// the host, without a wait. It skips steps without such a copy: the first ones, and those with item reads. It also
// skips runs with loss scaling, whose loss may overflow.
func (s *session) checkFinite(i int, sl *slot) error {
	if s.train == nil || s.train.done < depth || s.Items > 0 || s.train.step.Scales() {
		return nil
	}
	if v := device.Floats(sl.metrics); optim.Finite(v[len(v)-1]) {
		return nil
	}
	c, steps := s.newChecker(context.Background()), s.train.done
	return optim.Diverged("gruflow", steps, s.restoreStart, func(n int) (string, error) {
		// Only the last steps are searched: parameters that are NaN make the loss of the next step NaN.
		return c.stepAgain(i-steps+n, n >= steps-depth-1)
	})
}

// stepAgain repeats step i. If the argument look is true, it returns the first stage that writes NaN or infinity, or ""
// if there is none.
func (c *checker) stepAgain(i int, look bool) (string, error) {
	s := c.s
	c.slot = i % depth
	sl := &s.slots[c.slot]
	if err := s.send(sl, i%s.batches, loop.Silent{}); err != nil {
		return "", err
	}
	for k := range sl.groups {
		g := &sl.groups[k]
		if err := s.run(g); err != nil {
			return "", err
		}
		if !look {
			continue
		}
		if !c.writesFinite(g) {
			return allStages()[g.stage].Name, nil
		}
	}
	return "", c.Err
}

func (c *checker) writesFinite(g *group) bool {
	s, t := c.s, c.s.train
	words := func(list ...device.Buffer) bool {
		return !slices.ContainsFunc(list, func(b device.Buffer) bool { return !optim.Finite(c.read(b, 0, b.Len()/4)...) })
	}
	switch g.stage {
	case stWeights, stOptimizer:
		var all []device.Buffer
		for _, p := range t.step.Params() {
			all = append(all, p.P)
		}
		return words(all...)
	case stGRU, stRecompute:
		if g.layer == s.shape.L {
			return true
		}
		n := s.shape.T * s.shape.B * s.shape.H
		return optim.Finite(c.readStored(t.u.layers[g.layer].kept, g.level%t.every*4*n, 4*n)...)
	case stFlow:
		return words(s.flow.record, s.flow.energy, s.flow.place)
	case stMetrics:
		return optim.Finite(c.read(s.flow.metrics, g.level*s.shape.metrics(), s.shape.metrics())...)
	case stLoss:
		return words(t.loss, t.ddose, t.dplace)
	case stFlowBack:
		return words(t.de, t.dplace, t.dp)
	case stGRUBack:
		return words(t.u.layers[g.layer].dh, t.u.layers[g.layer].chain, t.de)
	case stGrads:
		return words(c.gradsOf(g.layer)...)
	}
	var all []device.Buffer
	for l := range s.shape.L + 1 {
		all = append(all, c.gradsOf(l)...)
	}
	return words(all...)
}
