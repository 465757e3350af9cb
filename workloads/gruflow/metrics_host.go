package gruflow

import (
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// tallyCarriers sums carriers [lo, hi): the fixed words to fixed, each deposit to its level through dose.
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

func sumHost(a *device.Args, lo, hi int) {
	batch, n, depth := a.Int(5), a.Int(6), a.Int(7)
	rec, level, h := a.Floats(0), a.Ints(1), a.Floats(2)[a.Int(8):]
	width := metFixed + depth
	for block := lo; block < hi; block++ {
		row := a.Floats(3)[block*width : (block+1)*width]
		clear(row)
		doses := row[metFixed:]
		var fixed [metFixed]float32
		tallyCarriers(rec, level, h, n, depth, block*metricBlock, min(batch, (block+1)*metricBlock), &fixed,
			func(at int, deposit float32) { doses[at] += deposit })
		copy(row, fixed[:])
	}
}

func finalHost(a *device.Args, lo, hi int) {
	partial, metrics, blocks := a.Floats(0), a.Floats(1), a.Int(3)
	width := a.Int(2)
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

func raceHost(a *device.Args, lo, hi int) {
	n, depth := a.Int(5), a.Int(6)
	rec, level, h, metrics := a.Floats(0), a.Ints(1), a.Floats(2)[a.Int(7):], a.Floats(3)
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

// updateAtomically replaces *p by f(*p).
func updateAtomically(p *float32, f func(float32) float32) {
	bits := (*uint32)(unsafe.Pointer(p))
	for {
		old := atomic.LoadUint32(bits)
		if atomic.CompareAndSwapUint32(bits, old, math.Float32bits(f(math.Float32frombits(old)))) {
			return
		}
	}
}

func fillHost(a *device.Args, lo, hi int) {
	out, v := a.Floats(0)[lo:hi], a.F32(2)
	for i := range out {
		out[i] = v
	}
}
