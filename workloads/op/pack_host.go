package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

func packLeftHost(a *device.Args, lo, hi int) {
	inner, padded, form := a.Int(2), a.Int(3), a.Int(4)
	x, out, half := a.Floats(0), a.Floats(1), halves(a, 1)
	for i := lo; i < hi; i++ {
		r, k := i/padded, i%padded
		v := float32(0)
		if k < inner {
			v = x[r*inner+k]
		}
		if form != packSplit {
			half[i] = packHalf(form, v)
			continue
		}
		row := out[3*r*padded+k:]
		row[0], row[padded], row[2*padded] = toTF32(v), toTF32(v), packLow(v)
	}
}

func packRightHost(a *device.Args, lo, hi int) {
	filled, n, form := a.Int(2), a.Int(3), a.Int(4)
	x, out, half := a.Floats(0), a.Floats(1), halves(a, 1)
	for i := lo; i < hi; i++ {
		v := float32(0)
		if i < filled {
			v = x[i]
		}
		if form != packSplit {
			half[i] = packHalf(form, v)
			continue
		}
		out[i], out[n+i], out[2*n+i] = toTF32(v), packLow(v), toTF32(v)
	}
}

func packHalf(form int, v float32) uint16 {
	if form == packBF16 {
		return toBF16(v)
	}
	return toFP16(v)
}

// packLow is what toTF32 leaves of v, as far as 10 bits hold it; infinities leave nothing.
func packLow(v float32) float32 {
	high := toTF32(v)
	if !(high <= 3.4e38 && high >= -3.4e38) {
		return 0
	}
	return toTF32(v - high)
}
