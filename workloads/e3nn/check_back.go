package e3nn

import (
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// The stages of the backward pass are checked from their own inputs, read from the device. Further checks (laws)
// compare the whole pass with a reference that reads only the batch and the parameters, and test identities that hold
// for any parameters.
const (
	lawChain    = iota // reference from batch and parameters alone: gradients with respect to edge vectors or hidden layer
	lawSum             // the forces sum to 0
	lawEuler           // w.dw = y.dy on every edge (w: weights, y: harmonics)
	lawFeatures        // w.dw = x.dx over all edges (x: features)
	lawCount
)

// chainBound is the largest error in float32 of the whole backward pass of about twenty operations; PyTorch's error is
// 1.4e-6.
const chainBound = 1e-4

// chainTolerance is the tolerance of a value that depends on the forward and the backward pass. Twice as many products
// with rounded inputs contribute to it as to a layer's output.
func (s *session) chainTolerance() float64 {
	return max(chainBound, 2*tolerances[s.k.Precision])
}

func (c *checker) lawChecks() []gpuprof.Check {
	var out []gpuprof.Check
	for i, law := range []struct {
		name      string
		tolerance float64
	}{{"gradient of the whole step", c.s.chainTolerance()}, {"sum of forces", fp32Tolerance}, {"w.dw = y.dy", fp32Tolerance}, {"w.dw = x.dx", fp32Tolerance}} {
		if e := c.laws[i]; e.Used {
			out = append(out, loop.CheckOf(law.name, e.Relative(), law.tolerance, len(c.rows), c.s.rows))
		}
	}
	return out
}

// edgesOf returns the first edge and the number of edges of checked row i.
func (c *checker) edgesOf(i int) (lo, n int) {
	rowptr := device.Ints(c.s.slots[c.slot].host.rowptr)
	lo = int(rowptr[c.rows[i]])
	return lo, int(rowptr[c.rows[i]+1]) - lo
}

// takeSnapshot saves the gradients of the checked rows' edges before a stage that adds to them. In training it calls
// snapshotTraining instead.
func (c *checker) takeSnapshot(so *stageOps) {
	b, width := c.s.back.dy, (c.s.model.LMax+1)*(c.s.model.LMax+1)
	switch {
	case !c.s.computesForces():
		c.snapshotTraining(so)
		return
	case so.stage == stRadialBack:
		b, width = c.s.back.db, basisSize
	case so.stage != stProductBack:
		return
	}
	c.before = make([][]float64, len(c.rows))
	for i := range c.rows {
		lo, n := c.edgesOf(i)
		if c.s.isFirstBack(so.layer) {
			c.before[i] = make([]float64, n*width)
			continue
		}
		c.before[i] = c.Read64(b, lo*width, n*width)
	}
}

func (c *checker) rowBack(so *stageOps, i int) {
	switch so.stage {
	case stLoss:
		if c.Compare(stLoss, c.s.back.rho, c.rows[i], []float64{c.refs[i].rho}); c.s.k.Trains() {
			c.checkResidual(c.rows[i])
		}
	case stRecompute:
		c.checkRecomputed(so.layer, i)
	case stLinearGateBack:
		l, r := c.s.model.Layers[so.layer], c.rows[i]
		pre := c.Read64(c.s.work[so.layer].pre, r*l.Linear.Out.Dim(), l.Linear.Out.Dim())
		drho := c.Read64(c.s.back.drho, r, 1)
		dmid, err := c.s.refGateLinear(so.layer, pre, drho[0], c.p)
		if !c.Stops(err) {
			c.Compare(stLinearGateBack, c.s.back.of[so.layer].dmid, r*len(dmid), dmid)
		}
	case stProductBack:
		c.productBack(so.layer, i)
	case stRadialBack:
		c.radialBack(so.layer, i)
	case stSphBack:
		c.sphBack(i)
	}
}

func (c *checker) checkRecomputed(layer, i int) {
	lo, _ := c.edgesOf(i)
	ref, k := c.refs[i].layers[layer], c.s.work[layer]
	c.Compare(stRecompute, k.w, lo*c.s.model.Layers[layer].TP.WeightNumel(), ref.w)
	if c.s.k.Recompute == recomputeAll {
		c.Compare(stRecompute, k.pre, c.rows[i]*len(ref.pre), ref.pre)
	}
}

func (c *checker) productBack(layer, i int) {
	s, l := c.s, c.s.model.Layers[layer]
	lo, n := c.edgesOf(i)
	in, sh, nw, mid := l.In.Dim(), (s.model.LMax+1)*(s.model.LMax+1), l.TP.WeightNumel(), l.TP.Out.Dim()
	y := c.Read64(s.harmonics, lo*sh, n*sh)
	w := c.Read64(s.work[layer].w, lo*nw, n*nw)
	dmid := c.Read64(s.back.of[layer].dmid, c.rows[i]*mid, mid)
	dw, dy := make([]float64, n*nw), make([]float64, n*sh)
	x, dx := make([]float64, in), make([]float64, in)
	src := device.Ints(s.slots[c.slot].host.src)
	for e := range n {
		if c.Stops(c.ctx.Err()) {
			return
		}
		node := int(src[lo+e])
		op.ToLayout(s.layout, l.In, x, c.p.x[layer][node*in:(node+1)*in])
		if c.Stops(op.RefTensorProductGrad(s.products[layer], x, y[e*sh:(e+1)*sh], w[e*nw:(e+1)*nw], dmid, dx, dy[e*sh:(e+1)*sh], dw[e*nw:(e+1)*nw])) {
			return
		}
	}
	if c.Compare(stProductBack, s.back.of[layer].dw, lo*nw, dw); !s.computesForces() {
		return
	}
	add(dy, c.before[i])
	c.Compare(stProductBack, s.back.dy, lo*sh, dy)
	c.checkEuler(layer, i, w, y)
}

// checkEuler compares the sums of w.dw and of y.dy over a row's edges. The product z is linear in the weights w and in
// the harmonics y, so both equal the sum of z.dz.
func (c *checker) checkEuler(layer, i int, w, y []float64) {
	lo, n := c.edgesOf(i)
	if n == 0 {
		return
	}
	nw, sh := len(w)/n, len(y)/n
	dw := c.Read64(c.s.back.of[layer].dw, lo*nw, n*nw)
	dy := c.Read64(c.s.back.dy, lo*sh, n*sh)
	law := &c.laws[lawEuler]
	law.Used = true
	for e := range n {
		var byW, byY float64
		for k := e * nw; k < (e+1)*nw; k++ {
			byW += w[k] * dw[k]
		}
		for k := e * sh; k < (e+1)*sh; k++ {
			byY += y[k] * (dy[k] - c.before[i][k])
		}
		law.Diff += (byW - byY) * (byW - byY)
		law.Ref += byW * byW
	}
}

func (c *checker) radialBack(layer, i int) {
	s, nw := c.s, c.s.model.Layers[layer].TP.WeightNumel()
	lo, n := c.edgesOf(i)
	basis := c.Read64(s.basis, lo*basisSize, n*basisSize)
	dw := c.Read64(s.back.of[layer].dw, lo*nw, n*nw)
	if !s.computesForces() {
		c.hiddenBack(layer, i, basis, dw)
		return
	}
	db := make([]float64, n*basisSize)
	for e := range n {
		at := e * basisSize
		if c.Stops(op.RefMLPGrad(s.mlps[layer], basis[at:at+basisSize], c.p.w1[layer], c.p.w2[layer], dw[e*nw:(e+1)*nw], db[at:at+basisSize], nil, nil)) {
			return
		}
	}
	add(db, c.before[i])
	if c.Compare(stRadialBack, s.back.db, lo*basisSize, db); layer > 0 {
		return
	}
	db = c.Read64(s.back.db, lo*basisSize, n*basisSize)
	vec, slope := op.As[float64](device.Floats(s.slots[c.slot].host.vec)[3*lo:3*(lo+n)]), make([]float64, n)
	for e := range n {
		slope[e] = op.RefBasisGrad(s.radialBasis(), vec[3*e:3*e+3], db[e*basisSize:(e+1)*basisSize])
	}
	c.Compare(stRadialBack, s.back.slope, lo, slope)
}

func (c *checker) sphBack(i int) {
	s, sh := c.s, (c.s.model.LMax+1)*(c.s.model.LMax+1)
	lo, n := c.edgesOf(i)
	dy := c.Read64(s.back.dy, lo*sh, n*sh)
	slope := c.Read64(s.back.slope, lo, n)
	vec, f := op.As[float64](device.Floats(s.slots[c.slot].host.vec)[3*lo:3*(lo+n)]), make([]float64, 3*n)
	for e := range n {
		refEdge(op.Sph{LMax: s.model.LMax}, vec[3*e:3*e+3], dy[e*sh:(e+1)*sh], slope[e], f[3*e:3*e+3])
	}
	c.Compare(stSphBack, s.back.f, 3*lo, f)
}

// checkBack compares those results of a backward stage that depend on all rows, such as the energy and the forces.
func (c *checker) checkBack(so *stageOps) {
	s := c.s
	switch so.stage {
	case stLoss:
		rho := c.Read64(s.back.rho, 0, s.rows)
		sum := 0.0
		for r, v := range rho {
			if s.k.Trains() {
				off := v - c.targetOf(r)
				v = off * off / 2 / float64(s.rows)
			}
			sum += v
		}
		c.Compare(stLoss, s.back.energy, 0, []float64{sum})
	case stForces:
		c.checkForces()
		for i := range c.rows {
			c.edgeGradients(&c.laws[lawChain], i)
		}
	case stProductBack:
		if !s.computesForces() {
			c.checkFeatures(so)
		}
	case stGrads:
		c.weightGrads(so.layer)
	case stClip, stOptimizer:
		c.Stops(s.train.step.Verify(so.part, s.Compute, c.saved, &c.Errs[so.stage]))
	}
}

// checkForces compares the device's forces, which are sums over all edges, with sums on the host.
func (c *checker) checkForces() {
	s, host := c.s, c.s.slots[c.slot].host
	f := c.Read64(s.back.f, 0, 3*c.edges)
	first := len(s.in.crystal.Positions) // points of rows follow the atoms
	if s.in.atoms {
		first = int(s.in.batches[c.batch][0])
	}
	want := make([]float64, 3*s.points())
	src, dst := device.Ints(host.src), device.Ints(host.dst)
	for e := range c.edges {
		for k := range 3 {
			want[3*int(src[e])+k] -= f[3*e+k]
			want[3*(first+int(dst[e]))+k] += f[3*e+k]
		}
	}
	c.Compare(stForces, s.back.forces, 0, want)
	got := c.Read64(s.back.forces, 0, len(want))
	var sum [3]float64
	law := &c.laws[lawSum]
	for i, v := range got {
		sum[i%3] += v
		law.Ref += v * v
	}
	law.Diff += sum[0]*sum[0] + sum[1]*sum[1] + sum[2]*sum[2]
	law.Used = true
}

func (c *checker) edgeGradients(to *op.ErrorNorm, i int) {
	lo, n := c.edgesOf(i)
	got := c.Read(c.s.back.f, 3*lo, 3*n)
	to.Add(got, c.refs[i].f)
}

// checkBySource checks that perm lists the edges by source, in order within a source.
func (c *checker) checkBySource(sl *slot) {
	src, colptr, perm := device.Ints(sl.host.src), device.Ints(sl.host.colptr), device.Ints(sl.host.perm)
	atoms := len(c.s.in.crystal.Positions)
	ok := colptr[0] == 0 && int(colptr[atoms]) == c.edges
	for a := range atoms {
		for k := colptr[a]; ok && k < colptr[a+1]; k++ {
			ok = int(src[perm[k]]) == a && (k == colptr[a] || perm[k-1] < perm[k])
		}
	}
	if !ok {
		c.Errs[stCollate].Diff, c.Errs[stCollate].Used = math.Inf(1), true
	}
}
