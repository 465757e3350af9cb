package gridsim

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed cell.ptx.zst
var cellPTX string

// Kernels over cells. Of an array argument x, xAt is the first element and xCs the distance between channels in
// elements. With hwc the channels are adjacent, and cells are as many elements apart as there are channels. One item is
// one cell of a chunk unless a comment names another unit.
var (
	// Mean K over the eight neighbours. psi is the whole grid, out a chunk that begins at cell first. With concat out
	// has 2C channels: psi and K psi.
	neighboursKernel = cellKernel[gridNeighboursArgs]("grid_neighbours", neighboursHost)
	concatKernel     = cellKernel[gridConcatArgs]("grid_concat", concatHost)
	// y = elu(x + bias), or with identity x + bias.
	activateKernel = cellKernel[gridActivateArgs]("grid_activate", activateHost)
	// u = psi + tau (delta + bias).
	updateKernel = cellKernel[gridUpdateArgs]("grid_update", updateHost)
	// The same u as updateKernel; with normalise, u divided by sqrt(sum u^2 + tiny). It is the last kernel of impl=gemm.
	finishKernel = cellKernel[gridFinishArgs]("grid_finish", updateHost)
	// y = x^2. One item is one value.
	squareKernel = cellKernel[gridSquareArgs]("grid_square", squareHost)
	sumKernel    = cellKernel[gridSumArgs]("grid_sum", sumHost)
	// y = sqrt(x + tiny).
	rootKernel   = cellKernel[gridRootArgs]("grid_root", rootHost)
	divideKernel = cellKernel[gridDivideArgs]("grid_divide", divideHost)
	// u = psi + tau (K - psi) with the mean K of neighboursKernel, for law diffuse.
	relaxKernel = cellKernel[gridRelaxArgs]("grid_relax", relaxHost)
	// Law diffuse in one kernel.
	diffuseKernel = cellKernel[gridDiffuseArgs]("grid_diffuse", diffuseHost)
	// Law walk along one axis (0 or 1) or, with axis 2, along both. Items begin at cell first.
	walkKernel = cellKernel[gridWalkArgs]("grid_walk", walkHost)
	// Maps of a frame. One item is one pixel; out is [maps,(N/scale)^2].
	mapsKernel = cellKernel[gridMapsArgs]("grid_maps", mapsHost)
	// Copies a region that begins at cell (0,0). One item is one cell of the region.
	cropKernel = cellKernel[gridCropArgs]("grid_crop", cropHost)
	// Overwrites values with NaN, so that a check finds values that no kernel wrote. One item is one value.
	poisonKernel = cellKernel[gridPoisonArgs]("grid_poison", poisonHost)
)

func cellKernel[T any](name string, host func(*device.Args, int, int)) device.Kernel {
	return device.Typed[T](device.Kernel{Name: name, Host: host, Grain: 2048, PTX: cellPTX, Threads: 256, PerBlock: 256})
}

// wordCost returns the cost of a number of cells; flops, and reads and writes of float32 values, are per cell.
func wordCost(cells, flops, reads, writes int) gpuprof.Cost {
	n := int64(cells)
	return gpuprof.Cost{Flops: n * int64(flops), BytesRead: 4 * n * int64(reads), BytesWritten: 4 * n * int64(writes), Launches: 1}
}
