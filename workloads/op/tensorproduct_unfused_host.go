package op

import "github.com/gpuprof/gpuprof/workloads/device"

func tpGatherHost(args *device.Args, lo, hi int) {
	a := device.View[tpGatherView](args)
	x, src, out, dim := a.x.Floats(), a.src.Ints(), a.out.Floats(), a.dim.Int()
	for e := lo; e < hi; e++ {
		copy(out[e*dim:(e+1)*dim], x[int(src[e])*dim:])
	}
}

func tpOuterHost(args *device.Args, lo, hi int) {
	a := device.View[tpOuterView](args)
	inDim, shDim, xAt, yAt := a.inDim.Int(), a.shDim.Int(), a.xAt.Int(), a.yAt.Int()
	m1, m2, d1, d2 := a.m1.Int(), a.m2.Int(), a.d1.Int(), a.d2.Int()
	xu, xi, yv, yj, same := a.xu.Int(), a.xi.Int(), a.yv.Int(), a.yj.Int(), a.same.Int() != 0
	x, y, out := a.x.Floats(), a.y.Floats(), a.out.Floats()
	pairs := m1 * m2
	if same {
		pairs = m1
	}
	for e := lo; e < hi; e++ {
		xr, yr := x[e*inDim+xAt:(e+1)*inDim], y[e*shDim+yAt:(e+1)*shDim]
		o := out[e*pairs*d1*d2 : (e+1)*pairs*d1*d2]
		for u := range m1 {
			v, end := 0, m2
			if same {
				v, end = u, u+1
			}
			for ; v < end; v++ {
				for i := range d1 {
					xv := xr[u*xu+i*xi]
					for j := range d2 {
						o[j] = xv * yr[v*yv+j*yj]
					}
					o = o[d2:]
				}
			}
		}
	}
}

func tpContractHost(args *device.Args, lo, hi int) {
	a := device.View[tpContractView](args)
	pairs, d12, d3, first, count := a.pairs.Int(), a.d12.Int(), a.d3.Int(), a.first.Int(), a.number.Int()
	outer, out := a.outer.Floats(), a.out.Floats()
	at, c := a.terms.Ints()[2*first:2*(first+count)], a.values.Floats()[first:first+count]
	for n := lo * pairs; n < hi*pairs; n++ {
		o, z := outer[n*d12:(n+1)*d12], out[n*d3:(n+1)*d3]
		clear(z)
		for t, v := range c {
			z[at[2*t+1]] += v * o[at[2*t]]
		}
	}
}

// weightArgs holds the arguments of tpWeightHost, decoded once per call.
type weightArgs struct {
	m1, m2, mo, d3, mode, ou, ok int
	hasWeight                    bool
}

func tpWeightHost(args *device.Args, lo, hi int) {
	a := device.View[tpWeightView](args)
	numel, wAt, outDim, oAt := a.numel.Int(), a.wAt.Int(), a.outDim.Int(), a.oAt.Int()
	s := weightArgs{m1: a.m1.Int(), m2: a.m2.Int(), mo: a.mo.Int(), d3: a.d3.Int(), mode: a.mode.Int(), ou: a.ou.Int(), ok: a.ok.Int(), hasWeight: wAt >= 0}
	add := a.add.Int() != 0
	z, mid := a.z.Floats(), a.mid.Floats()
	width := s.m1 * s.d3
	if s.mode != modeUUW && s.mode != modeUUU {
		width *= s.m2
	}
	for e := lo; e < hi; e++ {
		var w []float32
		if s.hasWeight {
			w = a.w.Floats()[e*numel+wAt : (e+1)*numel]
		}
		out := mid[e*outDim+oAt:][:s.mo*s.d3]
		if !add {
			clear(out)
		}
		s.weightEdge(z[e*width:(e+1)*width], w, out)
	}
}

func (s *weightArgs) weightEdge(z, w, out []float32) {
	same := s.mode == modeUUW || s.mode == modeUUU
	for u := range s.m1 {
		v, end := 0, s.m2
		if same {
			v, end = u, u+1
		}
		for ; v < end; v++ {
			s.weightPair(u, v, z[:s.d3], w, out)
			z = z[s.d3:]
		}
	}
}

// weightPair multiplies z, the contraction of copy u of the first input with copy v of the second, by its weights (1
// without weights). It adds the products to the output copies that the mode couples to (u, v). so3.Mode has the shapes
// of the weights.
func (s *weightArgs) weightPair(u, v int, z, w, out []float32) {
	first, n, wAt := 0, 1, 0
	switch s.mode {
	case modeUVW:
		n, wAt = s.mo, (u*s.m2+v)*s.mo
	case modeUVU:
		first, wAt = u, u*s.m2+v
	case modeUVV:
		first, wAt = v, u*s.m2+v
	case modeUUW:
		n, wAt = s.mo, u*s.mo
	case modeUUU:
		first, wAt = u, u
	}
	for o := range n {
		f := float32(1)
		if s.hasWeight {
			f = w[wAt+o]
		}
		at := (first + o) * s.ou
		for k, zk := range z {
			out[at+k*s.ok] += f * zk
		}
	}
}
