package op

import (
	_ "embed"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed pack.ptx.zst
var packPTX string

// packing is how the operands of a library's product lie in memory. Rows of 16-bit
// values start on 16 bytes, which tensor cores are read for at full speed, so K is
// padded with zeros to a multiple of eight.
//
// TF32x3 is one product of TF32 over three times K: with v = high + low, both of
// TF32's 10 bits,
//
//	[a_high | a_high | a_low] [b_high; b_low; b_high] = a b - a_low b_low
//
// What is missing is 2^-22 of the product (Ootomo and Yokota, 2022, for the idea).
type packing struct {
	form  int // PACK_... in pack.cuh
	inner int // K with its padding
	parts int // how often it follows itself
	bytes int64
}

// The forms; with the first, operands are read as they are.
const (
	packPlain = iota
	packSplit
	packBF16
	packFP16
)

// packAlign is what K is padded to a multiple of.
const packAlign = 8

// packingOf is the packing of a precision's operands over K values.
func packingOf(precision string, k int) packing {
	inner := ceilDiv(k, packAlign) * packAlign
	switch precision {
	case TF32x3:
		return packing{packSplit, inner, 3, floatBytes}
	case BF16:
		return packing{packBF16, inner, 1, 2}
	case FP16:
		return packing{packFP16, inner, 1, 2}
	}
	return packing{packPlain, k, 1, floatBytes}
}

// depth is the K of the library's product.
func (p packing) depth() int { return p.inner * p.parts }

// words is the four-byte elements of n rows (or columns) of an operand.
func (p packing) words(n int64) int64 {
	return (n*int64(p.depth())*p.bytes + floatBytes - 1) / floatBytes
}

// packLeftKernel: x, out, K, K padded, form. One item is one element with padding.
// packRightKernel: x, out, elements of x, n, form; likewise.
var (
	packLeftKernel  = device.Kernel{Name: "pack_left", Sig: "bbiii", Host: packLeftHost, Grain: 1 << 14, PTX: packPTX, Threads: 256, PerBlock: 1024}
	packRightKernel = device.Kernel{Name: "pack_right", Sig: "bbiii", Host: packRightHost, Grain: 1 << 14, PTX: packPTX, Threads: 256, PerBlock: 1024}
)

// CastKernel rounds float32 to 16 bits for a vendor's routine of precision bf16 or fp16; one item is an element. Its
// arguments are x, out and rest.
func CastKernel(precision string) (kernel *device.Kernel, rest [3]int) {
	return &packRightKernel, [3]int{math.MaxInt32, 0, packingOf(precision, 1).form}
}

// packLeft appends the packing of a [edges,K].
func (k *binder) packLeft(p packing, a device.Buffer, inner int) device.Buffer {
	out := k.scratch(p.words(int64(k.b.capacity)))
	cost := gpuprof.Cost{BytesRead: int64(inner) * floatBytes, BytesWritten: int64(p.depth()) * p.bytes}
	k.launch(&packLeftKernel, items{perEdge: p.inner}, rate{perEdge: cost}, a, out, inner, p.inner, p.form)
	return out
}

// packRight appends the packing of b [K,N].
func (k *binder) packRight(p packing, b device.Buffer, inner, n int) device.Buffer {
	out := k.scratch(p.words(int64(n)))
	cost := gpuprof.Cost{BytesRead: int64(inner*n) * floatBytes, BytesWritten: int64(p.depth()*n) * p.bytes}
	k.launch(&packRightKernel, items{fixed: p.inner * n}, rate{fixed: cost}, b, out, inner*n, itemCount{}, p.form)
	return out
}
