package e3nn

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// forceLoss compares the gradient of the loss by every force, and the loss.
func (c *checker) forceLoss() error {
	s := c.s
	n := s.lossTerms()
	forces, err := c.wide(s.back.forces, 0, n)
	if err != nil {
		return err
	}
	scale, err := s.train.step.Scale(s.Compute)
	if err != nil {
		return err
	}
	v, loss := make([]float64, n), 0.0
	for i, f := range forces {
		off := f - float64(s.params.target[c.micro*n+i])
		v[i] = scale * off / float64(n)
		loss += off * off / 2 / float64(n)
	}
	if err := c.compare(stForceLoss, s.pull.v, 0, v); err != nil {
		return err
	}
	return c.compare(stForceLoss, s.back.energy, 0, []float64{loss})
}

// secondRow are the values of a checked row that the stages of the second way back are given.
type secondRow struct {
	c         *checker
	layer     int
	row       int
	lo, edges int
	err       error
}

// edge are the values of the row's edges, width each; row those of the row itself.
func (r *secondRow) edge(b device.Buffer, width int) []float64 {
	return r.at(b, r.lo*width, r.edges*width)
}
func (r *secondRow) of(b device.Buffer, width int) []float64 { return r.at(b, r.row*width, width) }

func (r *secondRow) at(b device.Buffer, at, n int) []float64 {
	v := make([]float64, n) // after an error too
	if r.err == nil {
		var got []float64
		got, r.err = r.c.wide(b, at, n)
		copy(v, got)
	}
	return v
}

func (r *secondRow) do(err error) {
	if r.err == nil {
		r.err = err
	}
}

// rowSecond compares what a stage of the second way back wrote for checked row i.
func (c *checker) rowSecond(so *stageOps, i int) error {
	r := &secondRow{c: c, layer: so.layer, row: c.rows[i]}
	r.lo, r.edges = c.edgesOf(i)
	switch so.stage {
	case stEdgeTangent:
		r.directions()
	case stRadialTangent:
		r.weightsChange()
	case stProductTangent:
		r.productChange()
	case stLinearGateTangent:
		r.gateChange()
	case stLinearGateSecond:
		r.gateSecond()
	case stProductSecond:
		r.productSecond()
	case stRadialSecond:
		r.hiddenSecond()
	}
	return r.err
}

func (r *secondRow) directions() {
	s, host := r.c.s, r.c.s.slots[r.c.slot].host
	src, dst, vec := device.Ints(host.src), device.Ints(host.dst), op.As[float64](device.Floats(host.vec)[3*r.lo:3*(r.lo+r.edges)])
	first := int(device.Ints(host.colptr)[len(s.in.crystal.Positions)+1])
	v, u := r.at(s.pull.v, 0, s.lossTerms()), make([]float64, 3*r.edges)
	for e := range r.edges {
		for k := range 3 {
			u[3*e+k] = v[3*(first+int(dst[r.lo+e]))+k] - v[3*int(src[r.lo+e])+k]
		}
	}
	r.do(r.c.compare(stEdgeTangent, s.pull.u, 3*r.lo, u))
	sph := op.Sph{LMax: s.model.LMax}
	given, db, dy := r.edge(s.pull.u, 3), make([]float64, r.edges*basisSize), make([]float64, r.edges*sph.Dim())
	for e := range r.edges {
		op.RefBasisTangent(s.radialBasis(), vec[3*e:3*e+3], given[3*e:3*e+3], db[e*basisSize:(e+1)*basisSize])
		op.RefSphTangent(sph, vec[3*e:3*e+3], given[3*e:3*e+3], dy[e*sph.Dim():(e+1)*sph.Dim()])
	}
	r.do(r.c.compare(stEdgeTangent, s.pull.db, r.lo*basisSize, db))
	r.do(r.c.compare(stEdgeTangent, s.pull.dy, r.lo*sph.Dim(), dy))
}

func (r *secondRow) weightsChange() {
	s, c := r.c.s, r.c
	nw := s.model.Layers[r.layer].TP.WeightNumel()
	b, db, dw := r.edge(s.basis, basisSize), r.edge(s.pull.db, basisSize), make([]float64, r.edges*nw)
	for e := range r.edges {
		at := e * basisSize
		r.do(op.RefMLPTangent(s.mlps[r.layer], b[at:at+basisSize], db[at:at+basisSize], c.p.w1[r.layer], c.p.w2[r.layer], dw[e*nw:(e+1)*nw]))
	}
	r.do(c.compare(stRadialTangent, s.pull.dw, r.lo*nw, dw))
}

