package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

func injectHost(args *device.Args, lo, hi int) {
	a := device.View[gruInjectView](args)
	x, energy, width, batch := a.x.Floats(), a.energy.Floats(), a.I.Int(), a.B.Int()
	for r := lo; r < hi; r++ {
		x[r*width] = energy[r%batch]
	}
}

// carriersPerBlock is the number of carriers (rows of the batch) that the host moves together, so that sigmoids and tanhs run in
// vectors.
const carriersPerBlock = 32

func flowHost(args *device.Args, lo, hi int) {
	a := device.View[gruFlowView](args)
	proj, bias := a.proj.Floats(), a.bias.Floats()
	batch, n, layers := a.B.Int(), a.H.Int(), a.L.Int()
	f := moveArgs{
		h: a.h.Floats(), energy: a.energy.Floats(), level: a.level.Ints(), place: a.place.Floats(), source: a.source.Floats(), out: a.out.Floats(),
		path: a.path.Floats(), batch: batch, n: n, layers: layers, depth: a.D.Int(), keeps: a.keeps.Int() != 0,
	}
	top := f.h[(layers-1)*batch*n:]
	var p [outputs * carriersPerBlock]float32
	for ; lo < hi; lo += carriersPerBlock {
		size := min(carriersPerBlock, hi-lo)
		for i := range size {
			h := top[(lo+i)*n : (lo+i+1)*n]
			for o := range outputs {
				p[o*size+i] = bias[o] + dot(proj[o*n:(o+1)*n], h)
			}
		}
		f.moveCarriers(lo, size, p[:outputs*size])
	}
}

func moveHost(args *device.Args, lo, hi int) {
	a := device.View[gruMoveView](args)
	made := a.p.Floats()
	f := moveArgs{
		h: a.h.Floats(), energy: a.energy.Floats(), level: a.level.Ints(), place: a.place.Floats(), source: a.source.Floats(), out: a.out.Floats(),
		path: a.path.Floats(), batch: a.B.Int(), n: a.H.Int(), layers: a.L.Int(), depth: a.D.Int(), keeps: a.keeps.Int() != 0,
	}
	var p [outputs * carriersPerBlock]float32
	for ; lo < hi; lo += carriersPerBlock {
		size := min(carriersPerBlock, hi-lo)
		for i := range size {
			for o := range outputs {
				p[o*size+i] = made[(lo+i)*outputs+o]
			}
		}
		f.moveCarriers(lo, size, p[:outputs*size])
	}
}

type moveArgs struct {
	h, energy, place, source, out, path []float32
	level                               []int32
	batch, n, layers, depth             int
	keeps                               bool // write path, for a backward pass
}

// moveCarriers moves the carriers [first, first+size) one level down by refFlow. p holds their projections
// [outputs,size].
func (f *moveArgs) moveCarriers(first, size int, p []float32) {
	share, drift := p[:size], p[size:3*size]
	sigmoidAll(share)
	tanhAll(drift)
	for i := range size {
		c := first + i
		if f.keeps {
			copy(f.path[c*pathWords:], []float32{pathEnergy: f.energy[c], pathShare: share[i], pathX: drift[i], pathY: drift[size+i]})
		}
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

func flowBackHost(args *device.Args, lo, hi int) {
	a := device.View[gruFlowBwdView](args)
	n, depth, ago := a.H.Int(), a.D.Int(), a.ago.Int()
	proj, path, level, ddose := a.proj.Floats(), a.path.Floats(), a.level.Ints(), a.ddose.Floats()
	de, dplace, dp, dh := a.de.Floats(), a.dplace.Floats(), a.dp.Floats(), a.dh.Floats()
	for c := lo; c < hi; c++ {
		k, after := path[c*pathWords:][:pathWords], levelThen(level[c], ago, depth)
		e, d, energy, x, y := k[pathEnergy], k[pathShare], de[c], dplace[2*c], dplace[2*c+1]
		was := after - 1
		if after == 0 { // it left: cotangents of the carrier that replaced it do not apply
			was, energy, x, y = depth-1, ddose[depth], 0, 0
		}
		q := dp[c*outputs:][:outputs]
		q[0] = (ddose[was] - energy) * e * d * (1 - d)
		q[1], q[2], q[3] = stride*x*(1-k[pathX]*k[pathX]), stride*y*(1-k[pathY]*k[pathY]), 0
		de[c], dplace[2*c], dplace[2*c+1] = ddose[was]*d+energy*(1-d), x, y
		row := dh[c*n:][:n]
		clear(row)
		for o, v := range q {
			vec.Axpy(v, proj[o*n:], row)
		}
	}
}

func lossHost(args *device.Args, lo, hi int) {
	a := device.View[gruLossView](args)
	depth, levels, width, fixed, kappa := a.D.Int(), a.levels.Int(), a.width.Int(), a.fixed.Int(), a.kappa.F32()
	metrics, target, place := a.metrics.Floats(), a.target.Floats(), a.place.Floats()
	ddose, dplace, de, losses := a.ddose.Floats(), a.dplace.Floats(), a.de.Floats(), a.losses.Floats()
	for i := lo; i < hi; i++ {
		if i < depth {
			var dose float32
			for w := range levels {
				dose += metrics[w*width+fixed+i]
			}
			ddose[i] = dose - target[i]
			losses[i] = ddose[i] * ddose[i] / 2
			if i == 0 {
				ddose[depth] = 0 // energy that leaves has no part in the loss
			}
			continue
		}
		c := i - depth
		x, y := place[2*c], place[2*c+1]
		dplace[2*c], dplace[2*c+1], de[c] = kappa*x, kappa*y, 0
		losses[i] = kappa * (x*x + y*y) / 2
	}
}
