package gruflow

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed flow.ptx.zst
var flowPTX string

// injectKernel writes the energy [B] of every carrier, a row of the batch, to column 0 of its input x [T,B,I] at all
// time steps. One item is one row of x.
var injectKernel = device.Typed[gruInjectArgs](device.Kernel{Name: "gru_inject", Host: injectHost, Grain: 4096, PTX: flowPTX, Threads: 256, PerBlock: 256})

// flowKernel projects the top layer's state and moves the carriers (rows of the batch) down by one level; refFlow is
// the formula.
//
// Arguments: proj [outputs,H], bias [outputs], h [L,B,H], energy [B],
// level [B], place [B,2], source [B], out [B,outputs], path [B,pathWords], n, B,
// H, L, D, keeps. path is written where keeps is 1. One item is one carrier.
var flowKernel = device.Typed[gruFlowArgs](device.Kernel{Name: "gru_flow", Host: flowHost, Grain: 32, PTX: flowPTX, Threads: 128, PerBlock: 4})

// moveKernel moves the carriers (rows of the batch) down by one level like flowKernel. It reads the projection p
// [B,outputs] of their states, which a matrix product has computed, while flowKernel computes it.
var moveKernel = device.Typed[gruMoveArgs](device.Kernel{Name: "gru_move", Host: moveHost, Grain: 32, PTX: flowPTX, Threads: 128, PerBlock: 128})

// Columns of path, which holds for each carrier (row of the batch) the values that the backward pass of a level reads.
// They are the energy before the level, the deposited share of it, and the tanh of both components of the drift.
const (
	pathEnergy = iota
	pathShare
	pathX
	pathY
	pathWords
)

// flowBackKernel is the backward pass of moving every carrier (row of the batch) down by one level; refFlowBack is the
// formula. de [B] and dplace [B,2] are cotangents of energy and place: after the move on entry, before the move on
// return. ddose [D+1] holds the cotangents of a deposit at each level and, last, of the energy that leaves. The kernel
// writes the cotangents dp [B,outputs] of the projection and dh [B,H] = proj^T dp of the top layer's state. level [B]
// holds the carriers' present levels; ago is the number of moves after the move that this kernel undoes. One item is
// one carrier.
var flowBackKernel = device.Typed[gruFlowBwdArgs](device.Kernel{Name: "gru_flow_bwd", Host: flowBackHost, Grain: 32, PTX: flowPTX, Threads: 128, PerBlock: 4})

// lossKernel computes refLoss and the cotangents from which the backward pass starts. It reads place [B,2] and the
// metrics of all levels [levels,width], whose doses (the sums of deposits at each level) begin at column fixed. It
// writes ddose [D+1], dplace [B,2], de [B] (zero) and the terms losses [D+B] of the loss, which a later launch sums.
// Arguments: metrics, target [D], place, ddose, dplace, de, losses, n, D, levels, width, fixed, kappa. One item is one
// term.
var lossKernel = device.Typed[gruLossArgs](device.Kernel{Name: "gru_loss", Host: lossHost, Grain: 1024, PTX: flowPTX, Threads: 256, PerBlock: 256})

// flowBackCost counts 24 flops per carrier, and two per weight of the projection for the cotangent of the state.
func flowBackCost(s shape) gpuprof.Cost {
	b, h := int64(s.B), int64(s.H)
	return gpuprof.Cost{Flops: 24*b + 2*outputs*b*h, BytesRead: 4 * (outputs*h + (pathWords+1+3)*b + int64(s.D) + 1), BytesWritten: 4 * (b*h + (outputs+3)*b)}
}

func lossCost(s shape, levels int) gpuprof.Cost {
	b, d, w := int64(s.B), int64(s.D), int64(levels)
	return gpuprof.Cost{Flops: d*(w+3) + 7*b, BytesRead: 4 * (d*(w+1) + 2*b), BytesWritten: 4 * (2*d + 1 + 4*b)}
}

func injectCost(n int) gpuprof.Cost {
	return gpuprof.Cost{BytesRead: 4 * int64(n), BytesWritten: 4 * int64(n)}
}

// Flops of one carrier's update: a sigmoid, two tanh, and their sums.
const moveFlops = 4 + 2 + 2*(2+2)

// moveCost returns the cost of moving all carriers (rows of the batch) by one level in the mean case: one carrier in D
// leaves and clears its state.
func moveCost(s shape) gpuprof.Cost {
	b := int64(s.B)
	cleared := int64(s.L) * int64(s.H) * b / int64(s.D)
	return gpuprof.Cost{Flops: moveFlops * b, BytesRead: 4 * (outputs + 4 + 1) * b, BytesWritten: 4*(outputs+4)*b + 4*cleared}
}

func flowCost(s shape) gpuprof.Cost {
	b, h := int64(s.B), int64(s.H)
	c := moveCost(s)
	c.Flops += b * outputs * (2*h + 1)
	c.BytesRead += 4*(b*h+outputs*h+outputs) - 4*outputs*b // the projection is computed, not read
	return c
}
