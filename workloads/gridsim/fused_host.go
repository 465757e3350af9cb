package gridsim

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// scratch is one thread's memory for values that a GPU keeps in registers.
type scratch struct{ a, b []float32 }

// spare keeps scratch between launches: one for each thread that ran at the same time.
var spare = make(chan *scratch, 1024)

// takeScratch returns slices of na and nb values with undefined content.
func takeScratch(na, nb int) *scratch {
	var s *scratch
	select {
	case s = <-spare:
	default:
		s = new(scratch)
	}
	if cap(s.a) < na {
		s.a = make([]float32, na)
	}
	if cap(s.b) < nb {
		s.b = make([]float32, nb)
	}
	s.a, s.b = s.a[:na], s.b[:nb]
	return s
}

func (s *scratch) giveBack() {
	select {
	case spare <- s:
	default:
	}
}

// law is the network in the form that fusedHost reads.
type law struct {
	w         []float32
	at        packedAt
	c, h      int
	precision string
	identity  bool
	normalise bool
	tau       float32
}

func fusedHost(args *device.Args, lo, hi int) {
	a := device.View[gridFusedView](args)
	n, tile := a.N.Int(), a.tileCells.Int()
	g := grid{v: a.psi.Floats()[a.psiAt.Int():], n: n, c: a.C.Int(), hwc: a.hwc.Bool(), zero: a.zero.Bool()}
	l := law{w: a.weights.Floats(), at: packedOf(a.C.Int(), a.H.Int()), c: a.C.Int(), h: a.H.Int(), normalise: a.normalise.Bool(), identity: a.identity.Bool(),
		precision: precisions[a.precision.Int()], tau: a.tau.F32()}
	out := grid{v: a.out.Floats()[a.outAt.Int():], n: n, c: g.c, hwc: g.hwc}
	s := takeScratch(2*l.c*tile, (l.h+l.c)*tile)
	for at := lo * tile; at < min(hi*tile, n*n); at += tile {
		to := min(at+tile, n*n)
		if g.hwc {
			l.computeRows(g, out, s, at, to)
		} else {
			l.computePlanes(g, out, s, at, to)
		}
	}
	s.giveBack()
}

// computePlanes computes cells [lo, hi) of a state in planes (chw).
func (l *law) computePlanes(g, out grid, s *scratch, lo, hi int) {
	m := hi - lo
	p, hidden, delta := s.a[:2*l.c*m], s.b[:l.h*m], s.b[l.h*m:(l.h+l.c)*m]
	from, to := g.fieldFrom(lo), out.fieldFrom(lo)
	for k := range l.c {
		copy(p[k*m:], from.lane(k, 0, m))
	}
	g.neighbourMeans(p[l.c*m:], m, lo, hi)
	op.RoundTo(l.precision, p)
	for k := range l.h {
		vec.Fill(hidden[k*m:(k+1)*m], l.w[l.at.b1+k])
	}
	vec.Gemm(l.h, m, 2*l.c, 1, l.w[l.at.w1:], 2*l.c, p, m, hidden, m)
	l.activate(hidden)
	for k := range l.c {
		vec.Fill(delta[k*m:(k+1)*m], l.w[l.at.b2+k])
	}
	vec.Gemm(l.c, m, l.h, 1, l.w[l.at.w2:], l.h, hidden, m, delta, m)
	for k := range l.c {
		lane := to.lane(k, 0, m)
		copy(lane, from.lane(k, 0, m))
		vec.Axpy(l.tau, delta[k*m:(k+1)*m], lane)
	}
	if l.normalise {
		lengths := hidden[:m]
		clear(lengths)
		addSquares(to, lengths, 0, m)
		vec.InvSqrt(lengths, tiny)
		for k := range l.c {
			lane := to.lane(k, 0, m)
			vec.Mul(lane, lane, lengths)
		}
	}
}

// computeRows computes cells [lo, hi) of a state with channels last (hwc).
func (l *law) computeRows(g, out grid, s *scratch, lo, hi int) {
	m, c := hi-lo, l.c
	p, hidden, delta := s.a[:2*c*m], s.b[:l.h*m], s.b[l.h*m:(l.h+c)*m]
	g.neighbourMeans(delta, 0, lo, hi)
	for i := range m {
		copy(p[2*i*c:], g.v[(lo+i)*c:(lo+i+1)*c])
		copy(p[(2*i+1)*c:(2*i+2)*c], delta[i*c:])
		copy(hidden[i*l.h:], l.w[l.at.b1:][:l.h])
	}
	op.RoundTo(l.precision, p)
	vec.Gemm(m, l.h, 2*c, 1, p, 2*c, l.w[l.at.w1T:], l.h, hidden, l.h)
	l.activate(hidden)
	for i := range m {
		copy(delta[i*c:], l.w[l.at.b2:][:c])
	}
	vec.Gemm(m, c, l.h, 1, hidden, l.h, l.w[l.at.w2T:], c, delta, c)
	to := out.fieldFrom(lo)
	lane := to.lane(0, 0, m)
	copy(lane, g.fieldFrom(lo).lane(0, 0, m))
	vec.Axpy(l.tau, delta, lane)
	if l.normalise {
		normaliseCells(to, 0, m)
	}
}

// activate applies elu, and rounds the input of the second product.
func (l *law) activate(hidden []float32) {
	if !l.identity {
		vec.Elu(hidden)
	}
	op.RoundTo(l.precision, hidden)
}

func productHost(args *device.Args, lo, hi int) {
	a := device.View[gridProductView](args)
	k, m, cells, hwc, precision, tile := a.K.Int(), a.M.Int(), a.cells.Int(), a.hwc.Bool(), precisions[a.precision.Int()], a.tile.Int()
	x, out := fieldOf(a.x, a.xAt, a.xCs.Int(), k, hwc), fieldOf(a.out, a.outAt, a.outCs.Int(), m, hwc)
	w := a.weights.Floats()[a.wAt.Int():]
	s := takeScratch(k*tile, 0)
	for at := lo * tile; at < min(hi*tile, cells); at += tile {
		to := min(at+tile, cells)
		n := to - at
		left, stride := x.v[x.offsetOf(0, at):], x.cs
		if precision != op.FP32 {
			left, stride = s.a, n
			for l := range x.laneCount() {
				copy(s.a[l*n:], x.lane(l, at, to))
			}
			op.RoundTo(precision, s.a[:k*n])
		}
		for l := range out.laneCount() {
			clear(out.lane(l, at, to))
		}
		if hwc {
			vec.Gemm(n, m, k, 1, left, k, w, m, out.v[out.offsetOf(0, at):], m)
		} else {
			vec.Gemm(m, n, k, 1, w, k, left, stride, out.v[at:], out.cs)
		}
	}
	s.giveBack()
}
