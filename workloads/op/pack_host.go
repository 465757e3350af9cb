package op

import "github.com/gpuprof/gpuprof/workloads/device"

func packLeftHost(args *device.Args, lo, hi int) {
	a := device.View[packLeftView](args)
	inner, padded, form := a.K.Int(), a.inner.Int(), a.form.Int()
	x, out, half := a.x.Floats(), a.out.Floats(), a.out.Halves()
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
		row[0], row[padded], row[2*padded] = roundTF32(v), roundTF32(v), packLow(v)
	}
}

func packRightHost(args *device.Args, lo, hi int) {
	a := device.View[packRightView](args)
	filled, n, form := a.filled.Int(), a.count.Int(), a.form.Int()
	x, out, half := a.x.Floats(), a.out.Floats(), a.out.Halves()
	for i := lo; i < hi; i++ {
		v := float32(0)
		if i < filled {
			v = x[i]
		}
		if form != packSplit {
			half[i] = packHalf(form, v)
			continue
		}
		out[i], out[n+i], out[2*n+i] = roundTF32(v), packLow(v), roundTF32(v)
	}
}

func packHalf(form int, v float32) uint16 {
	if form == packBF16 {
		return encodeBF16(v)
	}
	return encodeFP16(v)
}

// packLow returns v minus roundTF32(v), rounded to 10 bits of mantissa; 0 for infinities and NaN.
func packLow(v float32) float32 {
	high := roundTF32(v)
	if !(high <= 3.4e38 && high >= -3.4e38) {
		return 0
	}
	return roundTF32(v - high)
}
