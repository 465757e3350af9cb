package gruflow

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed persistent.ptx.zst
var persistentPTX string

// persistentKernel is a whole layer in one launch: all time steps of tile
// carriers at a time, products and pointwise part. Carriers do not depend on
// each other, so nothing waits but the carrier's own next time step.
//
//	x [T,B,K], wi [K,3H], bi [3H], wh [H,3H], bh [3H], h [B,H] -> h, out [T,B,H]
//
// Arguments: x, wi, bi, wh, bh, h, out, scratch, n, B, K, H, T, xAt, hAt,
// hasOut, precision, tile; scratch has scratchRow floats a carrier. One item
// is tile carriers.
var persistentKernel = device.Typed[gruPersistentArgs](device.Kernel{Name: "gru_persistent", Host: persistentHost, PTX: persistentPTX, Threads: 256, PerBlock: 1})

// scratchRow returns the size of a carrier's scratch: gx and gh, and its rounded inputs.
func scratchRow(k, h int, p precision) int {
	if p == fp32 {
		return 6 * h
	}
	return 6*h + int(p.words(int64(max(k, h))))
}

// persistentTiles are the carriers an item can have.
var persistentTiles = [...]int{16, 32, 64, 128, 256}

func pickPersistentTile(rows, cores int) int {
	const itemsPerCore = 4
	best := persistentTiles[0]
	for _, t := range persistentTiles {
		if ceilDiv(rows, t) >= itemsPerCore*cores {
			best = t
		}
	}
	return best
}
