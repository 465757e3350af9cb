package op

import (
	"math"
	"unsafe"
)

// The functions below round a float32 to fewer bits, to nearest with ties to even; they keep subnormals, infinities
// and NaNs. device_convert.cuh has the same conversions for a GPU.

// roundTF32 keeps 10 of 23 bits of mantissa.
func roundTF32(x float32) float32 {
	u := math.Float32bits(x)
	if u&0x7f800000 == 0x7f800000 {
		return x
	}
	return math.Float32frombits((u + 0xfff + u>>13&1) &^ 0x1fff)
}

// encodeBF16 keeps the upper 16 bits.
func encodeBF16(x float32) uint16 {
	u := math.Float32bits(x)
	if u&0x7fffffff > 0x7f800000 {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

func decodeBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// encodeFP16 rounds to IEEE half precision.
func encodeFP16(x float32) uint16 {
	u := math.Float32bits(x)
	sign, a := uint16(u>>16&0x8000), u&0x7fffffff
	switch {
	case a > 0x7f800000:
		return sign | 0x7e00 | uint16(a>>13&0x1ff)
	case a >= 0x47800000: // 65536 and above
		return sign | 0x7c00
	case a < 0x38800000: // below 2^-14: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(a))*(1<<24)))
	}
	a += 0xfff + a>>13&1 // a carry into the exponent is correct, up to infinity
	return sign | uint16((a-0x38000000)>>13)
}

func decodeFP16(h uint16) float32 {
	sign, e, m := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch {
	case e == 31 && m != 0:
		return math.Float32frombits(sign | 0x7fc00000 | m<<13)
	case e == 31:
		return math.Float32frombits(sign | 0x7f800000)
	case e != 0:
		return math.Float32frombits(sign | (e+112)<<23 | m<<13)
	}
	return math.Float32frombits(math.Float32bits(float32(m)*0x1p-24) | sign)
}

// Pack16 stores values as bf16 or fp16, two per four-byte word. If their number is odd, the last half word is zero.
func Pack16(precision string, x []float32) []float32 {
	to := encodeBF16
	if precision == FP16 {
		to = encodeFP16
	}
	out := make([]float32, (len(x)+1)/2)
	halves := unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(out))), 2*len(out))
	for i, v := range x {
		halves[i] = to(v)
	}
	return out
}

// RoundTo rounds values in place to tf32, bf16 or fp16, as a product rounds its operands. Any other name leaves them
// unchanged.
func RoundTo(precision string, x []float32) {
	var round func(float32) float32
	switch precision {
	case TF32:
		round = roundTF32
	case BF16:
		round = func(v float32) float32 { return decodeBF16(encodeBF16(v)) }
	case FP16:
		round = func(v float32) float32 { return decodeFP16(encodeFP16(v)) }
	default:
		return
	}
	for i, v := range x {
		x[i] = round(v)
	}
}
