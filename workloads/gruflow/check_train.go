package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// gatesChecked is the number of gates per layer whose weight gradients are compared. Each weight gradient is a sum over
// all rows.
const gatesChecked = 3

// levelCheck holds inputs of training stages, read before the stages ran.
type levelCheck struct {
	energy, place, ddose []float32
	level                []int32
	de, dplace           []float32
	gx, gh               []float32 // [T*B,3H]
	before               [][]float32
	saved                optim.Saved
	cotangents           map[int][]float64 // of each checked row's new state
	old                  map[int][]float64 // of each checked row's old state
}

func (c *checker) checkTrained(g *group) error {
	c.micro = g.micro
	if err := c.saveInputs(g); err != nil {
		return err
	}
	s := c.s
	if g.stage == stGRUBack {
		s.watch = c.watchBack
		defer func() { s.watch = nil }()
	}
	if err := s.run(g); err != nil {
		return err
	}
	if err := s.stream.Sync(); err != nil {
		return err
	}
	switch g.stage {
	case stWeights:
		return c.checkWeights(g.layer)
	case stGRU:
		return c.checkCells(g)
	case stRecompute:
		if g.layer == s.shape.L {
			return nil // checkCells of the next level's layers covers it
		}
		return c.checkCells(g)
	case stFlow:
		return c.levelDown(g)
	case stMetrics:
		return c.levelMetrics(g)
	case stLoss:
		return c.checkLoss()
	case stFlowBack:
		return c.levelUp(g)
	case stGRUBack:
		return c.cellsBack(g)
	case stGrads:
		if err := c.checkGrads(g); err != nil || g.layer > 0 || g.level > 0 || g.micro > 0 {
			return err
		}
		return c.checkChained() // the whole backward pass
	}
	return c.checkOptimizer(g)
}

// checkOptimizer compares the results of clipping, or of the optimizer, after the last part of that stage.
func (c *checker) checkOptimizer(g *group) error {
	s := c.s
	if !g.part.Last {
		return nil
	}
	now, err := s.train.step.Save(s.stream)
	if err != nil {
		return err
	}
	if g.stage == stClip {
		c.errs[stClip].Used = true
		s.train.step.Clipped(c.level.saved, now, &c.errs[stClip])
		return nil
	}
	c.errs[stOptimizer].Used = true
	return s.train.step.Stepped(s.stream, c.level.saved, now, &c.errs[stOptimizer])
}

// saveInputs reads the arrays that a group will overwrite.
func (c *checker) saveInputs(g *group) (err error) {
	s, lv := c.s, &c.level
	all := func(b device.Buffer) (v []float32) {
		if err == nil {
			v, err = c.read(b, 0, b.Len()/4)
		}
		return v
	}
	switch g.stage {
	case stFlow:
		lv.energy, lv.place = all(s.flow.energy), all(s.flow.place)
		lv.level = intView(all(s.flow.level))
	case stFlowBack:
		lv.de, lv.dplace, lv.ddose, lv.level = all(s.train.de), all(s.train.dplace), all(s.train.ddose), intView(all(s.flow.level))
	case stGRUBack:
		lv.de, lv.level = all(s.train.de), intView(all(s.flow.level))
		lv.cotangents, lv.old = map[int][]float64{}, map[int][]float64{}
	case stGrads:
		lv.before = nil
		for _, b := range c.gradsOf(g.layer) {
			lv.before = append(lv.before, all(b))
		}
		if g.layer < s.shape.L {
			lv.gx, lv.gh, err = c.readGates(g)
		}
	case stClip, stOptimizer:
		if !g.part.First {
			return nil
		}
		lv.saved, err = s.train.step.Save(s.stream)
	}
	return err
}

// gradsOf returns the gradient buffers of layer l, or of the projection for l = L.
func (c *checker) gradsOf(l int) []device.Buffer {
	t := c.s.train
	if l == c.s.shape.L {
		proj, bias := t.projection()
		return []device.Buffer{proj, bias}
	}
	g := t.u.layers[l].g
	return []device.Buffer{g.wi, g.wh, g.bi, g.bh}
}

func (c *checker) readScratch(ref op.Ref, at, n int) ([]float32, error) {
	buf, first := c.s.program.Place(ref.Block)
	return c.read(buf, int(first/4)+at, n)
}

func (c *checker) readGates(g *group) (gx, gh []float32, err error) {
	n := c.s.shape.T * c.s.shape.B * c.s.shape.gates()
	if gx, err = c.readScratch(g.gx, 0, n); err != nil {
		return nil, nil, err
	}
	gh, err = c.readScratch(g.gh, 0, n)
	return gx, gh, err
}

