package e3nn

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// forceLoss compares the gradient of the loss by every force, and the loss.
func (c *checker) forceLoss() error {
	s := c.s
	n := s.lossTerms()
	forces, err := c.readWide(s.back.forces, 0, n)
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
	if err := c.compareBuffer(stForceLoss, s.pull.v, 0, v); err != nil {
		return err
	}
	return c.compareBuffer(stForceLoss, s.back.energy, 0, []float64{loss})
}

// secondRow reads for a checked row the inputs of the stages of the second backward pass.
type secondRow struct {
	c         *checker
	layer     int
	row       int
	lo, edges int
	err       error
}

// readEdges reads the values of the row's edges, width each; readRow reads the values of the row itself.
func (r *secondRow) readEdges(b device.Buffer, width int) []float64 {
	return r.readAt(b, r.lo*width, r.edges*width)
}
func (r *secondRow) readRow(b device.Buffer, width int) []float64 {
	return r.readAt(b, r.row*width, width)
}

func (r *secondRow) readAt(b device.Buffer, at, n int) []float64 {
	v := make([]float64, n) // after an error too
	if r.err == nil {
		var got []float64
		got, r.err = r.c.readWide(b, at, n)
		copy(v, got)
	}
	return v
}

func (r *secondRow) keepError(err error) {
	if r.err == nil {
		r.err = err
	}
}

