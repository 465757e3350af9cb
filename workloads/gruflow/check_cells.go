package gruflow

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// refKept returns a cell's r, z, n and u [4H] and its next state [H] in float64; see refCell.
//
//go:norace
func refKept(x, h []float64, p layerParams) (gates, next []float64) {
	n := len(h)
	row := func(w, b []float32, i int, v []float64) float64 {
		sum := float64(b[i])
		w = w[i*len(v) : (i+1)*len(v)]
		for j, a := range v {
			sum += float64(w[j]) * a
		}
		return sum
	}
	gates, next = make([]float64, 4*n), make([]float64, n)
	for j := range n {
		u := row(p.wh, p.bh, 2*n+j, h)
		r := sigmoid(row(p.wi, p.bi, j, x) + row(p.wh, p.bh, j, h))
		z := sigmoid(row(p.wi, p.bi, n+j, x) + row(p.wh, p.bh, n+j, h))
		c := math.Tanh(row(p.wi, p.bi, 2*n+j, x) + r*u)
		gates[j], gates[n+j], gates[2*n+j], gates[3*n+j] = r, z, c, u
		next[j] = (1-z)*c + z*h[j]
	}
	return gates, next
}

// watchBack runs before the kernels of a layer's backward pass for time step T-1-t, because t counts from the last
// step. It reads the checked rows' cotangents of the state between this time step and the one after it.
func (c *checker) watchBack(g *group, t int) error {
	sh := c.s.shape
	if err := c.s.stream.Sync(); err != nil {
		return err
	}
	c.readArrived(g.layer, sh.T-1-t)
	return c.Err
}

// readArrived reads the cotangent of the new state of time step t, the sum of dh and chain. It stores the cotangent for
// the checked rows of step t, and for those of step t+1, whose old state this is.
func (c *checker) readArrived(l, t int) {
	sh, b := c.s.shape, c.s.train.u.layers[l]
	for _, row := range c.rows {
		if row/sh.B != t && row/sh.B != t+1 {
			continue
		}
		k := row % sh.B
		dh := c.read(b.dh, k*sh.H, sh.H)
		chain := c.read(b.chain, k*sh.H, sh.H)
		sum := op.As[float64](dh)
		for i, v := range chain {
			sum[i] += float64(v)
		}
		if row/sh.B == t {
			c.level.cotangents[row] = sum
		} else {
			c.level.old[row] = sum
		}
	}
}

// cellsBack compares the backward pass of a layer at one level. Its reference starts from each checked row's
// cotangent and from the states and inputs of the forward pass.
func (c *checker) cellsBack(g *group) {
	s, sh, t, l, e, lv := c.s, c.s.shape, c.s.train, g.layer, &c.Errs[stGRUBack], &c.level
	c.readArrived(l, -1)
	gx, gh := c.readGates(g)
	p, top := s.params.layers[l], l == sh.L-1
	for _, row := range c.rows {
		k, d := row%sh.B, lv.cotangents[row]
		last := row/sh.B == sh.T-1
		if last && hasLeft(lv.level[k], t.window-1-g.level, sh.D) {
			clear(d)
		}
		if !top || last {
			at := k
			if !top {
				at = row
			}
			dout := c.readScratch(g.dout, at*sh.H, sh.H)
			for i, v := range dout {
				d[i] += float64(v)
			}
		}
		x := c.inputRow(l, g.level, row)
		h := c.stateRow(l, g.level, row, 0)
		to := newGrad64(sh, l)
		dx, dh := refCellBack(op.As[float64](x), op.As[float64](h), d, p.wi, p.wh, p.bi, p.bh, to)
		e.Add(gx[row*sh.gates():][:sh.gates()], to.bi)
		e.Add(gh[row*sh.gates():][:sh.gates()], to.bh)
		e.Add(op.As[float32](lv.old[row]), dh)
		if l > 0 {
			e.Add(c.readScratch(g.dx, row*sh.H, sh.H), dx)
		}
	}
	if l > 0 {
		return
	}
	c.energyBack(gx)
}

// energyBack compares the energy's cotangent, a sum of input gradients over the time steps.
func (c *checker) energyBack(gx []float32) {
	s, sh := c.s, c.s.shape
	de := c.read(s.train.de, 0, sh.B)
	w := s.params.layers[0].wi
	for _, k := range c.carriersOf() {
		want := float64(c.level.de[k])
		for t := range sh.T {
			for i, v := range gx[(t*sh.B+k)*sh.gates():][:sh.gates()] {
				want += float64(v) * float64(w[i*sh.I])
			}
		}
		c.Errs[stGRUBack].Add(de[k:k+1], []float64{want})
	}
}

// checkGrads compares some rows of a layer's weight and bias gradients. The reference sums over all rows of the gates'
// cotangents that the stage read.
func (c *checker) checkGrads(g *group) {
	s, sh, t := c.s, c.s.shape, c.s.train
	rows := sh.T * sh.B
	add := g.add
	slot := g.level % t.every
	b := c.gradsOf(g.layer)
	if g.layer == sh.L {
		dp := c.read(t.dp, 0, sh.B*outputs)
		h := c.readStored(t.u.layers[sh.L-1].states, (slot+1)*rows*sh.H, sh.B*sh.H)
		c.checkOuter(dp, outputs, h, sh.H, b[0], b[1], 0, add)
		return
	}
	var x []float32
	if g.layer == 0 {
		x = c.read(s.slots[c.slot].x, (g.micro*t.window+g.level)*rows*sh.I, rows*sh.I)
	} else {
		x = c.readStored(t.u.layers[g.layer-1].states, (slot*rows+sh.B)*sh.H, rows*sh.H)
	}
	h := c.readStored(t.u.layers[g.layer].states, slot*rows*sh.H, rows*sh.H)
	c.checkOuter(c.level.gx, sh.gates(), x, sh.inputWidth(g.layer), b[0], b[2], 0, add)
	c.checkOuter(c.level.gh, sh.gates(), h, sh.H, b[1], b[3], 1, add)
}

// checkOuter compares some rows of the gradient w [m,k], the sum over rows of outer products of a [rows,m] and x
// [rows,k], and the bias gradient. of is the index of w among the layer's gradients. add reports whether the stage
// added to it.
func (c *checker) checkOuter(a []float32, m int, x []float32, k int, w, bias device.Buffer, of int, add bool) {
	e, rows := &c.Errs[stGrads], len(a)/m
	for n := range min(m, gatesChecked) {
		i := n * (m - 1) / max(1, min(m, gatesChecked)-1) // the first, the last and equally spaced ones between
		want, sum := make([]float64, k), 0.0
		if add {
			want = op.As[float64](c.level.before[of][i*k : (i+1)*k])
			sum = float64(c.level.before[len(c.level.before)/2+of][i])
		}
		for r := range rows {
			v := float64(a[r*m+i])
			sum += v
			for j, y := range x[r*k:][:k] {
				want[j] += v * float64(y)
			}
		}
		e.Add(c.read(w, i*k, k), want)
		e.Add(c.read(bias, i, 1), []float64{sum})
	}
}
