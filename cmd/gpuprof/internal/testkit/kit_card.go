// Package testkit has helpers for the tests of several subcommands: a terminal, a pipe, programs that measure in turns,
// and a card of a GPU with made-up figures. Only tests import it, and it imports no package of a subcommand.
package testkit

import (
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/health"
)

// MadeUpGPU returns a health.Card with made-up figures. copyRate is the figure "copy", in B/s.
func MadeUpGPU(device string, copyRate float64) health.Card {
	return health.Card{Device: device, Name: "NVIDIA Made Up", UUID: FirstGPU, PCI: "0000:17:00.0",
		Sources:   []health.Source{{Name: health.SourceNVML, Answer: health.NoFault}, {Name: health.SourceECC, Answer: health.NoFault, Decides: true}, {Name: health.SourceLog, Answer: health.Unanswered, Text: "no permission"}},
		Condition: health.Condition{LinkWidth: 16, LinkWidthMax: 16, PowerLimitW: 500, PowerBaseW: 700},
		Metrics: []health.Metric{
			{Name: "copy", Unit: "B/s", Value: gpuprof.Number(copyRate)}, {Name: "h2d_pinned", Unit: "B/s", Value: 55e9},
			{Name: "gemm_fp32", Unit: "flop/s", Value: 50e12}, {Name: "gemm_bf16", Unit: "flop/s", Value: gpuprof.Number(math.NaN()), Why: "cuBLAS status 15"},
			{Name: "launch", Unit: "s", Value: 5.25e-6}, {Name: "sm_clock", Unit: "Hz", Value: 1.7e9}, {Name: "power", Unit: "W", Value: 499}, {Name: "temperature", Unit: "C", Value: 61},
		}}
}

// UUIDs of the devices of a test.
const (
	FirstGPU  = "GPU-1111aaaa-0000-0000-0000-000000000000"
	SecondGPU = "GPU-1111bbbb-0000-0000-0000-000000000000"
	MIGSlice  = "MIG-2222cccc-0000-0000-0000-000000000000"
)
