package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Candidates returns the launch shapes worth trying on dev, the product's own first: bind each, time it, keep the
// fastest. On CUDA they vary the threads per block and the edges per segment, on the host device the edges per
// segment; the results of two shapes differ by rounding only (unfused has one shape).
func (t TensorProduct) Candidates(dev device.Device) []TensorProduct {
	all := []TensorProduct{t}
	if t.Impl == ImplUnfused {
		return all
	}
	threads := []int{0}
	if _, generated := t.generatedProduct(); dev.Info().Kind != "host" {
		if generated { // its block is a warp; the general kernel as it is by default is a candidate too
			c := t
			c.General = true
			all = append(all, c)
		} else {
			threads = []int{64, 96, 128, 192, 256}
		}
	}
	segments := []int{32, 64, 128, 256, 512}
	if t.Impl == ImplFused {
		segments = []int{t.Segment} // it has none
	}
	for _, n := range threads {
		for _, s := range segments {
			c := t
			c.Segment = s
			if n > 0 {
				c.Threads = n
			}
			if c.Check() == nil && (c.blockThreads() != t.blockThreads() || c.segmentLength() != t.segmentLength()) {
				all = append(all, c)
			}
		}
	}
	return all
}

// Candidates returns the launch shapes worth trying on dev, the product's own first: the tile of our own kernel on
// CUDA, the rows per goroutine on the host device. The vendor's product chooses its own shape.
func (g Gemm) Candidates(dev device.Device) []Gemm {
	all := []Gemm{g}
	info := loadLibraries(dev)
	if vendor, err := g.needsVendor(info); vendor || err != nil {
		return all
	}
	if info.Kind == "host" {
		for _, grain := range []int{4, 8, 16, 32, 64, 128} {
			if c := g; grain != max(g.Grain, gemmKernel.Grain) {
				c.Grain = grain
				all = append(all, c)
			}
		}
		return all
	}
	for _, tile := range []int{64, 128} {
		if c := g; tile != g.Tile {
			c.Tile = tile
			all = append(all, c)
		}
	}
	return all
}

// Candidates returns the variants worth trying on dev, the MLP's own first: the vendor's products where the library
// is chosen automatically and nothing is rounded, and the shapes of our own. Variants with the same Library give
// identical bits.
func (m MLP) Candidates(dev device.Device) []MLP {
	all := []MLP{m}
	_, second := m.gemmLayers() // by far the larger
	auto := m.Library == "" || m.Library == "auto"
	if auto && second.precisionName() == FP32 && second.UsesVendor(dev) {
		m.Library = "off"
		second.Library = "off"
		all = append(all, m)
	}
	for _, g := range second.Candidates(dev)[1:] {
		c := m
		c.Tile, c.Grain = g.Tile, g.Grain
		all = append(all, c)
	}
	return all
}
