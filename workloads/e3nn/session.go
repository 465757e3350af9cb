package e3nn

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// depth is how many batches are in flight: while the device works on one, the
// caller assembles the next.
const depth = 2

// session is the workload with everything allocated and bound.
type session struct {
	dev    gpuprof.Device
	set    gpuprof.Settings
	seed   uint64
	model  model
	in     *input
	layout op.Layout
	rows   int
	edges  int // capacity

	main, copies gpuprof.Stream
	mem          arena
	slots        [depth]slot
	item         gpuprof.Buffer // pageable: where .item() lands
	stages       []gpuprof.Stage
	plan         []stageOps // the device part of a step, in order
	closers      []*op.Bound
	every        int // sync knob
	items        int

	// Device memory every batch goes through.
	basis, harmonics, weights, mid, linear gpuprof.Buffer
	layers                                 []layerBuffers
	params                                 params
}

// slot is one batch in flight: pinned memory the caller fills, its twin on
// the device, and the events that hand it over.
type slot struct {
	host, dev edgeBuffers
	out       gpuprof.Buffer // pinned: the step's result
	ready     gpuprof.Event  // the batch is on the device
	free      gpuprof.Event  // the device is done with slot and result
	used      bool
}

// edgeBuffers hold a batch: src, dst [E], rowptr [rows+1], vec [E,3].
type edgeBuffers struct{ src, dst, rowptr, vec gpuprof.Buffer }

// layerBuffers are a layer's parameters and result on the device.
type layerBuffers struct{ x, w1, w2, mix, out gpuprof.Buffer }

// params are the same parameters in float32 on the host, for the reference.
// Features are in mul_ir order.
type params struct{ x, w1, w2, mix [][]float32 }

// stageOps is what one span of a stage launches, once a slot.
type stageOps struct {
	stage int
	layer int
	ops   [depth][]*op.Bound
}

