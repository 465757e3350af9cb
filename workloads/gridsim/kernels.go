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
	// K is the mean over the eight neighbours. psi is the whole grid, out a chunk that begins at cell first. With
	// concat out has 2C channels, psi and K psi.
	neighboursKernel = cellKernel[gridNeighboursArgs]("grid_neighbours", neighboursHost)
	concatKernel     = cellKernel[gridConcatArgs]("grid_concat", concatHost)
	// y = elu(x + bias), or x + bias with identity.
	activateKernel = cellKernel[gridActivateArgs]("grid_activate", activateHost)
	// u = psi + tau (delta + bias).
	updateKernel = cellKernel[gridUpdateArgs]("grid_update", updateHost)
	// The same, and with normalise divided by sqrt(sum u^2 + tiny): the end of gemm.
	finishKernel = cellKernel[gridFinishArgs]("grid_finish", updateHost)
	// One item is one value.
	squareKernel = cellKernel[gridSquareArgs]("grid_square", squareHost)
	sumKernel    = cellKernel[gridSumArgs]("grid_sum", sumHost)
	// y = sqrt(x + tiny).
	rootKernel   = cellKernel[gridRootArgs]("grid_root", rootHost)
	divideKernel = cellKernel[gridDivideArgs]("grid_divide", divideHost)
	// psi + tau (K - psi), of diffuse.
	relaxKernel = cellKernel[gridRelaxArgs]("grid_relax", relaxHost)
	// diffuse in one kernel.
	diffuseKernel = cellKernel[gridDiffuseArgs]("grid_diffuse", diffuseHost)
	// walk along one axis (0 or 1) or, with axis 2, both. The item is a cell from first on.
	walkKernel = cellKernel[gridWalkArgs]("grid_walk", walkHost)
	// A frame. One item is one pixel; out is [maps,(N/scale)^2].
	mapsKernel = cellKernel[gridMapsArgs]("grid_maps", mapsHost)
	// A region from cell (0,0) on. One item is one cell of the region.
	cropKernel = cellKernel[gridCropArgs]("grid_crop", cropHost)
	// NaN for a check. One item is one value.
	poisonKernel = cellKernel[gridPoisonArgs]("grid_poison", poisonHost)
)

func cellKernel[T any](name string, host func(*device.Args, int, int)) device.Kernel {
	return device.Typed[T](device.Kernel{Name: name, Host: host, Grain: 2048, PTX: cellPTX, Threads: 256, PerBlock: 256})
}

// wordCost returns the cost of cells cells at flops, reads and writes of float32 values each.
func wordCost(cells, flops, reads, writes int) gpuprof.Cost {
	n := int64(cells)
	return gpuprof.Cost{Flops: n * int64(flops), BytesRead: 4 * n * int64(reads), BytesWritten: 4 * n * int64(writes), Launches: 1}
}