// rowSecond compares the results of a stage of the second backward pass for checked row i.
func (c *checker) rowSecond(so *stageOps, i int) error {
	r := &secondRow{c: c, layer: so.layer, row: c.rows[i]}
	r.lo, r.edges = c.edgesOf(i)
	switch so.stage {
	case stEdgeTangent:
		r.checkDirections()
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

func (r *secondRow) checkDirections() {
	s, host := r.c.s, r.c.s.slots[r.c.slot].host
	src, dst, vec := device.Ints(host.src), device.Ints(host.dst), op.As[float64](device.Floats(host.vec)[3*r.lo:3*(r.lo+r.edges)])
	first := int(device.Ints(host.colptr)[len(s.in.crystal.Positions)+1])
	v, u := r.readAt(s.pull.v, 0, s.lossTerms()), make([]float64, 3*r.edges)
	for e := range r.edges {
		for k := range 3 {
			u[3*e+k] = v[3*(first+int(dst[r.lo+e]))+k] - v[3*int(src[r.lo+e])+k]
		}
	}
	r.keepError(r.c.compareBuffer(stEdgeTangent, s.pull.u, 3*r.lo, u))
	sph := op.Sph{LMax: s.model.LMax}
	given, db, dy := r.readEdges(s.pull.u, 3), make([]float64, r.edges*basisSize), make([]float64, r.edges*sph.Dim())
	for e := range r.edges {
		op.RefBasisTangent(s.radialBasis(), vec[3*e:3*e+3], given[3*e:3*e+3], db[e*basisSize:(e+1)*basisSize])
		op.RefSphTangent(sph, vec[3*e:3*e+3], given[3*e:3*e+3], dy[e*sph.Dim():(e+1)*sph.Dim()])
	}
	r.keepError(r.c.compareBuffer(stEdgeTangent, s.pull.db, r.lo*basisSize, db))
	r.keepError(r.c.compareBuffer(stEdgeTangent, s.pull.dy, r.lo*sph.Dim(), dy))
}

func (r *secondRow) weightsChange() {
	s, c := r.c.s, r.c
	nw := s.model.Layers[r.layer].TP.WeightNumel()
	b, db, dw := r.readEdges(s.basis, basisSize), r.readEdges(s.pull.db, basisSize), make([]float64, r.edges*nw)
	for e := range r.edges {
		at := e * basisSize
		r.keepError(op.RefMLPTangent(s.mlps[r.layer], b[at:at+basisSize], db[at:at+basisSize], c.p.w1[r.layer], c.p.w2[r.layer], dw[e*nw:(e+1)*nw]))
	}
	r.keepError(c.compareBuffer(stRadialTangent, s.pull.dw, r.lo*nw, dw))
}

func (r *secondRow) productChange() {
	s, c, l := r.c.s, r.c, r.c.s.model.Layers[r.layer]
	sh, nw, in := (s.model.LMax+1)*(s.model.LMax+1), l.TP.WeightNumel(), l.In.Dim()
	sum, half, x := make([]float64, l.TP.Out.Dim()), make([]float64, l.TP.Out.Dim()), make([]float64, r.edges*in)
	for e, node := range device.Ints(s.slots[c.slot].host.src)[r.lo : r.lo+r.edges] {
		op.ToLayout(s.layout, l.In, x[e*in:(e+1)*in], c.p.x[r.layer][int(node)*in:(int(node)+1)*in])
	}
	for _, of := range []gradTerm{{s.pull.dy, s.work[r.layer].w}, {s.harmonics, s.pull.dw}} {
		r.keepError(op.RefTensorProduct(s.changeProduct(r.layer), x, r.readEdges(of.a, sh), r.readEdges(of.b, nw), half))
		add(sum, half)
	}
	r.keepError(c.compareBuffer(stProductTangent, s.pull.dmid, r.row*len(sum), sum))
}

func (r *secondRow) gateChange() {
	s, c, l := r.c.s, r.c, r.c.s.model.Layers[r.layer]
	dpre, dout := make([]float64, l.Linear.Out.Dim()), make([]float64, l.Out.Dim())
	op.RefLinear(l.Linear, r.readRow(s.pull.dmid, l.TP.Out.Dim()), c.p.mix[r.layer], dpre)
	r.keepError(c.compareBuffer(stLinearGateTangent, s.pull.dpre, r.row*len(dpre), dpre))
	r.keepError(op.RefGateTangent(l.Gate, r.readRow(s.work[r.layer].pre, len(dpre)), dpre, dout))
	r.keepError(c.compareBuffer(stLinearGateTangent, s.pull.dout, r.row*len(dout), dout))
}

func (r *secondRow) gateSecond() {
	s, c, l := r.c.s, r.c, r.c.s.model.Layers[r.layer]
	wide := l.Linear.Out.Dim()
	gpre, gmid := make([]float64, wide), make([]float64, l.TP.Out.Dim())
	r.keepError(op.RefGateSecond(l.Gate, r.readRow(s.work[r.layer].pre, wide), r.readRow(s.pull.dpre, wide), r.readRow(s.back.of[r.layer].dout, l.Out.Dim()), gpre))
	r.keepError(c.compareBuffer(stLinearGateSecond, s.pull.gpre, r.row*wide, gpre))
	op.RefLinearGrad(l.Linear, nil, c.p.mix[r.layer], gpre, gmid, nil)
	r.keepError(c.compareBuffer(stLinearGateSecond, s.pull.gmid, r.row*len(gmid), gmid))
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
		y, w, dz := r.readEdges(term.y, sh), r.readEdges(term.w, nw), r.readRow(term.dz, mid)
		for e := range r.edges {
			node := int(src[r.lo+e])
			op.ToLayout(s.layout, l.In, x, c.p.x[r.layer][node*in:(node+1)*in])
			r.keepError(op.RefTensorProductGrad(s.products[r.layer], x, y[e*sh:(e+1)*sh], w[e*nw:(e+1)*nw], dz, dx, dy, one))
			add(gw[e*nw:(e+1)*nw], one)
		}
	}
	r.keepError(c.compareBuffer(stProductSecond, s.pull.gw, r.lo*nw, gw))
}

func (r *secondRow) hiddenSecond() {
	s, c := r.c.s, r.c
	nw := s.model.Layers[r.layer].TP.WeightNumel()
	b, db, gw, gdw := r.readEdges(s.basis, basisSize), r.readEdges(s.pull.db, basisSize), r.readEdges(s.pull.gw, nw), r.readEdges(s.back.of[r.layer].dw, nw)
	ga, gda := make([]float64, r.edges*mlpHidden), make([]float64, mlpHidden)
	for e := range r.edges {
		at := e * basisSize
		r.keepError(op.RefHiddenSecond(s.mlps[r.layer], b[at:at+basisSize], db[at:at+basisSize], c.p.w1[r.layer], c.p.w2[r.layer], gw[e*nw:(e+1)*nw], gdw[e*nw:(e+1)*nw],
			ga[e*mlpHidden:(e+1)*mlpHidden], gda))
	}
	r.keepError(c.compareBuffer(stRadialSecond, s.pull.ga, r.lo*mlpHidden, ga))
}
