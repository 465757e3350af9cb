package gruflow

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed backward.ptx.zst
var backwardPTX string

// Kernels of back-propagation through time; refCellBack has the formulas. The recorded arrays states and kept have the
// precision's width: 16 bits with bf16 and fp16. The argument at is the offset of a time step in states, in elements.
// level holds the present levels of the carriers (rows of the batch), ago the number of moves by one level since the
// recorded one. With depth 0 no carrier leaves.
var (
	// Forward cell that records the inputs of the backward pass. To the products gx and gh [B,3H] it adds the biases bx
	// and bh if biased is 1. From the sums it computes the next state, and rows r, z, n and u = W_hn h + b_hn of kept
	// [B,4H]. states [T+1,B,H] has the old state of each step before its new state. If states has 16 bits, h holds the
	// state in float32. One item is one unit, here and in the next three kernels.
	keepKernel = device.Typed[gruKeepArgs](device.Kernel{Name: "gru_keep", Host: keepHost, Grain: 4096, PTX: backwardPTX, Threads: 256, PerBlock: 256})
	// Backward cell. The cotangent of the new state is dh + chain [B,H], but 0 for a carrier that left after step last;
	// from step first on, dout [T-first,B,H] is added. On return dh is the cotangent of the old state, except for the part
	// through the products, and gx and gh [B,3H] are the operands of the backward products.
	cellBackKernel = device.Typed[gruCellBwdArgs](device.Kernel{Name: "gru_cell_bwd", Host: cellBackHost, Grain: 4096, PTX: backwardPTX, Threads: 256, PerBlock: 256})
	// Sets the state of each carrier that left to 0, in states and in h.
	leaveKernel = device.Typed[gruLeaveArgs](device.Kernel{Name: "gru_leave", Host: leaveHost, Grain: 4096, PTX: backwardPTX, Threads: 256, PerBlock: 256})
	// Inverse of leaveKernel: recomputes the cleared state from the preceding state and from kept.
	restoreKernel = device.Typed[gruRestoreArgs](device.Kernel{Name: "gru_restore", Host: restoreHost, Grain: 4096, PTX: backwardPTX, Threads: 256, PerBlock: 256})
	// out [K,rows] = transpose of p [rows,K], rounded to a precision and stored in its width. One item is one value.
	transposeKernel = device.Typed[gruTurnArgs](device.Kernel{Name: "gru_turn", Host: turnHost, Grain: 4096, PTX: backwardPTX, Threads: 256, PerBlock: 256})
	// Cotangent of the energy, which is column 0 of the first layer's input: de [B] += sum over steps of gx [T,B,3H] w
	// [3H], with the products' cotangent gx and that column w of the weights. One item is one carrier, a row of the batch.
	energyBackKernel = device.Typed[gruEnergyBwdArgs](device.Kernel{Name: "gru_energy_bwd", Host: energyBackHost, Grain: 16, PTX: backwardPTX, Threads: 128, PerBlock: 4})
	// db [M] is the sum of the rows of g [rows,M], in chunks of gradChunk rows; if add is 1 it is added to db. One item is
	// one column.
	biasKernel = device.Typed[gruBiasArgs](device.Kernel{Name: "gru_bias", Host: biasHost, Grain: biasSide, PTX: backwardPTX, Threads: 64, PerBlock: 64})
)

const (
	// gradChunk is the number of rows in one float32 sum, as in op.Outer.
	gradChunk = 4096
	biasSide  = 64 // number of columns that the host sums together
)

// keepCost returns the cost of n units of keepKernel, each of which writes four recorded values and its state.
func keepCost(n, biases int, p precision) gpuprof.Cost {
	c := cellCost(n, biases, false)
	c.BytesWritten = 5 * p.bytes() * int64(n)
	if p.isNarrow() {
		c.BytesWritten += 4 * int64(n)
	}
	return c
}

// cellBackFlops counts the operations of one unit of cellBackKernel: the sums of the cotangent, products, differences,
// and the derivatives of the gates.
const cellBackFlops = 19

// cellBackCost returns the cost of n units of cellBackKernel. A unit reads four recorded values, the state, dh and
// chain, and douts (0 or 1) values of dout. It writes six gates and a cotangent.
func cellBackCost(n int, p precision, douts int) gpuprof.Cost {
	return gpuprof.Cost{Flops: cellBackFlops * int64(n), BytesRead: (5*p.bytes() + 4*int64(2+douts)) * int64(n), BytesWritten: 4 * 7 * int64(n)}
}

// leaveCost returns the cost of leaveKernel in the mean case: one carrier (row of the batch) in D leaves and clears its
// state.
func leaveCost(s shape, p precision) gpuprof.Cost {
	c := gpuprof.Cost{BytesRead: 4 * int64(s.B)}
	if s.D > 0 {
		c.BytesWritten = p.bytes() * int64(s.B) * int64(s.H) / int64(s.D)
	}
	return c
}

func restoreCost(s shape, p precision) gpuprof.Cost {
	c := leaveCost(s, p)
	c.BytesRead += 3 * c.BytesWritten
	c.Flops = 3 * int64(s.B) * int64(s.H) / int64(s.D)
	return c
}

func turnCost(n int, p precision) gpuprof.Cost {
	return gpuprof.Cost{BytesRead: 4 * int64(n), BytesWritten: p.bytes() * int64(n)}
}

func energyBackCost(rows, gates int, p precision) gpuprof.Cost {
	n := int64(rows) * int64(gates)
	return gpuprof.Cost{Flops: 2 * n, BytesRead: 4*n + p.bytes()*int64(gates), BytesWritten: 4 * int64(rows)}
}

func biasCost(rows, m int) gpuprof.Cost {
	n := int64(rows) * int64(m)
	return gpuprof.Cost{Flops: n, BytesRead: 4 * n, BytesWritten: 4 * int64(m)}
}
