package gruflow

import (
	_ "embed"
	"math"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed round.ptx.zst
var roundPTX string

// precision is the rounding of a matrix product's inputs; products and sums are always float32.
type precision int

const (
	fp32 precision = iota
	tf32
	bf16
	fp16
)

// roundKernel rounds a product's input: to tf32, stored as float32, or to 16 bits. One item is one value.
var roundKernel = device.Typed[gruRoundArgs](device.Kernel{Name: "gru_round", Host: roundHost, Grain: 4096, PTX: roundPTX, Threads: 256, PerBlock: 1024})

// widenKernel converts 16-bit values to float32. One item is one value.
var widenKernel = device.Typed[gruWidenArgs](device.Kernel{Name: "gru_widen", Host: widenHost, Grain: 4096, PTX: roundPTX, Threads: 256, PerBlock: 1024})

func roundCost(n int, p precision) gpuprof.Cost {
	return gpuprof.Cost{BytesRead: 4 * int64(n), BytesWritten: p.bytes() * int64(n)}
}

func widenCost(n int, p precision) gpuprof.Cost {
	return gpuprof.Cost{BytesRead: p.bytes() * int64(n), BytesWritten: 4 * int64(n)}
}

func (p precision) String() string {
	return [...]string{fp32: "fp32", tf32: "tf32", bf16: "bf16", fp16: "fp16"}[p]
}

// bytes returns the number of bytes of a rounded value.
func (p precision) bytes() int64 {
	if p.isNarrow() {
		return 2
	}
	return 4
}

// isNarrow reports whether rounded values are stored in 16 bits.
func (p precision) isNarrow() bool { return p == bf16 || p == fp16 }

// words returns the number of four-byte words for n rounded values.
func (p precision) words(n int64) int64 { return (n*p.bytes() + 3) / 4 }

func parsePrecision(name string) precision {
	return map[string]precision{"tf32": tf32, "bf16": bf16, "fp16": fp16}[name]
}

// tolerance returns the largest relative error of a GRU layer against float64 that a check accepts.
func (p precision) tolerance() float64 {
	return [...]float64{fp32: 1e-5, tf32: 2e-3, bf16: 2e-2, fp16: 5e-3}[p]
}

// round writes src rounded to nearest, ties to even, to dst.
func (p precision) round(dst, src []float32) {
	switch p {
	case tf32: // 10 bits of significand, float32's exponent
		roundBits(dst, src, 13)
	case bf16: // 7 bits
		roundBits(dst, src, 16)
	case fp16:
		for i, v := range src {
			dst[i] = roundHalf(v)
		}
	default:
		copy(dst, src)
	}
}

// roundBits rounds each value to a significand that is shorter by drop bits.
func roundBits(dst, src []float32, drop uint) {
	half, mask := uint32(1)<<(drop-1)-1, uint32(1)<<drop-1
	for i, v := range src {
		b := math.Float32bits(v)
		if b&0x7f800000 == 0x7f800000 { // infinity or NaN: the addition could turn one into the other
			dst[i] = v
			continue
		}
		dst[i] = math.Float32frombits((b + half + b>>drop&1) &^ mask)
	}
}

// Limits of fp16: halfNormal is the smallest normal number, the other the smallest value that rounds to infinity.
const (
	halfNormal   = 0x1p-14
	halfOverflow = 65520
)

// roundHalf rounds v to fp16, whose significand has 10 bits. Subnormal numbers have fewer: adding and subtracting 0.75
// rounds them to multiples of 2^-24.
func roundHalf(v float32) float32 {
	m := float32(math.Abs(float64(v)))
	switch {
	case m < halfNormal:
		return float32(math.Copysign(float64(float32(m+0.75)-0.75), float64(v)))
	case m >= halfOverflow:
		return float32(math.Copysign(math.Inf(1), float64(v)))
	case m != m:
		return v
	}
	b := math.Float32bits(v)
	return math.Float32frombits((b + 0xfff + b>>13&1) &^ 0x1fff)
}

func (p precision) pack(dst []uint16, src []float32) {
	if p == bf16 {
		for i, v := range src {
			b := math.Float32bits(v)
			if b&0x7fffffff > 0x7f800000 {
				dst[i] = uint16(b>>16) | 0x40
				continue
			}
			dst[i] = uint16((b + 0x7fff + b>>16&1) >> 16)
		}
		return
	}
	for i, v := range src {
		dst[i] = halfBits(v)
	}
}

func halfBits(v float32) uint16 {
	b := math.Float32bits(roundHalf(v))
	sign, m := uint16(b>>16)&0x8000, b&0x7fffffff
	switch {
	case m > 0x7f800000:
		return sign | 0x7e00
	case m == 0x7f800000:
		return sign | 0x7c00
	case m < 0x38800000: // subnormal: a multiple of 2^-24
		return sign | uint16(math.Float32frombits(m)*0x1p24)
	}
	return sign | uint16((m-0x38000000)>>13)
}

// unpack converts src to float32 exactly; it is the inverse of pack.
func (p precision) unpack(dst []float32, src []uint16) {
	if p == bf16 {
		for i, v := range src {
			dst[i] = math.Float32frombits(uint32(v) << 16)
		}
		return
	}
	for i, v := range src {
		m := math.Float32frombits(uint32(v&0x7fff)<<13) * 0x1p112
		if m >= 0x1p16 { // exponent of infinity and NaN
			m = math.Float32frombits(uint32(v&0x7fff)<<13 | 0x7f800000)
		}
		dst[i] = math.Float32frombits(math.Float32bits(m) | uint32(v&0x8000)<<16)
	}
}

func viewHalves(v []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(v))), 2*len(v))
}

// roundedCopy returns v in a product's format: rounded, and packed in a 16-bit precision.
func (p precision) roundedCopy(v []float32) []float32 {
	out := make([]float32, p.words(int64(len(v))))
	if p.isNarrow() {
		p.pack(viewHalves(out), v)
	} else {
		p.round(out, v)
	}
	return out
}
