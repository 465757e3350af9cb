package e3nn

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// mostReference is the largest number of products that a check of sums over all edges computes. Beyond it, the check
// compares only some of the weights.
const mostReference = 1 << 28

// snapshotTraining saves what a stage changes: the gradients that it adds to, or the arrays of clipping and the
// optimizer.
func (c *checker) snapshotTraining(so *stageOps) {
	c.added = nil
	if so.adds {
		g := c.s.train.grads[so.layer]
		c.added = map[device.Buffer][]float64{}
		for _, b := range []device.Buffer{g.x, g.w1, g.w2, g.mix, g.readout} {
			c.added[b] = c.Read64(b, 0, b.Len()/4)
		}
	}
	c.Stops(c.s.train.step.SaveFor(so.part, c.s.Compute, &c.saved))
}

func (c *checker) targetOf(row int) float64 {
	return float64(c.s.params.target[c.micro*c.s.rows+row])
}

func (c *checker) checkResidual(row int) {
	rho := c.Read64(c.s.back.rho, row, 1)
	scale, err := c.s.train.step.Scale(c.s.Compute)
	if c.Stops(err) {
		return
	}
	off := rho[0] - c.targetOf(row)
	c.Compare(stLoss, c.s.back.drho, row, []float64{scale * off / float64(c.s.rows)})
}

// sumWith returns g, the reference for the gradient in buffer b. If the checked stage adds to b, sumWith first adds to
// g the values that b had before the stage.
func (c *checker) sumWith(b device.Buffer, g []float64) []float64 {
	for i, v := range c.added[b][:min(len(c.added[b]), len(g))] {
		g[i] += v
	}
	return g
}

// hiddenBack compares the gradient with respect to a row's hidden layers before activation with two references. One
// starts from the stage's inputs, the other from the batch and the parameters alone.
func (c *checker) hiddenBack(layer, i int, basis, dw []float64) {
	s, nw := c.s, c.s.model.Layers[layer].TP.WeightNumel()
	lo, n := c.edgesOf(i)
	da := make([]float64, n*mlpHidden)
	for e := range n {
		if c.Stops(op.RefHiddenGrad(s.mlps[layer], basis[e*basisSize:(e+1)*basisSize], c.p.w1[layer], c.p.w2[layer], dw[e*nw:(e+1)*nw], da[e*mlpHidden:(e+1)*mlpHidden])) {
			return
		}
	}
	c.Compare(stRadialBack, s.back.of[layer].da, lo*mlpHidden, da)
	scale, err := s.train.step.Scale(s.Compute)
	if c.Stops(err) {
		return
	}
	got := c.Read(s.back.of[layer].da, lo*mlpHidden, n*mlpHidden)
	clear(da)
	addScaled(da, c.refs[i].layers[layer].da, scale*(c.refs[i].rho-c.targetOf(c.rows[i]))/float64(s.rows))
	c.laws[lawChain].Add(got, da)
}

// checkFeatures compares the gradients with respect to the atoms' features, each a sum over the edges from one atom. It
// compares all atoms if that is quick, otherwise only the atom with the fewest edges. An identity covers all atoms: the
// product is linear in the features x and in the weights w, so the sum of w.dw over all edges equals the sum of x.dx
// over all sources.
func (c *checker) checkFeatures(so *stageOps) {
	layer := so.layer
	s, l, host := c.s, c.s.model.Layers[layer], c.s.slots[c.slot].host
	in, nw, own := l.In.Dim(), l.TP.WeightNumel(), c.s.back.of[layer]
	src, dst := device.Ints(host.src), device.Ints(host.dst)
	colptr := device.Ints(host.colptr)
	only := -1
	if int64(c.edges)*int64(nw) > mostReference/64 {
		for a := range len(s.in.crystal.Positions) {
			if n := colptr[a+1] - colptr[a]; n > 0 && (only < 0 || n < colptr[only+1]-colptr[only]) {
				only = a
			}
		}
	}
	want := make([]float64, len(c.p.x[layer]))
	sums := [2]float64{}
	for e := range c.edges {
		if c.Stops(c.ctx.Err()) {
			return
		}
		w := c.Read64(s.work[layer].w, e*nw, nw)
		dw := c.Read64(own.dw, e*nw, nw)
		sums[0] += dotProduct(w, dw)
		node := int(src[e])
		if only >= 0 && node != only {
			continue
		}
		c.featuresOf(layer, e, int(dst[e]), w, want[node*in:(node+1)*in])
	}
	b := s.train.grads[layer].x
	got := c.Read64(b, 0, len(want))
	for i, v := range c.added[b] {
		got[i] -= v
	}
	x := op.As[float64](s.storedFeatures(layer))
	sums[1] = dotProduct(x, got)
	law := &c.laws[lawFeatures]
	law.Used = true
	law.Diff += (sums[0] - sums[1]) * (sums[0] - sums[1])
	law.Ref += dotProduct(x, x) * dotProduct(got, got) // x.dx is small where x and dx are orthogonal
	if only >= 0 {
		got, want = got[only*in:(only+1)*in], want[only*in:(only+1)*in]
	}
	c.Errs[so.stage].Add(op.As[float32](got), want)
}

