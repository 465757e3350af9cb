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

func (c *checker) checkTrained(g *group) {
	c.micro = g.micro
	c.saveInputs(g)
	s := c.s
	if g.stage == stGRUBack {
		s.watch = c.watchBack
		defer func() { s.watch = nil }()
	}
	if c.Stops(s.run(g)) || c.Stops(s.stream.Sync()) {
		return
	}
	switch g.stage {
	case stWeights:
		c.checkWeights(g.layer)
	case stGRU:
		c.checkCells(g)
	case stRecompute:
		if g.layer < s.shape.L { // checkCells of the next level's layers covers the rest
			c.checkCells(g)
		}
	case stFlow:
		c.levelDown(g)
	case stMetrics:
		c.levelMetrics(g)
	case stLoss:
		c.checkLoss()
	case stFlowBack:
		c.levelUp(g)
	case stGRUBack:
		c.cellsBack(g)
	case stGrads:
		if c.checkGrads(g); g.layer == 0 && g.level == 0 && g.micro == 0 {
			c.checkChained() // the whole backward pass
		}
	default:
		c.Stops(s.train.step.Verify(g.part, s.stream, c.level.saved, &c.Errs[g.stage]))
	}
}

// saveInputs reads the arrays that a group will overwrite.
func (c *checker) saveInputs(g *group) {
	s, lv := c.s, &c.level
	all := func(b device.Buffer) []float32 { return c.read(b, 0, b.Len()/4) }
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
			lv.gx, lv.gh = c.readGates(g)
		}
	case stClip, stOptimizer:
		c.Stops(s.train.step.SaveFor(g.part, s.stream, &lv.saved))
	}
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

func (c *checker) readScratch(ref op.Ref, at, n int) []float32 {
	buf, first := c.s.program.Place(ref.Block)
	return c.read(buf, int(first/4)+at, n)
}

func (c *checker) readGates(g *group) (gx, gh []float32) {
	n := c.s.shape.T * c.s.shape.B * c.s.shape.gates()
	return c.readScratch(g.gx, 0, n), c.readScratch(g.gh, 0, n)
}

// checkWeights compares the weights that a step converted to the products' formats, bit for bit.
func (c *checker) checkWeights(l int) {
	u, h := c.s.rec.u, c.s.shape.H
	p, turned, back := c.s.params.layers[l], u.net.layers[l], u.layers[l].back
	for _, m := range []struct {
		b    device.Buffer
		want []float32
	}{{turned.wi, transpose(p.wi, 3*h)}, {turned.wh, transpose(p.wh, 3*h)}, {back.wi, p.wi}, {back.wh, p.wh}} {
		if m.b == nil || (m.b == back.wi || m.b == back.wh) && !u.net.roundsFirst() {
			continue
		}
		got := c.readStored(m.b, 0, len(m.want))
		want := make([]float32, len(m.want))
		c.s.prec.round(want, m.want)
		c.Errs[stWeights].Same(got, want)
	}
}

func (c *checker) checkLoss() {
	s, sh, t, e := c.s, c.s.shape, c.s.train, &c.Errs[stLoss]
	metrics := c.read(s.flow.metrics, 0, s.metricWords())
	dose := make([]float64, sh.D)
	for j := range t.window {
		for d := range dose {
			dose[d] += float64(metrics[j*sh.metrics()+metFixed+d])
		}
	}
	place := c.read(s.flow.place, 0, 2*sh.B)
	loss, ddose, dplace := refLoss(dose, op.As[float64](drawTargets(sh, t.window, s.seed)), op.As[float64](place))
	e.Add(metrics[len(metrics)-1:], []float64{loss})
	scale, err := t.step.Scale(s.stream)
	if c.Stops(err) {
		return
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
		e.Add(c.read(m.b, 0, len(m.want)), m.want)
	}
}

func (c *checker) levelUp(g *group) {
	s, sh, t, e, lv := c.s, c.s.shape, c.s.train, &c.Errs[stFlowBack], &c.level
	ago := t.window - 1 - g.level
	for _, k := range c.carriersOf() {
		top := c.stateRow(sh.L-1, g.level, (sh.T-1)*sh.B+k, 1)
		e.Add(top, c.recomputeState(sh.L-1, g.level, k)) // restored for carriers that left
		path := c.read(t.path, (g.level*sh.B+k)*pathWords, pathWords)
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
			e.Add(c.read(m.b, m.at, len(m.want)), m.want)
		}
		e.Add(c.readScratch(g.dx, k*sh.H, sh.H), dh)
	}
}

func (c *checker) compareMetrics(got []float32, want []float64) {
	e := &c.Errs[stMetrics]
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
