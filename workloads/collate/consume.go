package collate

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed consume.ptx.zst
var consumePTX string

// consumeTerms is the number of terms in a partial sum, so that a long float32 sum keeps its precision.
const consumeTerms = 64

// consumeKernel takes the place of the model that consumes a batch. For every edge e, with length d and z the low byte
// of its source atom's species, it computes
//
//	out[at+e] = (1 + z/256) * sum over k < passes of 1 / (1 + (2(d - mu_k))^2),  mu_k = (k + 1/2) cutoff / passes
//
// a smearing of distances whose time is proportional to passes. Padding gives zero. Parameters: out, block, then the
// offsets of species, src and vec in words of block, the first element of out, passes, cutoff.
var consumeKernel = device.Typed[consumeArgs](device.Kernel{
	Name: "consume", Host: consumeHost, Grain: 256,
	PTX: consumePTX, Entry: "consume", Threads: 256, PerBlock: 256,
})

// consumeCost counts six operations per term and eight per edge for the length and the weight. Per edge it reads
// source, vector and species, and writes one value.
func consumeCost(edges, passes int) gpuprof.Cost {
	e := int64(edges)
	return gpuprof.Cost{Flops: e * (8 + 6*int64(passes)), BytesRead: e * 20, BytesWritten: e * 4}
}
