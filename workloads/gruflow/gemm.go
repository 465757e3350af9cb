package gruflow

import (
	_ "embed"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed gemm.ptx.zst
var gemmPTX string

// gemmKernel is a matrix product with a bias, out = a w + bias:
//
//	a [rows,K], w [K,N], bias [N] -> out [rows,N]
//
// Arguments: a, w, bias, out, n, rows, K, N, aAt, tile, precision. aAt is the offset of a in elements; a and w have 16
// bits in bf16 and fp16. One item is a piece of the result with gemmPanel columns and as many rows as the argument
// tile; items of the same rows are adjacent.
var gemmKernel = device.Typed[gruGemmArgs](device.Kernel{Name: "gru_gemm", Host: gemmHost, PTX: gemmPTX, Threads: 256, PerBlock: 1})

// vendorKernels are the matrix products of the vendor's library, without a bias. A device has them if its facts name
// the library. They have no PTX, and the host device lacks them.
var vendorKernels = [...]*device.Kernel{
	fp32: device.LibraryProduct("fp32"), tf32: device.LibraryProduct("tf32"), bf16: device.LibraryProduct("bf16"), fp16: device.LibraryProduct("fp16"),
}

// gemmPanel is the number of columns of an item. That is as many as 256 GPU threads hold in registers, and a multiple
// of the host's vector width.
const gemmPanel = 64

func gemmItems(rows, n, tile int) int {
	return ceilDiv(rows, tile) * ceilDiv(n, gemmPanel)
}

func gemmCost(rows, k, n int, p precision) gpuprof.Cost {
	r, kk, nn := int64(rows), int64(k), int64(n)
	return gpuprof.Cost{Flops: 2*r*kk*nn + r*nn, BytesRead: p.bytes()*(r*kk+kk*nn) + 4*nn, BytesWritten: 4 * r * nn}
}

func vendorCost(rows, k, n int, p precision) gpuprof.Cost {
	r, kk, nn := int64(rows), int64(k), int64(n)
	return gpuprof.Cost{Flops: 2 * r * kk * nn, BytesRead: p.bytes() * (r*kk + kk*nn), BytesWritten: 4 * r * nn}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// tiles are the possible numbers of rows of an item. More rows reuse the packed panel of w more often; fewer rows give
// more items to distribute.
var tiles = [...]int{64, 128, 256, 512}

// pickTile returns the largest tile with which each core still gets itemsPerCore items.
func pickTile(rows, n, cores int) int {
	const itemsPerCore = 8
	best := tiles[0]
	for _, t := range tiles {
		if gemmItems(rows, n, t) >= itemsPerCore*cores {
			best = t
		}
	}
	return best
}
