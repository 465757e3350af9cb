package gruflow

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// tallyCarriers sums the results of carriers [lo, hi). It adds to the first metFixed metrics (the argument fixed), and
// calls the function dose with each deposit and its level.
func tallyCarriers(rec []float32, level []int32, h []float32, n, depth, lo, hi int, fixed *[metFixed]float32, dose func(level int, deposit float32)) {
	for c := lo; c < hi; c++ {
		r := rec[c*outputs : (c+1)*outputs]
		fixed[metDeposited] += r[outDeposit]
		was := int(level[c]) - 1
		if level[c] == 0 {
			was = depth - 1
			fixed[metLeft] += r[outEnergy]
			fixed[metLeaving]++
		} else {
			fixed[metCarried] += r[outEnergy]
		}
		dose(was, r[outDeposit])
		fixed[metHottest] = max(fixed[metHottest], r[outEnergy])
		row := h[c*n : (c+1)*n]
		fixed[metHidden] += dot(row, row)
		fixed[metSpread] += r[outX]*r[outX] + r[outY]*r[outY]
		fixed[metDepth] += float32(level[c])
	}
}

func sumHost(args *device.Args, lo, hi int) {
	a := device.View[gruSumView](args)
	batch, n, depth := a.B.Int(), a.H.Int(), a.D.Int()
	rec, level, h := a.records.Floats(), a.level.Ints(), a.h.Floats()[a.hAt.Int():]
	width := metFixed + depth
	for block := lo; block < hi; block++ {
		row := a.partial.Floats()[block*width : (block+1)*width]
		clear(row)
		doses := row[metFixed:]
		var fixed [metFixed]float32
		tallyCarriers(rec, level, h, n, depth, block*metricBlock, min(batch, (block+1)*metricBlock), &fixed,
			func(at int, deposit float32) { doses[at] += deposit })
		copy(row, fixed[:])
	}
}

func finalHost(args *device.Args, lo, hi int) {
	a := device.View[gruSumFinalView](args)
	partial, metrics, blocks := a.partial.Floats(), a.metrics.Floats(), a.blocks.Int()
	width := a.n.Int()
	for m := lo; m < hi; m++ {
		var sum float32
		for b := range blocks {
			v := partial[b*width+m]
			if m == metHottest {
				sum = max(sum, v)
			} else {
				sum += v
			}
		}
		metrics[m] = sum
	}
}

func raceHost(args *device.Args, lo, hi int) {
	a := device.View[gruSumRacyView](args)
	n, depth := a.H.Int(), a.D.Int()
	rec, level, h, metrics := a.records.Floats(), a.level.Ints(), a.h.Floats()[a.hAt.Int():], a.metrics.Floats()
	var fixed [metFixed]float32
	tallyCarriers(rec, level, h, n, depth, lo, hi, &fixed, func(at int, deposit float32) {
		updateAtomically(&metrics[metFixed+at], func(v float32) float32 { return v + deposit })
	})
	for m, mine := range fixed {
		if m == metHottest {
			updateAtomically(&metrics[m], func(v float32) float32 { return max(v, mine) })
		} else {
			updateAtomically(&metrics[m], func(v float32) float32 { return v + mine })
		}
	}
}

// updateAtomically replaces *p by f(*p) atomically.
func updateAtomically(p *float32, f func(float32) float32) {
	bits := (*uint32)(unsafe.Pointer(p))
	for {
		old := atomic.LoadUint32(bits)
		if atomic.CompareAndSwapUint32(bits, old, math.Float32bits(f(math.Float32frombits(old)))) {
			return
		}
	}
}

func fillHost(args *device.Args, lo, hi int) {
	a := device.View[gruFillView](args)
	out, v := a.out.Floats()[lo:hi], a.value.F32()
	for i := range out {
		out[i] = v
	}
}