// featuresOf adds the contribution of edge e to a gradient with respect to the features of the edge's source, the last
// argument. The edge ends in the given row and has the path weights w.
func (c *checker) featuresOf(layer, e, row int, w, to []float64) {
	s := c.s
	sh, mid := (s.model.LMax+1)*(s.model.LMax+1), s.model.Layers[layer].TP.Out.Dim()
	y := c.Read64(s.harmonics, e*sh, sh)
	dmid := c.Read64(s.back.of[layer].dmid, row*mid, mid)
	dx := make([]float64, len(to))
	if c.Stops(op.RefTensorProductGrad(s.products[layer], make([]float64, len(to)), y, w, dmid, dx, make([]float64, sh), make([]float64, len(w)))) {
		return
	}
	add(to, dx)
}

func dotProduct(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// weightGrads compares the gradients with respect to weights, which are sums over edges or rows. It compares w1, the
// linear layer and the readout, and as many rows of w2 as mostReference allows.
func (c *checker) weightGrads(layer int) {
	s, l, g := c.s, c.s.model.Layers[layer], c.s.train.grads[layer]
	nw := l.TP.WeightNumel()
	rows := int(min(int64(mlpHidden), max(1, mostReference/(int64(c.edges)*int64(nw)))))
	w1, w2 := make([]float64, basisSize*mlpHidden), make([]float64, rows*nw)
	s1, s2 := 1/math.Sqrt(basisSize), 1/math.Sqrt(mlpHidden)
	own := s.back.of[layer]
	for e := range c.edges {
		if c.Stops(c.ctx.Err()) {
			return
		}
		c.addOuter(w1, s.basis, own.da, e, basisSize, basisSize, mlpHidden, s1)
		c.addOuter(w2, s.work[layer].h, own.dw, e, mlpHidden, rows, nw, s2)
	}
	c.Compare(stGrads, g.w1, 0, c.sumWith(g.w1, w1))
	c.Compare(stGrads, g.w2, 0, c.sumWith(g.w2, w2))
	c.rowGrads(layer)
}

// addOuter adds k times an outer product to the sum to [u,n]: the first u values in row e of a [.,m], times row e of b
// [.,n].
func (c *checker) addOuter(to []float64, a, b device.Buffer, e, m, u, n int, k float64) {
	left := c.Read64(a, e*m, u)
	right := c.Read64(b, e*n, n)
	for i, x := range left {
		addScaled(to[i*n:(i+1)*n], right, k*x)
	}
}

func (c *checker) rowGrads(layer int) {
	s, l, g := c.s, c.s.model.Layers[layer], c.s.train.grads[layer]
	mix, readout := make([]float64, l.Linear.WeightNumel()), make([]float64, l.readout().Count)
	for r := range s.rows {
		mid := c.Read64(s.work[layer].mid, r*l.TP.Out.Dim(), l.TP.Out.Dim())
		dpre := c.Read64(s.back.of[layer].dpre, r*l.Linear.Out.Dim(), l.Linear.Out.Dim())
		op.RefLinearGrad(l.Linear, mid, c.p.mix[layer], dpre, make([]float64, len(mid)), mix)
		drho := c.Read64(s.back.drho, r, 1)
		out := c.Read64(s.layers[layer].out, r*l.Out.Dim(), l.Out.Dim())
		addScaled(readout, out[l.readout().First:][:len(readout)], drho[0])
	}
	c.Compare(stGrads, g.mix, 0, c.sumWith(g.mix, mix))
	c.Compare(stGrads, g.readout, 0, c.sumWith(g.readout, readout))
}
