package op

import "github.com/gpuprof/gpuprof/workloads/device"

// Candidates returns copies of t with the launch shapes to time on dev for autotuning, t itself first. The shapes
// differ in the edges per segment, and on CUDA also in the threads per block. Results of two shapes differ by rounding
// only. The unfused implementation has one shape.
func (t TensorProduct) Candidates(dev device.Device) []TensorProduct {
	all := []TensorProduct{t}
	if t.Impl == ImplUnfused {
		return all
	}
	threads := []int{0}
	if _, generated := t.generatedProduct(); dev.Info().Kind != "host" {
		if generated { // a block of the generated kernel is one warp, so also try the general kernel in its default shape
			c := t
			c.General = true
			all = append(all, c)
		} else {
			threads = []int{64, 96, 128, 192, 256}
		}
	}
	segments := []int{32, 64, 128, 256, 512}
	if t.Impl == ImplFused {
		segments = []int{t.Segment} // fused does not divide the edges into segments
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

// Candidates returns copies of g with the launch shapes to time on dev, g itself first. On CUDA they are the tile sizes
// of our own kernel, on the host device the numbers of rows per goroutine. A vendor's product chooses its own shape.
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

// Candidates returns the variants to time on dev, m itself first. If m may use a vendor's library (Library "auto"),
// does so, and rounds nothing, the second variant uses our own kernel. All further variants change the shape of our own
// kernel. Variants with the same Library give identical bits.
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
