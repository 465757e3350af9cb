package gruflow

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed cell.ptx.zst
var cellPTX string

// cellKernel computes the pointwise part of a GRU step in one launch. gx and gh [B,3H] are the products of the input
// and of the state. Their gates are in the order r, z, n. The kernel adds bx and bh [3H] to products that lack their
// biases. It then computes
//
//	r = sigma(gx_r + gh_r), z = sigma(gx_z + gh_z), n = tanh(gx_n + r gh_n)
//	h = n + z (h - n)
//
// in place, and also into out if there is one.
//
// Arguments: gx, gh, bx, bh, h, out, n, H, gxAt, hAt, outAt, biased. Each At is its array's offset in elements; outAt
// is -1 without out. One item is one unit of one carrier.
var cellKernel = device.Typed[gruCellArgs](device.Kernel{Name: "gru_cell", Host: cellHost, Grain: 4096, PTX: cellPTX, Threads: 256, PerBlock: 256})

// cellFlops is the number of flops of one unit. A sigmoid counts 4 and a tanh 2, in which the exponential counts 1.
const cellFlops = (1 + 4) + (1 + 4) + (2 + 2) + 3

// cellCost returns the cost of n units that read this many bias values: 6H, or 0 if the products include the biases.
func cellCost(n, biases int, copies bool) gpuprof.Cost {
	c := gpuprof.Cost{Flops: cellFlops * int64(n), BytesRead: 4 * (7*int64(n) + int64(biases)), BytesWritten: 4 * int64(n)}
	if biases > 0 {
		c.Flops += 6 * int64(n)
	}
	if copies {
		c.BytesWritten *= 2
	}
	return c
}

// The plain cell has one kernel for each operation on [B,H] arrays, like an eager cell. Arguments: a, b, out, n, H,
// aAt, aRow, bAt, bRow, outAt, outRow; At is an array's offset and Row the distance between its rows, in elements.
// One item is one unit of one carrier; kernels with one operand ignore b.
var (
	addKernel     = newElementwise("gru_add", addHost)
	subKernel     = newElementwise("gru_sub", subHost)
	mulKernel     = newElementwise("gru_mul", mulHost)
	sigmoidKernel = newElementwise("gru_sigmoid", sigmoidHost)
	tanhKernel    = newElementwise("gru_tanh", tanhHost)
	copyKernel    = newElementwise("gru_copy", copyHost)
)

func newElementwise(name string, host func(*device.Args, int, int)) device.Kernel {
	return device.Typed[elementwiseArgs](device.Kernel{Name: name, Host: host, Grain: 4096, PTX: cellPTX, Threads: 256, PerBlock: 256})
}

// elementwiseCost returns the cost of n outputs, each of which reads this many operands and takes this many flops.
func elementwiseCost(n, flops, operands int) gpuprof.Cost {
	return gpuprof.Cost{Flops: int64(n) * int64(flops), BytesRead: 4 * int64(n) * int64(operands), BytesWritten: 4 * int64(n)}
}
