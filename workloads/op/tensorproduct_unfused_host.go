package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

func tpGatherHost(a *device.Args, lo, hi int) {
	x, src, out, dim := a.Floats(0), a.Ints(1), a.Floats(2), a.Int(4)
	for e := lo; e < hi; e++ {
		copy(out[e*dim:(e+1)*dim], x[int(src[e])*dim:])
	}
}

func tpOuterHost(a *device.Args, lo, hi int) {
	inDim, shDim, xAt, yAt := a.Int(4), a.Int(5), a.Int(6), a.Int(7)
	m1, m2, d1, d2 := a.Int(8), a.Int(9), a.Int(10), a.Int(11)
	xu, xi, yv, yj, same := a.Int(12), a.Int(13), a.Int(14), a.Int(15), a.Int(16) != 0
	x, y, out := a.Floats(0), a.Floats(1), a.Floats(2)
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

func tpContractHost(a *device.Args, lo, hi int) {
	pairs, d12, d3, first, count := a.Int(5), a.Int(6), a.Int(7), a.Int(8), a.Int(9)
	outer, out := a.Floats(0), a.Floats(1)
	at, c := a.Ints(2)[2*first:2*(first+count)], a.Floats(3)[first:first+count]
	for n := lo * pairs; n < hi*pairs; n++ {
		o, z := outer[n*d12:(n+1)*d12], out[n*d3:(n+1)*d3]
		clear(z)
		for t, v := range c {
			z[at[2*t+1]] += v * o[at[2*t]]
		}
	}
}

// weightArgs holds the arguments of tpWeightHost, read once per call.
type weightArgs struct {
	m1, m2, mo, d3, mode, ou, ok int
	hasWeight                    bool
}

func tpWeightHost(a *device.Args, lo, hi int) {
	numel, wAt, outDim, oAt := a.Int(4), a.Int(5), a.Int(6), a.Int(7)
	s := weightArgs{m1: a.Int(8), m2: a.Int(9), mo: a.Int(10), d3: a.Int(11), mode: a.Int(12), ou: a.Int(13), ok: a.Int(14), hasWeight: wAt >= 0}
	add := a.Int(15) != 0
	z, mid := a.Floats(0), a.Floats(2)
	width := s.m1 * s.d3
	if s.mode != modeUUW && s.mode != modeUUU {
		width *= s.m2
	}
	for e := lo; e < hi; e++ {
		var w []float32
		if s.hasWeight {
			w = a.Floats(1)[e*numel+wAt : (e+1)*numel]
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

// weightPair adds the contraction z of copies (u, v) to the outputs that it feeds; so3.Mode has the shapes of the
// weights.
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
