package resnet

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/op"
)

// precisionNames lists the precisions in the order of their numbers in a kernel's flags.
var precisionNames = [...]string{FP32, TF32, BF16, FP16}

// roundRow rounds like op.RoundTo. TF32 and BF16 only drop bits of normal values, so they have faster loops.
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

// dropBits drops bits of the significand, rounding to nearest, ties to even. Infinities and NaN stay unchanged.
func dropBits(x []float32, bits uint) {
	half, mask := uint32(1)<<(bits-1)-1, uint32(1)<<bits-1
	for i, v := range x {
		if u := math.Float32bits(v); u&0x7f800000 != 0x7f800000 {
			x[i] = math.Float32frombits((u + half + u>>bits&1) &^ mask)
		}
	}
}

// roundedCopy returns a function for gather that copies values and rounds them.
func roundedCopy(precision int) func(dst, src []float32) {
	return func(dst, src []float32) {
		copy(dst, src)
		roundRow(precision, dst)
	}
}
