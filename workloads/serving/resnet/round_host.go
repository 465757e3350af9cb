package resnet

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/op"
)

// precisionNames are the precisions by the number in a kernel's flags.
var precisionNames = [...]string{FP32, TF32, BF16, FP16}

// roundRow rounds values as op.RoundTo does. Most of them have exponents that nothing changes,
// so the two formats that only drop bits have loops of their own.
func roundRow(precision int, x []float32) {
	switch precision {
	case 0:
	case 1:
		dropBits(x, 13)
	case 2:
		dropBits(x, 16)
	default:
		op.RoundTo(precisionNames[precision], x)
	}
}

// dropBits drops bits of the significand, to nearest with ties to even. It leaves infinities and NaN unchanged.
func dropBits(x []float32, bits uint) {
	half, mask := uint32(1)<<(bits-1)-1, uint32(1)<<bits-1
	for i, v := range x {
		if u := math.Float32bits(v); u&0x7f800000 != 0x7f800000 {
			x[i] = math.Float32frombits((u + half + u>>bits&1) &^ mask)
		}
	}
}

// roundedCopy copies and rounds the values that gather takes.
func roundedCopy(precision int) func(dst, src []float32) {
	return func(dst, src []float32) {
		copy(dst, src)
		roundRow(precision, dst)
	}
}
