package op

import (
	_ "embed"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed pack.ptx.zst
var packPTX string

// packing is the memory layout of the operands of a library's product. K is padded with zeros to a multiple of eight,
// so that rows of 16-bit values start at multiples of 16 bytes, which tensor cores need for full speed. TF32x3 is one
// TF32 product over three times K (after Ootomo and Yokota, 2022): with v = high + low, each of TF32's 10 bits, it
// computes a b up to the term a_low b_low, which is 2^-22 of the product:
//
//	[a_high | a_high | a_low] [b_high; b_low; b_high] = a b - a_low b_low
type packing struct {
	form  int // PACK_... in pack.cuh
	inner int // K with its padding
	parts int // number of copies of K, one after the other
	bytes int64
}

// The values of packing.form, the same as in pack.cuh; packPlain leaves the operands unchanged.
const (
	packPlain = iota
	packSplit
	packBF16
	packFP16
)

// packAlign is the alignment of K in elements: K is padded to a multiple of it.
const packAlign = 8

// packingOf returns the packing of the operands of a matrix product whose inner dimension is k.
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

func (p packing) productDepth() int { return p.inner * p.parts }

// wordCount returns the number of four-byte words of n rows (or columns) of an operand.
func (p packing) wordCount(n int64) int64 {
	return (n*int64(p.productDepth())*p.bytes + floatBytes - 1) / floatBytes
}

// One item of either kernel is one element of the packed operand, padding included.
var (
	packLeftKernel  = device.Typed[packLeftArgs](device.Kernel{Name: "pack_left", Host: packLeftHost, Grain: 1 << 14, PTX: packPTX, Threads: 256, PerBlock: 1024})
	packRightKernel = device.Typed[packRightArgs](device.Kernel{Name: "pack_right", Host: packRightHost, Grain: 1 << 14, PTX: packPTX, Threads: 256, PerBlock: 1024})
)

// Cast returns the kernel and arguments that round x to bf16 or fp16, as an operand of a vendor's routine; one item is
// one element.
func Cast(precision string, x, out device.Buffer) (kernel *device.Kernel, args any) {
	return &packRightKernel, packRightArgs{x: x, out: out, filled: math.MaxInt32, count: 0, form: packingOf(precision, 1).form}
}

// packLeft packs a [edges,K] and returns the packed buffer.
func (k *binder) packLeft(p packing, a device.Buffer, inner int) device.Buffer {
	out := k.allocateScratch(p.wordCount(int64(k.b.capacity)))
	cost := gpuprof.Cost{BytesRead: int64(inner) * floatBytes, BytesWritten: int64(p.productDepth()) * p.bytes}
	k.addLaunch(&packLeftKernel, items{perEdge: p.inner}, rate{perEdge: cost}, packLeftArgs{
		x: a, out: out, K: inner, inner: p.inner, form: p.form,
	})
	return out
}

// packRight packs b [K,N] and returns the packed buffer.
func (k *binder) packRight(p packing, b device.Buffer, inner, n int) device.Buffer {
	out := k.allocateScratch(p.wordCount(int64(n)))
	cost := gpuprof.Cost{BytesRead: int64(inner*n) * floatBytes, BytesWritten: int64(p.productDepth()*n) * p.bytes}
	k.addLaunch(&packRightKernel, items{fixed: p.inner * n}, rate{fixed: cost}, packRightArgs{
		x: b, out: out, filled: inner * n, count: itemCount, form: p.form,
	})
	return out
}