func open(ctx context.Context, d gpuprof.Device, c gpuprof.Config) (*session, error) {
	s := &session{
		dev: d, set: c.Knobs, seed: c.Seed, mem: arena{dev: d}, layout: op.Layout(c.Knobs["layout"]),
		rows: c.Knobs.Int("batch"), every: syncEvery(c.Knobs), items: c.Knobs.Int("item_reads"),
	}
	s.model = buildModel(c.Preset, c.Knobs.Int("mul"), c.Knobs.Int("lmax"), s.layout)
	var err error
	if s.in, err = openInput(c.Knobs, c.Seed); err != nil {
		return nil, err
	}
	// Twice what is there cannot be an error of the estimate; counting the
	// edges of such a batch would take minutes.
	if e := s.in.estimateEdges(); s.need(e, 0) > 2*d.Memory().Available {
		return nil, s.tooLarge(e, s.need(e, 0), d.Memory().Available)
	}
	if err := s.in.keep(ctx, 1); err != nil {
		return nil, err
	}
	// Batches are alike, so the first one's size tells how many there must be
	// for a step's data to have left the cache when its turn comes again.
	if c.Mode != gpuprof.Hot {
		if err := s.in.keep(ctx, s.rotation(d.Info().CacheBytes)); err != nil {
			return nil, err
		}
	}
	s.edges = s.in.maxEdges()
	if need, left := s.need(int64(s.edges), int64(s.in.maxRow)), d.Memory().Available; need > left {
		return nil, s.tooLarge(int64(s.edges), need, left)
	}
	if err := s.allocate(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// rotation is ceil(5 caches / bytes a step touches) + 1.
func (s *session) rotation(cache int64) int {
	perEdge := 4 + 4 + 12 + 4*(s.model.LMax+1)*(s.model.LMax+1) + 2*4*basisSize
	for _, l := range s.model.Layers {
		perEdge += 2 * 4 * (mlpHidden + l.TP.WeightNumel())
	}
	return int(math.Ceil(5*float64(cache)/float64(perEdge*s.in.edges[0]))) + 1
}

// widths are the largest over the layers, in elements.
func (s *session) widths() (weights, mid, linear int64) {
	for _, l := range s.model.Layers {
		weights = max(weights, int64(l.TP.WeightNumel()))
		mid = max(mid, int64(l.TP.Out.Dim()))
		linear = max(linear, int64(l.Linear.Out.Dim()))
	}
	return weights, mid, linear
}

// need is the bytes a session of e edges a batch allocates, known before
// anything is allocated; row is the longest row.
func (s *session) need(e, row int64) int64 {
	rows, atoms := int64(s.rows), int64(len(s.in.crystal.Positions))
	weights, mid, linear := s.widths()
	sh := int64((s.model.LMax + 1) * (s.model.LMax + 1))
	words := 2*depth*(5*(e+row)+rows+1) + e*(basisSize+sh+weights) + rows*(mid+linear)
	var scratch int64
	for _, l := range s.model.Layers {
		words += atoms*int64(l.In.Dim()) + basisSize*mlpHidden + mlpHidden*int64(l.TP.WeightNumel()) + int64(l.Linear.WeightNumel()) + rows*int64(l.Out.Dim())
		scratch += s.mlp(l).Scratch(int(e)) + s.product(l).Scratch(int(atoms), s.rows, int(e)) + l.Linear.Scratch(s.rows) + l.Gate.Scratch()
	}
	words += depth * rows * int64(s.last().Out.Dim())
	return 4*words + scratch
}

// tooLarge refuses before anything is allocated and names the knobs that
// decide the size.
func (s *session) tooLarge(e, need, left int64) error {
	leaner := ""
	if s.set["impl"] == op.ImplUnfused {
		leaner = ", or impl=csr, which keeps nothing per edge but the weights"
	}
	return gpuprof.Errorf(gpuprof.ErrMemory, "%d points with %d edges and mul=%s need %s, and the device has %s left; use a smaller --set batch, edges or mul%s",
		s.rows, e, s.set["mul"], gpuprof.FormatBytes(float64(need)), gpuprof.FormatBytes(float64(left)), leaner)
}

func (s *session) last() layer { return s.model.Layers[len(s.model.Layers)-1] }

func (s *session) mlp(l layer) op.MLP {
	return op.MLP{In: basisSize, Hidden: mlpHidden, Out: l.TP.WeightNumel(), Normalisation: op.NormExact}
}

func (s *session) product(l layer) op.TensorProduct {
	return op.TensorProduct{
		TP: l.TP, Impl: s.set["impl"], Layout: s.layout, Scale: float32(1 / math.Sqrt(neighbours)),
		Deterministic: s.set.On("deterministic"),
	}
}

func (s *session) radialBasis() op.Basis {
	return op.Basis{Kind: s.set["basis"], N: basisSize, Cutoff: s.in.finder.Cutoff(), Envelope: s.set["basis"] == "bessel"}
}

// allocate makes streams, events, buffers and parameters, and binds.
func (s *session) allocate() error {
	if t := s.set["threads"]; t != "all" {
		n, _ := strconv.Atoi(t)
		limit, ok := s.dev.(gpuprof.Threader)
		if !ok {
			return gpuprof.Errorf(gpuprof.ErrUsage, "setting threads=%s: this device has no CPU threads to limit; leave threads at all", t)
		}
		if err := limit.SetThreads(n); err != nil {
			return err
		}
	}
	var err error
	if s.main, err = s.dev.NewStream("main"); err != nil {
		return err
	}
	if s.copies, err = s.dev.NewStream("copy"); err != nil {
		return err
	}
	for i := range s.slots {
		if err := s.slots[i].allocate(s); err != nil {
			return err
		}
	}
	s.allocateDevice()
	s.uploadParams()
	s.item = s.mem.words("the item buffer", 1, gpuprof.Pageable)
	if s.mem.err != nil {
		return s.mem.err
	}
	return s.bind()
}

func (sl *slot) allocate(s *session) error {
	make1 := func(p gpuprof.Place, e int64) edgeBuffers {
		return edgeBuffers{
			src: s.mem.words("edge sources", e, p), dst: s.mem.words("edge destinations", e, p),
			rowptr: s.mem.words("row starts", int64(s.rows)+1, p), vec: s.mem.words("edge vectors", 3*e, p),
		}
	}
	// The caller's side has room for a row that begins inside the prefix and
	// ends beyond it.
	sl.host, sl.dev = make1(gpuprof.Pinned, int64(s.edges+s.in.maxRow)), make1(gpuprof.OnDevice, int64(s.edges))
	sl.out = s.mem.words("the result", int64(s.rows)*int64(s.last().Out.Dim()), gpuprof.Pinned)
	if s.mem.err != nil {
		return s.mem.err
	}
	var err error
	if sl.ready, err = s.dev.NewEvent(); err != nil {
		return err
	}
	sl.free, err = s.dev.NewEvent()
	return err
}

func (s *session) allocateDevice() {
	e, rows := int64(s.edges), int64(s.rows)
	weights, mid, linear := s.widths()
	sh := int64((s.model.LMax + 1) * (s.model.LMax + 1))
	s.basis = s.mem.words("the radial basis", e*basisSize, gpuprof.OnDevice)
	s.harmonics = s.mem.words("spherical harmonics", e*sh, gpuprof.OnDevice)
	s.weights = s.mem.words("tensor-product weights", e*weights, gpuprof.OnDevice)
	s.mid = s.mem.words("summed messages", rows*mid, gpuprof.OnDevice)
	s.linear = s.mem.words("mixed messages", rows*linear, gpuprof.OnDevice)
}

// uploadParams draws features and weights from the seed: normal with unit
// variance, as the normalisation of every layer assumes.
func (s *session) uploadParams() {
	rng := rand.New(rand.NewPCG(s.seed, 2))
	normal := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	p := &s.params
	for _, l := range s.model.Layers {
		x := normal(len(s.in.crystal.Positions) * l.In.Dim())
		w1, w2 := normal(basisSize*mlpHidden), normal(mlpHidden*l.TP.WeightNumel())
		mix := normal(l.Linear.WeightNumel())
		p.x, p.w1, p.w2, p.mix = append(p.x, x), append(p.w1, w1), append(p.w2, w2), append(p.mix, mix)
		stored := make([]float32, len(x))
		for at, d := 0, l.In.Dim(); at < len(x); at += d {
			op.ToLayout(s.layout, l.In, stored[at:at+d], x[at:at+d])
		}
		s.layers = append(s.layers, layerBuffers{
			x:  s.mem.upload(s.main, "atom features", stored),
			w1: s.mem.upload(s.main, "MLP weights", w1), w2: s.mem.upload(s.main, "MLP weights", w2),
			mix: s.mem.upload(s.main, "linear weights", mix),
			out: s.mem.words("layer output", int64(s.rows)*int64(l.Out.Dim()), gpuprof.OnDevice),
		})
	}
}

// Main implements gpuprof.Session.
func (s *session) Main() gpuprof.Stream { return s.main }

// Depth implements gpuprof.Session.
func (s *session) Depth() int { return depth }

// Cycle implements gpuprof.Session.
func (s *session) Cycle() int { return max(s.every, 1) }

// Stages implements gpuprof.Session.
func (s *session) Stages() []gpuprof.Stage { return s.stages }

// Work implements gpuprof.Session.
func (s *session) Work() (float64, string) { return float64(s.rows), s.in.unit() }

// Input implements gpuprof.Session.
func (s *session) Input() map[string]any {
	in := s.in.describe()
	var paths, weights []int
	for _, l := range s.model.Layers {
		paths, weights = append(paths, l.TP.NumPaths()), append(weights, l.TP.WeightNumel())
	}
	in["irreps_in"], in["irreps_out"] = s.last().In.String(), s.last().Out.String()
	in["paths"], in["weights_per_edge"] = paths, weights
	return in
}

// Close implements gpuprof.Session. It waits for work in flight.
func (s *session) Close() error {
	var errs []error
	for _, st := range []gpuprof.Stream{s.copies, s.main} {
		if st != nil {
			errs = append(errs, st.Sync(), st.Close())
		}
	}
	for _, b := range s.closers {
		errs = append(errs, b.Close())
	}
	return errors.Join(append(errs, s.mem.free())...)
}
