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

// fusedKernel is a step of mlp in one launch. Arguments: psi, weights, out, psiAt,
// outAt, N, C, H, hwc, zero, normalise, identity, precision, tile, tau. On the host
// one item is tile cells; on CUDA it is a block of fusedWide x fusedHigh cells.
var fusedKernel = device.Kernel{Name: "grid_fused", Sig: "bbbiiiiiiiiiiif", Host: fusedHost, PTX: fusedPTX, Threads: 128, PerBlock: 1}

// The cells of a CUDA block of fusedKernel, as in fused.cu.
const (
	fusedWide = 32
	fusedHigh = 8
)

// productKernel is out = W x without a bias, over cells: x has K values a cell, out
// M. Arguments: x, weights, out, xAt, xCs, wAt, outAt, outCs, K, M, cells, hwc,
// precision, tile. W is [M,K], with hwc [K,M]. One item is tile cells.
var productKernel = device.Kernel{Name: "grid_product", Sig: "bbbiiiiiiiiiii", Host: productHost, PTX: productPTX, Threads: 256, PerBlock: 1}

// The vendor's product: a, b, out, K, N, scale. One item is one row.
var vendorKernels = map[string]*device.Kernel{
	"fp32": {Name: "gemm_fp32", Sig: "bbbiif", Lib: "gemm_fp32"},
	"tf32": {Name: "gemm_tf32", Sig: "bbbiif", Lib: "gemm_tf32"},
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