func (r *secondRow) productChange() {
	s, c, l := r.c.s, r.c, r.c.s.model.Layers[r.layer]
	sh, nw, in := (s.model.LMax+1)*(s.model.LMax+1), l.TP.WeightNumel(), l.In.Dim()
	sum, half, x := make([]float64, l.TP.Out.Dim()), make([]float64, l.TP.Out.Dim()), make([]float64, r.edges*in)
	for e, node := range device.Ints(s.slots[c.slot].host.src)[r.lo : r.lo+r.edges] {
		op.ToLayout(s.layout, l.In, x[e*in:(e+1)*in], c.p.x[r.layer][int(node)*in:(int(node)+1)*in])
	}
	for _, of := range []gradTerm{{s.pull.dy, s.work[r.layer].w}, {s.harmonics, s.pull.dw}} {
		r.do(op.RefTensorProduct(s.changed(r.layer), x, r.edge(of.a, sh), r.edge(of.b, nw), half))
		add(sum, half)
	}
	r.do(c.compare(stProductTangent, s.pull.dmid, r.row*len(sum), sum))
}

func (r *secondRow) gateChange() {
	s, c, l := r.c.s, r.c, r.c.s.model.Layers[r.layer]
	dpre, dout := make([]float64, l.Linear.Out.Dim()), make([]float64, l.Out.Dim())
	op.RefLinear(l.Linear, r.of(s.pull.dmid, l.TP.Out.Dim()), c.p.mix[r.layer], dpre)
	r.do(c.compare(stLinearGateTangent, s.pull.dpre, r.row*len(dpre), dpre))
	r.do(op.RefGateTangent(l.Gate, r.of(s.work[r.layer].pre, len(dpre)), dpre, dout))
	r.do(c.compare(stLinearGateTangent, s.pull.dout, r.row*len(dout), dout))
}

func (r *secondRow) gateSecond() {
	s, c, l := r.c.s, r.c, r.c.s.model.Layers[r.layer]
	wide := l.Linear.Out.Dim()
	gpre, gmid := make([]float64, wide), make([]float64, l.TP.Out.Dim())
	r.do(op.RefGateSecond(l.Gate, r.of(s.work[r.layer].pre, wide), r.of(s.pull.dpre, wide), r.of(s.back.of[r.layer].dout, l.Out.Dim()), gpre))
	r.do(c.compare(stLinearGateSecond, s.pull.gpre, r.row*wide, gpre))
	op.RefLinearGrad(l.Linear, nil, c.p.mix[r.layer], gpre, gmid, nil)
	r.do(c.compare(stLinearGateSecond, s.pull.gmid, r.row*len(gmid), gmid))
}

func (r *secondRow) productSecond() {
	s, c, l := r.c.s, r.c, r.c.s.model.Layers[r.layer]
	in, sh, nw, mid := l.In.Dim(), (s.model.LMax+1)*(s.model.LMax+1), l.TP.WeightNumel(), l.TP.Out.Dim()
	gw, one, x, dx, dy := make([]float64, r.edges*nw), make([]float64, nw), make([]float64, in), make([]float64, in), make([]float64, sh)
	src := device.Ints(s.slots[c.slot].host.src)
	for _, term := range s.productTerms(r.layer) {
		if !term.weights {
			continue
		}
		y, w, dz := r.edge(term.y, sh), r.edge(term.w, nw), r.of(term.dz, mid)
		for e := range r.edges {
			node := int(src[r.lo+e])
			op.ToLayout(s.layout, l.In, x, c.p.x[r.layer][node*in:(node+1)*in])
			r.do(op.RefTensorProductGrad(s.products[r.layer], x, y[e*sh:(e+1)*sh], w[e*nw:(e+1)*nw], dz, dx, dy, one))
			add(gw[e*nw:(e+1)*nw], one)
		}
	}
	r.do(c.compare(stProductSecond, s.pull.gw, r.lo*nw, gw))
}

func (r *secondRow) hiddenSecond() {
	s, c := r.c.s, r.c
	nw := s.model.Layers[r.layer].TP.WeightNumel()
	b, db, gw, gdw := r.edge(s.basis, basisSize), r.edge(s.pull.db, basisSize), r.edge(s.pull.gw, nw), r.edge(s.back.of[r.layer].dw, nw)
	ga, gda := make([]float64, r.edges*mlpHidden), make([]float64, mlpHidden)
	for e := range r.edges {
		at := e * basisSize
		r.do(op.RefHiddenSecond(s.mlps[r.layer], b[at:at+basisSize], db[at:at+basisSize], c.p.w1[r.layer], c.p.w2[r.layer], gw[e*nw:(e+1)*nw], gdw[e*nw:(e+1)*nw],
			ga[e*mlpHidden:(e+1)*mlpHidden], gda))
	}
	r.do(c.compare(stRadialSecond, s.pull.ga, r.lo*mlpHidden, ga))
}
