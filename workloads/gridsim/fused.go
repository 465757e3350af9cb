package gridsim

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed fused.ptx.zst
var fusedPTX string

//go:embed product.ptx.zst
var productPTX string

// fusedKernel is a step of mlp in one launch. On the host one item is tile cells; on CUDA it is a block of fusedWide
// x fusedHigh cells.
var fusedKernel = device.Typed[gridFusedArgs](device.Kernel{Name: "grid_fused", Host: fusedHost, PTX: fusedPTX, Threads: 128, PerBlock: 1})

// The cells of a CUDA block of fusedKernel, as in fused.cu.
const (
	fusedWide = 32
	fusedHigh = 8
)

// productKernel is out = W x without a bias, over cells: x has K values a cell, out M. W is [M,K], with hwc [K,M].
// One item is tile cells.
var productKernel = device.Typed[gridProductArgs](device.Kernel{Name: "grid_product", Host: productHost, PTX: productPTX, Threads: 256, PerBlock: 1})

// The vendor's products.
var vendorKernels = map[string]*device.Kernel{
	"fp32": device.LibraryProduct("fp32"), "tf32": device.LibraryProduct("tf32"),
}

// tiles are the cells that an item of the host's kernels, or a block of the
// product, can take.
var tiles = [...]int{256, 128, 512, 1024}

// precisions are numbered as in grid.cuh.
var precisions = []string{"fp32", "tf32", "bf16", "fp16"}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// productCost returns the cost of a product of K by M values per cell.
func productCost(cells, k, m int, precision string) gpuprof.Cost {
	c := wordCost(cells, 2*k*m, k, m)
	c.BytesRead += 4 * int64(k) * int64(m)
	return c.In(precision, c.Flops)
}
