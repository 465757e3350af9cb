package e3nn

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"

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

// memoryNeed returns the number of bytes that a session with batches of e edges allocates, computed before any
// allocation. The argument row is the largest number of edges of a row.
func (s *session) memoryNeed(e, row int64) int64 {
	rows, atoms := int64(s.rows), int64(len(s.in.crystal.Positions))
	words := 2 * depth * (5*(e+row) + rows + 1)
	for _, r := range s.requests(e) {
		words += r.words
	}
	var scratch int64
	for i, l := range s.model.Layers {
		words += atoms*int64(l.In.Dim()) + basisSize*mlpHidden + mlpHidden*int64(s.columns(i)) + int64(l.Linear.WeightNumel()) + rows*int64(l.Out.Dim())
		scratch += s.mlpScratch(i, e) + s.productScratch(i, e) + l.Linear.Scratch(s.rows) + l.Gate.Scratch()
	}
	words += depth * s.resultWords()
	if s.overlapsResults() {
		words += (depth - 1) * s.resultWords()
	}
	if s.goesBack() {
		words += 2 * depth * (e + atoms + 2) // edges by source
		if !s.k.Trains() {
			words += depth // the energy
		}
		more, least := s.backScratch(e)
		words, scratch = words+more, scratch+least
	}
	return 4*words + scratch
}

func (s *session) mlpScratch(i int, e int64) int64 {
	if s.goesBack() {
		return s.mlps[i].KeptScratch(int(e))
	}
	return s.radialOf(i).Scratch(int(e))
}

// productScratch returns the largest scratch memory that one of the candidates for a layer's tensor product needs.
func (s *session) productScratch(i int, e int64) int64 {
	var most int64
	for _, c := range s.candidates(i) {
		most = max(most, c.Scratch(len(s.in.crystal.Positions), s.rows, int(e)))
	}
	return most
}

// tooLarge returns the error for a session that needs more than the memory left on the device. The fix names the knobs
// that decide the size.
func (s *session) tooLarge(e, need, left int64) error {
	leaner := ""
	if s.k.Impl == op.ImplUnfused {
		leaner = ", or impl=csr, which keeps nothing per edge but the weights"
	} else if s.goesBack() && s.k.Recompute != recomputeAll {
		leaner = ", or recompute=all, which keeps nothing for the way back"
	}
	return device.Short(s.dev, gpuprof.Errorf(gpuprof.ErrMemory, "%d points with %d edges and mul=%d need %s, and the device has %s left", s.rows, e, s.k.Mul, gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left))).WithFix("use a smaller --set batch, edges or mul%s", leaner))
}

func (s *session) allocate(ctx context.Context) error {
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
	if s.mem.Err != nil {
		return s.mem.Err
	}
	s.batches = newCollator(s.in, collators(s.in, s.dev.Info().Kind, runtime.GOMAXPROCS(0)))
	return s.bindSlots(ctx)
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
	// The host buffers have room for a row that begins inside the prefix and ends beyond it.
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
