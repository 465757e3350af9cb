package op

import (
	_ "embed"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed pack.ptx.zst
var packPTX string

// packing is the memory layout of the operands of a library's product. Rows of 16-bit values start on 16 bytes, which
// tensor cores need for full speed, so K is padded with zeros to a multiple of eight.
//
// TF32x3 is one product of TF32 over three times K: with v = high + low, both of
// TF32's 10 bits,
//
//	[a_high | a_high | a_low] [b_high; b_low; b_high] = a b - a_low b_low
//
// The omitted term is 2^-22 of the product (Ootomo and Yokota, 2022, for the idea).
type packing struct {
	form  int // PACK_... in pack.cuh
	inner int // K with its padding
	parts int // copies of K in sequence
	bytes int64
}

// The forms; packPlain leaves the operands unchanged.
const (
	packPlain = iota
	packSplit
	packBF16
	packFP16
)

// packAlign is the multiple to which K is padded.
const packAlign = 8

// packingOf returns the packing of a precision's operands over K values.
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

// productDepth returns the K of the library's product.
func (p packing) productDepth() int { return p.inner * p.parts }

// wordCount returns the four-byte elements of n rows (or columns) of an operand.
func (p packing) wordCount(n int64) int64 {
	return (n*int64(p.productDepth())*p.bytes + floatBytes - 1) / floatBytes
}

// packLeftKernel: x, out, K, K padded, form. One item is one element with padding.
// packRightKernel: x, out, elements of x, n, form; likewise.
var (
	packLeftKernel  = device.Typed[packLeftArgs](device.Kernel{Name: "pack_left", Host: packLeftHost, Grain: 1 << 14, PTX: packPTX, Threads: 256, PerBlock: 1024})
	packRightKernel = device.Typed[packRightArgs](device.Kernel{Name: "pack_right", Host: packRightHost, Grain: 1 << 14, PTX: packPTX, Threads: 256, PerBlock: 1024})
)

// Cast returns the kernel that rounds x to 16 bits for a vendor's routine of precision bf16 or fp16, and its
// arguments; one item is an element.
func Cast(precision string, x, out device.Buffer) (kernel *device.Kernel, args any) {
	return &packRightKernel, packRightArgs{x: x, out: out, filled: math.MaxInt32, count: 0, form: packingOf(precision, 1).form}
}

// packLeft appends the packing of a [edges,K].
func (k *binder) packLeft(p packing, a device.Buffer, inner int) device.Buffer {
	out := k.allocateScratch(p.wordCount(int64(k.b.capacity)))
	cost := gpuprof.Cost{BytesRead: int64(inner) * floatBytes, BytesWritten: int64(p.productDepth()) * p.bytes}
	k.addLaunch(&packLeftKernel, items{perEdge: p.inner}, rate{perEdge: cost}, packLeftArgs{
		x: a, out: out, K: inner, inner: p.inner, form: p.form,
	})
	return out
}

// packRight appends the packing of b [K,N].
func (k *binder) packRight(p packing, b device.Buffer, inner, n int) device.Buffer {
	out := k.allocateScratch(p.wordCount(int64(n)))
	cost := gpuprof.Cost{BytesRead: int64(inner*n) * floatBytes, BytesWritten: int64(p.productDepth()*n) * p.bytes}
	k.addLaunch(&packRightKernel, items{fixed: p.inner * n}, rate{fixed: cost}, packRightArgs{
		x: b, out: out, filled: inner * n, count: itemCount{}, form: p.form,
	})
	return out
}
