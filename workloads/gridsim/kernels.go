package gridsim

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed cell.ptx.zst
var cellPTX string

// The operations of split, each a kernel over cells. at is the offset of an array with several values per cell, and cs
// the distance of its channels, in elements; with hwc cs is 1 and the distance of cells is the number of channels. One
// item is one cell of a chunk, unless a comment gives another unit.
var (
	// K is the mean over the eight neighbours. Arguments: psi, out, psiAt, outAt,
	// outCs, N, C, first, hwc, zero, concat. psi is the whole grid, out a chunk that
	// begins at cell first. With concat out has 2C channels, psi and K psi.
	neighboursKernel = cellKernel("grid_neighbours", "bbiiiiiiiii", neighboursHost)
	// Arguments: psi, k, out, psiAt, psiCs, kAt, kCs, outAt, outCs, C, hwc.
	concatKernel = cellKernel("grid_concat", "bbbiiiiiiii", concatHost)
	// y = elu(x + bias), or x + bias with identity. Arguments: x, weights, out, xAt,
	// xCs, biasAt, outAt, outCs, H, hwc, identity.
	activateKernel = cellKernel("grid_activate", "bbbiiiiiiii", activateHost)
	// u = psi + tau (delta + bias). Arguments: psi, delta, weights, out, psiAt, psiCs,
	// deltaAt, deltaCs, biasAt, outAt, outCs, C, hwc, normalise, tau.
	updateKernel = cellKernel("grid_update", "bbbbiiiiiiiiiif", updateHost)
	// The same, and with normalise divided by sqrt(sum u^2 + tiny): the end of gemm.
	finishKernel = cellKernel("grid_finish", "bbbbiiiiiiiiiif", updateHost)
	// Arguments: x, out, xAt, outAt. One item is one value.
	squareKernel = cellKernel("grid_square", "bbii", squareHost)
	// Arguments: x, out, xAt, xCs, outAt, C, hwc.
	sumKernel = cellKernel("grid_sum", "bbiiiii", sumHost)
	// y = sqrt(x + tiny). Arguments: x, out, xAt, outAt.
	rootKernel = cellKernel("grid_root", "bbii", rootHost)
	// Arguments: u, root, out, uAt, uCs, rootAt, outAt, outCs, C, hwc.
	divideKernel = cellKernel("grid_divide", "bbbiiiiiii", divideHost)
	// psi + tau (K - psi), of diffuse. Arguments: psi, k, out, psiAt, psiCs, kAt, kCs,
	// outAt, outCs, C, hwc, tau.
	relaxKernel = cellKernel("grid_relax", "bbbiiiiiiiif", relaxHost)
	// diffuse in one kernel. Arguments: psi, out, psiAt, outAt, N, C, hwc, zero, tau.
	diffuseKernel = cellKernel("grid_diffuse", "bbiiiiiif", diffuseHost)
	// walk along one axis (0 or 1) or, with axis 2, both. Arguments: psi, out, psiAt,
	// outAt, N, C, hwc, axis, first, cos, sin. The item is a cell from first on.
	walkKernel = cellKernel("grid_walk", "bbiiiiiiiff", walkHost)
	// A frame. Arguments: psi, before, out, psiAt, beforeAt, N, C, hwc, maps, scale.
	// One item is one pixel; out is [maps,(N/scale)^2].
	mapsKernel = cellKernel("grid_maps", "bbbiiiiiii", mapsHost)
	// A region from cell (0,0) on. Arguments: psi, out, psiAt, outAt, N, C, width,
	// height, hwc. One item is one cell of the region.
	cropKernel = cellKernel("grid_crop", "bbiiiiiii", cropHost)
	// NaN for a check. Arguments: out, at, value. One item is one value.
	poisonKernel = cellKernel("grid_poison", "bif", poisonHost)
)

func cellKernel(name, sig string, host func(*device.Args, int, int)) device.Kernel {
	return device.Kernel{Name: name, Sig: sig, Host: host, Grain: 2048, PTX: cellPTX, Threads: 256, PerBlock: 256}
}

// wordCost returns the cost of cells cells at flops, reads and writes of float32 values each.
func wordCost(cells, flops, reads, writes int) gpuprof.Cost {
	n := int64(cells)
	return gpuprof.Cost{Flops: n * int64(flops), BytesRead: 4 * n * int64(reads), BytesWritten: 4 * n * int64(writes), Launches: 1}
}
