package e3nn

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// batchRotation returns the number of input batches through which a run rotates, so that no batch is still in the cache
// when its turn comes. It is five cache sizes divided by the bytes that a step touches, rounded up, plus one.
func (s *session) batchRotation(cache int64) int {
	perEdge := 4 + 4 + 12 + 4*(s.model.LMax+1)*(s.model.LMax+1)
	if s.goesBack() {
		perEdge += 2 * 4 * basisSize
	}
	for i := range s.model.Layers {
		perEdge += 2*4*mlpHidden + 2*4*s.columns(i)
	}
	return int(math.Ceil(5*float64(cache)/float64(perEdge*s.in.edges[0]))) + 1
}

// countMemory returns the bytes that a session with batches of up to e edges needs, without allocating them. Batches and
// the memory of graphs are not in it.
func (s *session) countMemory(ctx context.Context, e int64) (int64, error) {
	return op.Need(s.dev, func(d device.Device) error {
		c := &session{
			dev: d, k: s.k, seed: s.seed, model: s.model, in: s.in, layout: s.layout, rows: s.rows, edges: int(e),
			Pace: s.Pace, mem: op.Arena{Dev: d}, mlps: slices.Clone(s.mlps), products: slices.Clone(s.products),
		}
		if err := c.allocate(); err != nil {
			return err
		}
		return c.bindOperations(ctx)
	})
}

// checkMemory refuses a session that needs more than the device has left, times the argument slack.
func (s *session) checkMemory(ctx context.Context, e, slack int64) error {
	need, err := s.countMemory(ctx, e)
	if left := s.dev.Memory().Available; need > slack*left {
		return s.tooLarge(e, need, left)
	}
	return err
}

// tooLarge returns the error for a session that needs more than the memory left on the device. The fix names the knobs
// that decide the size. If a step of this size cannot be bound, need is only a lower limit.
func (s *session) tooLarge(e, need, left int64) error {
	leaner := ""
	if s.k.Impl == op.ImplUnfused {
		leaner = ", or impl=csr, which keeps nothing per edge but the weights"
	} else if s.goesBack() && s.k.Recompute != recomputeAll {
		leaner = ", or recompute=all, which keeps nothing for the way back"
	}
	return device.Short(s.dev, gpuprof.Errorf(gpuprof.ErrMemory, "%d points with %d edges and mul=%d need at least %s, and the device has %s left", s.rows, e, s.k.Mul, gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left))).WithFix("use a smaller --set batch, edges or mul%s", leaner))
}

// allocate allocates all memory except what operations own.
func (s *session) allocate() error {
	if err := s.Open(s.dev); err != nil {
		return err
	}
	for i := range s.slots {
		if err := s.slots[i].allocate(s); err != nil {
			return err
		}
	}
	s.allocateDevice()
	s.uploadParams()
	s.placeResults()
	if s.k.Trains() {
		s.params.target = s.drawTarget()
		if err := s.openTraining(); err != nil {
			return err
		}
	}
	s.Item = s.mem.Words("the item buffer", 1, device.Pageable)
	return s.mem.Err
}

func (sl *slot) allocate(s *session) error {
	make1 := func(p device.Place, e int64) edgeBuffers {
		b := edgeBuffers{
			src: s.mem.Words("edge sources", e, p), dst: s.mem.Words("edge destinations", e, p),
			rowptr: s.mem.Words("row starts", int64(s.rows)+1, p), vec: s.mem.Words("edge vectors", 3*e, p),
		}
		if s.goesBack() {
			b.colptr = s.mem.Words("source starts", int64(len(s.in.crystal.Positions))+2, p)
			b.perm = s.mem.Words("edges by source", int64(s.edges), p)
		}
		return b
	}
	host := device.Pinned
	if !s.k.Pinned {
		host = device.Pageable
	}
	// The host buffers also hold a row that begins before the limit of edges per batch and ends after it.
	sl.host, sl.dev = make1(host, int64(s.edges+s.in.maxRow)), make1(device.OnDevice, int64(s.edges))
	sl.out = s.mem.Words("the result", s.resultWords(), host)
	if s.goesBack() && !s.k.Trains() {
		sl.energy = s.mem.Words("the energy", 1, host)
	}
	if s.mem.Err != nil {
		return s.mem.Err
	}
	return sl.Open(s.dev)
}

func (s *session) allocateDevice() {
	for _, r := range s.requests(int64(s.edges)) {
		b := s.mem.Words(r.what, r.words, device.OnDevice)
		for _, to := range r.to {
			*to = b
		}
	}
}

// uploadParams draws features and weights from the seed, normal with unit variance as every layer assumes, and copies
// them to the device.
func (s *session) uploadParams() {
	rng, heads := rand.New(rand.NewPCG(s.seed, 2)), rand.New(rand.NewPCG(s.seed, 4))
	normal := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			if op.Counts(s.dev) {
				break
			}
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	p := &s.params
	for i, l := range s.model.Layers {
		x := normal(len(s.in.crystal.Positions) * l.In.Dim())
		w1, w2 := normal(basisSize*mlpHidden), normal(mlpHidden*l.TP.WeightNumel())
		mix := normal(l.Linear.WeightNumel())
		p.x, p.w1, p.w2, p.mix = append(p.x, x), append(p.w1, w1), append(p.w2, w2), append(p.mix, mix)
		s.layers = append(s.layers, layerBuffers{
			x:  s.mem.Upload(s.Compute, "atom features", s.storedFeatures(i)),
			w1: s.mem.Upload(s.Compute, "MLP weights", w1), w2: s.mem.Upload(s.Compute, "MLP weights", op.Arrange(s.products[i], w2)),
			mix: s.mem.Upload(s.Compute, "linear weights", mix),
			out: s.mem.Words("layer output", int64(s.rows)*int64(l.Out.Dim()), device.OnDevice),
		})
		if s.goesBack() {
			p.readout = append(p.readout, l.drawReadout(heads))
			s.layers[i].readout = s.mem.Upload(s.Compute, "readout", p.readout[i])
		}
	}
}
