package gruflow

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed metrics.ptx.zst
var metricsPTX string

// The kernels reduce a step's results to its metrics in one of two ways; refMetrics defines the result.
//
// With deterministic=on, sumKernel reduces metricBlock carriers to one row of partial [blocks,M], and finalKernel adds
// the rows. The result has the same bits for any number of threads.
//
// With deterministic=off, raceKernel adds atomically to metrics [M], which must be zero before, in the order of
// arrival.
var (
	// Arguments: records [B,outputs], level [B], h [L,B,H], partial, n, B, H,
	// D, hAt. One item is one block of carriers.
	sumKernel = device.Typed[gruSumArgs](device.Kernel{Name: "gru_sum", Host: sumHost, PTX: metricsPTX, Threads: 256, PerBlock: 1})
	// One item is one metric.
	finalKernel = device.Typed[gruSumFinalArgs](device.Kernel{Name: "gru_sum_final", Host: finalHost, Grain: 64, PTX: metricsPTX, Threads: 64, PerBlock: 64})
	// One item is one carrier.
	raceKernel = device.Typed[gruSumRacyArgs](device.Kernel{Name: "gru_sum_racy", Host: raceHost, Grain: metricBlock, PTX: metricsPTX, Threads: 256, PerBlock: metricBlock})
	// One item is one value.
	fillKernel = device.Typed[gruFillArgs](device.Kernel{Name: "gru_fill", Host: fillHost, Grain: 1 << 14, PTX: metricsPTX, Threads: 256, PerBlock: 256})
)

// metricBlock is the number of carriers in a partial sum, equal on all devices: the order of a sum decides its last
// bits.
const metricBlock = 64

// sumCost returns the cost of reducing the carriers' results to metrics, without the writes.
func sumCost(s shape) gpuprof.Cost {
	b, h := int64(s.B), int64(s.H)
	return gpuprof.Cost{Flops: b*2*h + 10*b, BytesRead: 4 * (b*h + (outputs+1)*b)}
}

func finalCost(s shape) gpuprof.Cost {
	n := int64(ceilDiv(s.B, metricBlock)) * int64(s.metrics())
	return gpuprof.Cost{Flops: n, BytesRead: 4 * n, BytesWritten: 4 * int64(s.metrics())}
}

func fillCost(n int) gpuprof.Cost { return gpuprof.Cost{BytesWritten: 4 * int64(n)} }
