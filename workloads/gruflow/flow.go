package gruflow

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
)

//go:embed flow.ptx.gz
var flowPTX string

// injectKernel writes every carrier's energy to column 0 of the input of all
// time steps: x [T,B,I], energy [B]. Arguments: x, energy, n, I, B. One item
// is one row of x.
var injectKernel = gpuprof.Kernel{Name: "gru_inject", Sig: "bbiii", Host: injectHost, Grain: 4096, PTX: flowPTX, Threads: 256, PerBlock: 256}

// flowKernel projects the top layer's state and moves the carriers a level
// down; refFlow is the formula.
//
// Arguments: proj [outputs,H], bias [outputs], h [L,B,H], energy [B],
// level [B], place [B,2], source [B], out [B,outputs], n, B, H, L, D. One item
// is one carrier.
var flowKernel = gpuprof.Kernel{Name: "gru_flow", Sig: "bbbbbbbbiiiii", Host: flowHost, Grain: 32, PTX: flowPTX, Threads: 128, PerBlock: 4}

// moveKernel is the same for a projection p [B,outputs] that a matrix product
// made. Arguments: p, h, energy, level, place, source, out, n, B, H, L, D.
var moveKernel = gpuprof.Kernel{Name: "gru_move", Sig: "bbbbbbbiiiii", Host: moveHost, Grain: 32, PTX: flowPTX, Threads: 128, PerBlock: 128}

func injectCost(n int) gpuprof.Cost {
	return gpuprof.Cost{BytesRead: 4 * int64(n), BytesWritten: 4 * int64(n)}
}

// Flops of one carrier's update: a sigmoid, two tanh and their sums.
const moveFlops = 4 + 2 + 2*(2+2)

// moveCost counts on average one carrier of D clearing its state.
func moveCost(s shape) gpuprof.Cost {
	b := int64(s.B)
	cleared := int64(s.L) * int64(s.H) * b / int64(s.D)
	return gpuprof.Cost{Flops: moveFlops * b, BytesRead: 4 * (outputs + 4 + 1) * b, BytesWritten: 4*(outputs+4)*b + 4*cleared}
}

func flowCost(s shape) gpuprof.Cost {
	b, h := int64(s.B), int64(s.H)
	c := moveCost(s)
	c.Flops += b * outputs * (2*h + 1)
	c.BytesRead += 4*(b*h+outputs*h+outputs) - 4*outputs*b // the projection is not read but made
	return c
}