// checkWeights compares the weights that a step converted to the products' formats, bit for bit.
func (c *checker) checkWeights(l int) error {
	u, h := c.s.rec.u, c.s.shape.H
	p, turned, back := c.s.params.layers[l], u.net.layers[l], u.layers[l].back
	for _, m := range []struct {
		b    device.Buffer
		want []float32
	}{{turned.wi, transpose(p.wi, 3*h)}, {turned.wh, transpose(p.wh, 3*h)}, {back.wi, p.wi}, {back.wh, p.wh}} {
		if m.b == nil || (m.b == back.wi || m.b == back.wh) && !u.net.roundsFirst() {
			continue
		}
		got, err := c.readStored(m.b, 0, len(m.want))
		if err != nil {
			return err
		}
		want := make([]float32, len(m.want))
		c.s.prec.round(want, m.want)
		c.errs[stWeights].Same(got, want)
	}
	return nil
}

func (c *checker) checkLoss() error {
	s, sh, t, e := c.s, c.s.shape, c.s.train, &c.errs[stLoss]
	metrics, err := c.read(s.flow.metrics, 0, s.metricWords())
	if err != nil {
		return err
	}
	dose := make([]float64, sh.D)
	for j := range t.window {
		for d := range dose {
			dose[d] += float64(metrics[j*sh.metrics()+metFixed+d])
		}
	}
	place, err := c.read(s.flow.place, 0, 2*sh.B)
	if err != nil {
		return err
	}
	loss, ddose, dplace := refLoss(dose, op.As[float64](drawTargets(sh, t.window, s.seed)), op.As[float64](place))
	e.Add(metrics[len(metrics)-1:], []float64{loss})
	scale, err := t.step.Scale(s.stream)
	if err != nil {
		return err
	}
	for _, v := range [][]float64{ddose, dplace} {
		for i := range v {
			v[i] *= scale
		}
	}
	for _, m := range []struct {
		b    device.Buffer
		want []float64
	}{{t.ddose, append(ddose, 0)}, {t.dplace, dplace}, {t.de, make([]float64, sh.B)}} {
		got, err := c.read(m.b, 0, len(m.want))
		if err != nil {
			return err
		}
		e.Add(got, m.want)
	}
	return nil
}

func (c *checker) levelUp(g *group) error {
	s, sh, t, e, lv := c.s, c.s.shape, c.s.train, &c.errs[stFlowBack], &c.level
	ago := t.window - 1 - g.level
	for _, k := range c.carriersOf() {
		top, err := c.stateRow(sh.L-1, g.level, (sh.T-1)*sh.B+k, 1)
		if err != nil {
			return err
		}
		made, err := c.recomputeState(sh.L-1, g.level, k) // restored for carriers that left
		if err != nil {
			return err
		}
		e.Add(top, made)
		path, err := c.read(t.path, (g.level*sh.B+k)*pathWords, pathWords)
		if err != nil {
			return err
		}
		leaves := hasLeft(lv.level[k], ago, sh.D)
		was := (levelThen(lv.level[k], ago, sh.D) + sh.D - 1) % sh.D
		after := carrierBack{float64(lv.de[k]), float64(lv.dplace[2*k]), float64(lv.dplace[2*k+1])}
		var dbias [outputs]float64
		before, dh := refFlowBack(carrier{energy: float64(path[pathEnergy])}, op.As[float64](top), s.params.proj, s.params.bias, after, float64(lv.ddose[was]), leaves, make([]float64, outputs*sh.H), dbias[:])
		for _, m := range []struct {
			b    device.Buffer
			at   int
			want []float64
		}{{t.dp, k * outputs, dbias[:]}, {t.de, k, []float64{before.energy}}, {t.dplace, 2 * k, []float64{before.x, before.y}}} {
			got, err := c.read(m.b, m.at, len(m.want))
			if err != nil {
				return err
			}
			e.Add(got, m.want)
		}
		got, err := c.readScratch(g.dx, k*sh.H, sh.H)
		if err != nil {
			return err
		}
		e.Add(got, dh)
	}
	return nil
}

func (c *checker) compareMetrics(got []float32, want []float64) {
	e := &c.errs[stMetrics]
	e.Used = true
	for m, v := range want {
		d := float64(got[m]) - v
		if v != 0 {
			d /= v
		}
		e.Diff += d * d
		e.Ref++
	}
}
