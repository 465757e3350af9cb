package gridsim

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/op"
)

// reference computes the law in float64, cell by cell, independent of the layout of the device's arrays.
type reference struct {
	s              shape
	w1, b1, w2, b2 []float64
}

func newReference(s shape, w weights) reference {
	return reference{s, op.As[float64](w.w1), op.As[float64](w.b1), op.As[float64](w.w2), op.As[float64](w.b2)}
}

// state returns channel c of cell i of a whole state.
type state func(c, i int) float64

// outside is the number of a neighbour beyond a zero border.
const outside = -1

// neighbour returns the number of the cell at distance (dy, dx) from cell i, or outside.
func (r reference) neighbour(i, dy, dx int) int {
	n := r.s.N
	y, x := i/n+dy, i%n+dx
	if r.s.zero && (y < 0 || y >= n || x < 0 || x >= n) {
		return outside
	}
	return (y+n)%n*n + (x+n)%n
}

func (r reference) neighbourMean(psi state, c, i int) float64 {
	sum := 0.0
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			if j := r.neighbour(i, dy, dx); (dy != 0 || dx != 0) && j != outside {
				sum += psi(c, j)
			}
		}
	}
	return sum / 8
}

func (r reference) hiddenLayer(p []float64) []float64 { return multiply(r.w1, p, r.s.H) }

func (r reference) outputLayer(h []float64) []float64 { return multiply(r.w2, h, r.s.C) }

func multiply(w, x []float64, rows int) []float64 {
	out := make([]float64, rows)
	for i := range out {
		for j, v := range x {
			out[i] += w[i*len(x)+j] * v
		}
	}
	return out
}

func (r reference) activation(a []float64) []float64 {
	out := make([]float64, len(a))
	for i, v := range a {
		if out[i] = v + r.b1[i]; out[i] <= 0 && !r.s.identity {
			out[i] = math.Expm1(out[i])
		}
	}
	return out
}

func (r reference) update(psi, delta []float64) []float64 {
	out := make([]float64, len(psi))
	for i, v := range psi {
		out[i] = v + float64(r.s.tau)*(delta[i]+r.b2[i])
	}
	return out
}

// lengthOf returns sqrt(sum u^2 + tiny).
func lengthOf(u []float64) float64 {
	sum := 0.0
	for _, v := range u {
		sum += v * v
	}
	return math.Sqrt(sum + tiny)
}

// unitVector returns u divided by its length, or u if the law does not normalise.
func (r reference) unitVector(u []float64) []float64 {
	if !r.s.normalise {
		return u
	}
	l := lengthOf(u)
	out := make([]float64, len(u))
	for i, v := range u {
		out[i] = v / l
	}
	return out
}

func (r reference) nextCell(psi state, i int) []float64 {
	c := r.s.C
	here := make([]float64, 2*c)
	for k := range c {
		here[k] = psi(k, i)
		if r.s.law != lawWalk {
			here[c+k] = r.neighbourMean(psi, k, i)
		}
	}
	switch r.s.law {
	case lawWalk:
		return r.walk(psi, i, true, true)
	case lawDiffuse:
		return r.relax(here[:c], here[c:])
	}
	return r.unitVector(r.update(here[:c], r.outputLayer(r.activation(r.hiddenLayer(here)))))
}

func (r reference) relax(psi, k []float64) []float64 {
	out := make([]float64, len(psi))
	for i, v := range psi {
		out[i] = v + float64(r.s.tau)*(k[i]-v)
	}
	return out
}

// walk rotates each pair of channels and moves its two components in opposite directions: along rows (down), along
// columns (across), or both in sequence.
func (r reference) walk(psi state, i int, down, across bool) []float64 {
	out := make([]float64, r.s.C)
	for k := 0; k < r.s.C; k += 2 {
		first := func(j int) (float64, float64) { return psi(k, j), psi(k+1, j) }
		along := func(from func(int) (float64, float64), dy, dx int) func(int) (float64, float64) {
			return func(j int) (float64, float64) {
				a, b := from(r.neighbour(j, -dy, -dx))
				c, d := from(r.neighbour(j, dy, dx))
				return math.Cos(turn)*a - math.Sin(turn)*b, math.Sin(turn)*c + math.Cos(turn)*d
			}
		}
		way := first
		if down {
			way = along(way, 1, 0)
		}
		if across {
			way = along(way, 0, 1)
		}
		out[k], out[k+1] = way(i)
	}
	return out
}

// mapsOf returns the maps of cell i: sum of squares, squared change, and channels 0 and C/2.
func (r reference) mapsOf(psi, before state, i int) [maxMaps]float64 {
	var m [maxMaps]float64
	for c := range r.s.C {
		v := psi(c, i)
		m[0] += v * v
		m[1] += (v - before(c, i)) * (v - before(c, i))
	}
	m[2], m[3] = psi(0, i), psi(r.s.C/2, i)
	return m
}
