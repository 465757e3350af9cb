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

// fusedKernel computes a step of law mlp in one launch. On the host device one item has as many cells as tile; on
// CUDA it is a block of fusedWide x fusedHigh cells.
var fusedKernel = device.Typed[gridFusedArgs](device.Kernel{Name: "grid_fused", Host: fusedHost, PTX: fusedPTX, Threads: 128, PerBlock: 1})

// Size of fusedKernel's block of cells on CUDA, as in fused.cu.
const (
	fusedWide = 32
	fusedHigh = 8
)

// productKernel computes out = W x for every cell, without a bias: K values x, M values out. W is [M,K], with hwc
// [K,M]. One item has as many cells as tile.
var productKernel = device.Typed[gridProductArgs](device.Kernel{Name: "grid_product", Host: productHost, PTX: productPTX, Threads: 256, PerBlock: 1})

var vendorKernels = map[string]*device.Kernel{
	"fp32": device.LibraryProduct("fp32"), "tf32": device.LibraryProduct("tf32"),
}

// tiles are the possible numbers of cells in an item of the host kernels, or in a block of productKernel.
var tiles = [...]int{256, 128, 512, 1024}

// precisions lists the precisions; an index here is the precision's number in grid.cuh.
var precisions = []string{"fp32", "tf32", "bf16", "fp16"}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func productCost(cells, k, m int, precision string) gpuprof.Cost {
	c := wordCost(cells, 2*k*m, k, m)
	c.BytesRead += 4 * int64(k) * int64(m)
	return c.In(precision, c.Flops)
}
