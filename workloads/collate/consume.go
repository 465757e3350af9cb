package collate

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed consume.ptx.zst
var consumePTX string

// consumeTerms are added up before they join the sum, so that a long sum keeps
// its precision in float32.
const consumeTerms = 64

// consumeKernel is a stand-in for the model: for every edge e of a batch, with d its length and z the low byte of its
// source atom's species,
//
//	out[at+e] = (1 + z/256) * sum over k < passes of 1 / (1 + (2(d - mu_k))^2),  mu_k = (k + 1/2) cutoff / passes
//
// a smearing of distances, as long as passes asks. Padding gives zero.
// Parameters: out, block, then in words of block the offsets of species, src
// and vec, the first element of out, passes, cutoff.
var consumeKernel = device.Typed[consumeArgs](device.Kernel{
	Name: "consume", Host: consumeHost, Grain: 256,
	PTX: consumePTX, Entry: "consume", Threads: 256, PerBlock: 256,
})

// consumeCost counts edges at a number of passes: six operations a term, eight
// for the length and the weight; source, vector and species read, one written.
func consumeCost(edges, passes int) gpuprof.Cost {
	e := int64(edges)
	return gpuprof.Cost{Flops: e * (8 + 6*int64(passes)), BytesRead: e * 20, BytesWritten: e * 4}
}
