package gruflow

import "github.com/gpuprof/gpuprof"

func injectHost(a *gpuprof.Args, lo, hi int) {
	x, energy, width, batch := a.Floats(0), a.Floats(1), a.Int(3), a.Int(4)
	for r := lo; r < hi; r++ {
		x[r*width] = energy[r%batch]
	}
}

// crew is the carriers moved together, so that their sigmoids and tanhs are.
const crew = 32

func flowHost(a *gpuprof.Args, lo, hi int) {
	proj, bias := a.Floats(0), a.Floats(1)
	batch, n, layers := a.Int(9), a.Int(10), a.Int(11)
	f := fleet{
		h: a.Floats(2), energy: a.Floats(3), level: a.Ints(4), place: a.Floats(5), source: a.Floats(6), out: a.Floats(7),
		batch: batch, n: n, layers: layers, depth: a.Int(12),
	}
	top := f.h[(layers-1)*batch*n:]
	var p [outputs * crew]float32
	for ; lo < hi; lo += crew {
		size := min(crew, hi-lo)
		for i := range size {
			h := top[(lo+i)*n : (lo+i+1)*n]
			for o := range outputs {
				p[o*size+i] = bias[o] + dot(proj[o*n:(o+1)*n], h)
			}
		}
		f.move(lo, size, p[:outputs*size])
	}
}

func moveHost(a *gpuprof.Args, lo, hi int) {
	made := a.Floats(0)
	f := fleet{
		h: a.Floats(1), energy: a.Floats(2), level: a.Ints(3), place: a.Floats(4), source: a.Floats(5), out: a.Floats(6),
		batch: a.Int(8), n: a.Int(9), layers: a.Int(10), depth: a.Int(11),
	}
	var p [outputs * crew]float32
	for ; lo < hi; lo += crew {
		size := min(crew, hi-lo)
		for i := range size {
			for o := range outputs {
				p[o*size+i] = made[(lo+i)*outputs+o]
			}
		}
		f.move(lo, size, p[:outputs*size])
	}
}

// fleet is the carriers' state as the kernels see it.
type fleet struct {
	h, energy, place, source, out []float32
	level                         []int32
	batch, n, layers, depth       int
}

// move takes size carriers from first on one level down; see refFlow. p holds
// their projections, [outputs,size].
func (f *fleet) move(first, size int, p []float32) {
	share, drift := p[:size], p[size:3*size]
	sigmoidAll(share)
	tanhAll(drift)
	for i := range size {
		c := first + i
		deposit := share[i] * f.energy[c]
		energy := f.energy[c] - deposit
		x, y := f.place[2*c]+stride*drift[i], f.place[2*c+1]+stride*drift[size+i]
		rec := f.out[c*outputs : (c+1)*outputs]
		rec[outDeposit], rec[outEnergy], rec[outX], rec[outY] = deposit, energy, x, y
		level := f.level[c] + 1
		if int(level) == f.depth {
			level, energy, x, y = 0, f.source[c], 0, 0
			for l := range f.layers {
				clear(f.h[(l*f.batch+c)*f.n:][:f.n])
			}
		}
		f.level[c], f.energy[c], f.place[2*c], f.place[2*c+1] = level, energy, x, y
	}
}
