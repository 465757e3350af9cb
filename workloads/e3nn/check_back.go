package e3nn

import (
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// A stage of the way back is checked from what it was given, read from the device.
// The whole way, from the batch alone, is a check of its own, as are identities that
// hold whatever the parameters.
const (
	lawChain    = iota // every edge's gradient, or that of its hidden layers, from the batch and the parameters alone
	lawSum             // forces sum to 0
	lawEuler           // w.dw = y.dy on every edge
	lawFeatures        // see featureLaw
	lawCount
)

// chainBound is the tolerance of the whole way back in float32, some twenty
// operations one after the other; PyTorch in float32 is off by 1.4e-6.
const chainBound = 1e-4

// chainTolerance is that of the way to a value and back: its products round their inputs twice as
// often as those of a layer.
func (s *session) chainTolerance() float64 {
	return max(chainBound, 2*tolerances[s.set["precision"]])
}

// lawChecks are the checks that belong to no stage.
func (c *checker) lawChecks() []gpuprof.Check {
	var out []gpuprof.Check
	for i, law := range []struct {
		name      string
		tolerance float64
	}{{"gradient of the whole step", c.s.chainTolerance()}, {"sum of forces", fp32Tolerance}, {"w.dw = y.dy", fp32Tolerance}, {c.s.featureLaw(), fp32Tolerance}} {
		if e := c.laws[i]; e.Used {
			out = append(out, loop.CheckOf(law.name, e.Relative(), law.tolerance, len(c.rows), c.s.rows))
		}
	}
	return out
}

// edgesOf is the range of a checked row's edges.
func (c *checker) edgesOf(i int) (lo, n int) {
	rowptr := device.Ints(c.s.slots[c.slot].host.rowptr)
	lo = int(rowptr[c.rows[i]])
	return lo, int(rowptr[c.rows[i]+1]) - lo
}

// wide reads n values of a device buffer as float64.
func (c *checker) wide(b device.Buffer, at, n int) ([]float64, error) {
	v, err := c.read(b, at, n)
	return op.As[float64](v), err
}

// snapshot keeps the gradients of the checked rows' edges that a stage adds to.
func (c *checker) snapshot(so *stageOps) error {
	b, width := c.s.back.dy, (c.s.model.LMax+1)*(c.s.model.LMax+1)
	switch {
	case !c.s.pulls() || c.s.second() && so.stage != stProductBack && so.stage != stRadialBack:
		return c.snapshotTraining(so)
	case so.stage == stRadialBack:
		b, width = c.s.back.db, basisSize
	case so.stage != stProductBack:
		return nil
	}
	c.before = make([][]float64, len(c.rows))
	for i := range c.rows {
		lo, n := c.edgesOf(i)
		if c.s.first(so.layer) {
			c.before[i] = make([]float64, n*width)
			continue
		}
		var err error
		if c.before[i], err = c.wide(b, lo*width, n*width); err != nil {
			return err
		}
	}
	return nil
}

// rowBack compares what a stage of the way back wrote for checked row i.
func (c *checker) rowBack(so *stageOps, i int) error {
	switch so.stage {
	case stLoss:
		if err := c.compare(stLoss, c.s.back.rho, c.rows[i], []float64{c.refs[i].rho}); err != nil || !c.s.trains() {
			return err
		}
		return c.residual(c.rows[i])
	case stRecompute:
		return c.recomputed(so.layer, i)
	case stLinearGateBack:
		l, r := c.s.model.Layers[so.layer], c.rows[i]
		pre, err := c.wide(c.s.work[so.layer].pre, r*l.Linear.Out.Dim(), l.Linear.Out.Dim())
		if err != nil {
			return err
		}
		drho, err := c.wide(c.s.back.drho, r, 1)
		if err != nil {
			return err
		}
		dmid, err := c.s.refGateLinear(so.layer, pre, drho[0], c.p)
		if err != nil {
			return err
		}
		return c.compare(stLinearGateBack, c.s.back.of[so.layer].dmid, r*len(dmid), dmid)
	case stProductBack:
		return c.productBack(so.layer, i)
	case stRadialBack:
		return c.radialBack(so.layer, i)
	case stSphBack:
		return c.sphBack(i)
	}
	return c.rowSecond(so, i)
}

// recomputed compares what was made again with what the forward pass should have.
func (c *checker) recomputed(layer, i int) error {
	lo, _ := c.edgesOf(i)
	ref, k := c.refs[i].layers[layer], c.s.work[layer]
	if err := c.compare(stRecompute, k.w, lo*c.s.model.Layers[layer].TP.WeightNumel(), ref.w); err != nil {
		return err
	}
	if c.s.set["recompute"] != recomputeAll {
		return nil
	}
	return c.compare(stRecompute, k.pre, c.rows[i]*len(ref.pre), ref.pre)
}

func (c *checker) productBack(layer, i int) error {
	s, l := c.s, c.s.model.Layers[layer]
	lo, n := c.edgesOf(i)
	in, sh, nw, mid := l.In.Dim(), (s.model.LMax+1)*(s.model.LMax+1), l.TP.WeightNumel(), l.TP.Out.Dim()
	y, err := c.wide(s.harmonics, lo*sh, n*sh)
	if err != nil {
		return err
	}
	w, err := c.wide(s.work[layer].w, lo*nw, n*nw)
	if err != nil {
		return err
	}
	dmid, err := c.wide(s.back.of[layer].dmid, c.rows[i]*mid, mid)
	if err != nil {
		return err
	}
	dw, dy := make([]float64, n*nw), make([]float64, n*sh)
	x, dx := make([]float64, in), make([]float64, in)
	src := device.Ints(s.slots[c.slot].host.src)
	for e := range n {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		node := int(src[lo+e])
		op.ToLayout(s.layout, l.In, x, c.p.x[layer][node*in:(node+1)*in])
		if err := op.RefTensorProductGrad(s.products[layer], x, y[e*sh:(e+1)*sh], w[e*nw:(e+1)*nw], dmid, dx, dy[e*sh:(e+1)*sh], dw[e*nw:(e+1)*nw]); err != nil {
			return err
		}
	}
	if err := c.compare(stProductBack, s.back.of[layer].dw, lo*nw, dw); err != nil || !s.pulls() {
		return err
	}
	add(dy, c.before[i])
	if err := c.compare(stProductBack, s.back.dy, lo*sh, dy); err != nil {
		return err
	}
	return c.euler(layer, i, w, y)
}

// euler adds up w.dw - y.dy of a row's edges. The product is linear in both, so both
// are z.dz.
func (c *checker) euler(layer, i int, w, y []float64) error {
	lo, n := c.edgesOf(i)
	if n == 0 {
		return nil
	}
	nw, sh := len(w)/n, len(y)/n
	dw, err := c.wide(c.s.back.of[layer].dw, lo*nw, n*nw)
	if err != nil {
		return err
	}
	dy, err := c.wide(c.s.back.dy, lo*sh, n*sh)
	if err != nil {
		return err
	}
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
	return nil
}

func (c *checker) radialBack(layer, i int) error {
	s, nw := c.s, c.s.model.Layers[layer].TP.WeightNumel()
	lo, n := c.edgesOf(i)
	basis, err := c.wide(s.basis, lo*basisSize, n*basisSize)
	if err != nil {
		return err
	}
	dw, err := c.wide(s.back.of[layer].dw, lo*nw, n*nw)
	if err != nil {
		return err
	}
	if !s.pulls() {
		return c.hiddenBack(layer, i, basis, dw)
	}
	db := make([]float64, n*basisSize)
	for e := range n {
		at := e * basisSize
		if err := op.RefMLPGrad(s.mlps[layer], basis[at:at+basisSize], c.p.w1[layer], c.p.w2[layer], dw[e*nw:(e+1)*nw], db[at:at+basisSize], nil, nil); err != nil {
			return err
		}
	}
	add(db, c.before[i])
	if err := c.compare(stRadialBack, s.back.db, lo*basisSize, db); err != nil || layer > 0 {
		return err
	}
	if db, err = c.wide(s.back.db, lo*basisSize, n*basisSize); err != nil {
		return err
	}
	vec, slope := op.As[float64](device.Floats(s.slots[c.slot].host.vec)[3*lo:3*(lo+n)]), make([]float64, n)
	for e := range n {
		slope[e] = op.RefBasisGrad(s.radialBasis(), vec[3*e:3*e+3], db[e*basisSize:(e+1)*basisSize])
	}
	return c.compare(stRadialBack, s.back.slope, lo, slope)
}

func (c *checker) sphBack(i int) error {
	s, sh := c.s, (c.s.model.LMax+1)*(c.s.model.LMax+1)
	lo, n := c.edgesOf(i)
	dy, err := c.wide(s.back.dy, lo*sh, n*sh)
	if err != nil {
		return err
	}
	slope, err := c.wide(s.back.slope, lo, n)
	if err != nil {
		return err
	}
	vec, f := op.As[float64](device.Floats(s.slots[c.slot].host.vec)[3*lo:3*(lo+n)]), make([]float64, 3*n)
	for e := range n {
		refEdge(op.Sph{LMax: s.model.LMax}, vec[3*e:3*e+3], dy[e*sh:(e+1)*sh], slope[e], f[3*e:3*e+3])
	}
	return c.compare(stSphBack, s.back.f, 3*lo, f)
}

// allBack compares what a stage of the way back made of all rows: the energy and the
// forces, and with these the whole way to them.
func (c *checker) allBack(so *stageOps) error {
	s := c.s
	switch so.stage {
	case stLoss:
		rho, err := c.wide(s.back.rho, 0, s.rows)
		if err != nil {
			return err
		}
		sum := 0.0
		for r, v := range rho {
			if s.trains() {
				off := v - c.target(r)
				v = off * off / 2 / float64(s.rows)
			}
			sum += v
		}
		return c.compare(stLoss, s.back.energy, 0, []float64{sum})
	case stForces:
		if err := c.forces(); err != nil {
			return err
		}
		for i := range c.rows {
			if err := c.edgeGradients(&c.laws[lawChain], i); err != nil {
				return err
			}
		}
	case stProductBack:
		if !s.pulls() {
			return c.features(so)
		}
	case stForceLoss:
		return c.forceLoss()
	case stProductSecond:
		return c.features(so)
	case stGrads:
		return c.weightGrads(so.layer)
	case stClip, stOptimizer:
		return c.optimized(so)
	}
	return nil
}

// forces compares the sums over all edges, and adds them up themselves.
func (c *checker) forces() error {
	s, host := c.s, c.s.slots[c.slot].host
	f, err := c.wide(s.back.f, 0, 3*c.edges)
	if err != nil {
		return err
	}
	first := len(s.in.crystal.Positions) // the points of the rows follow the atoms
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
	if err := c.compare(stForces, s.back.forces, 0, want); err != nil {
		return err
	}
	got, err := c.wide(s.back.forces, 0, len(want))
	if err != nil {
		return err
	}
	var sum [3]float64
	law := &c.laws[lawSum]
	for i, v := range got {
		sum[i%3] += v
		law.Ref += v * v
	}
	law.Diff += sum[0]*sum[0] + sum[1]*sum[1] + sum[2]*sum[2]
	law.Used = true
	return nil
}

// edgeGradients adds up how far the gradients of a checked row's edges are from the
// reference's.
func (c *checker) edgeGradients(to *op.ErrorNorm, i int) error {
	lo, n := c.edgesOf(i)
	got, err := c.read(c.s.back.f, 3*lo, 3*n)
	if err != nil {
		return err
	}
	to.Add(got, c.refs[i].f)
	return nil
}

// bySource checks the edges by source against their definition.
func (c *checker) bySource(sl *slot) {
	src, colptr, perm := device.Ints(sl.host.src), device.Ints(sl.host.colptr), device.Ints(sl.host.perm)
	atoms := len(c.s.in.crystal.Positions)
	ok := colptr[0] == 0 && int(colptr[atoms]) == c.edges
	for a := range atoms {
		for k := colptr[a]; ok && k < colptr[a+1]; k++ {
			ok = int(src[perm[k]]) == a && (k == colptr[a] || perm[k-1] < perm[k])
		}
	}
	if !ok {
		c.errs[stCollate].Diff, c.errs[stCollate].Used = math.Inf(1), true
	}
}
