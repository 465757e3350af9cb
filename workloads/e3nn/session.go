package e3nn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

const depth = loop.Depth

// session is the opened workload: everything is allocated and bound.
type session struct {
	dev    device.Device
	k      settings
	seed   uint64
	model  model
	in     *input
	layout op.Layout
	rows   int
	edges  int // largest number of edges of a batch

	loop.Pace
	mem        op.Arena
	slots      [depth]slot
	batches    *collator
	dropEdges  func(*slot) int // set by a check: removes edges from a collated batch and returns the number left
	plan       []stageOps      // the device part of a step, in order
	recomputed [][]*op.Bound   // with recompute=all: the operations that recompute a layer's values
	closers    []*op.Bound
	graphs     loop.Graphs
	tuned      *tuning
	// coincident is the number of edges of length 0, which have no direction and no force.
	coincident int

	// Implementation of every layer; autotune changes it.
	mlps     []op.MLP
	products []op.TensorProduct
	general  error // why a product uses the general kernel, not a generated one

	// Device memory that all batches use in turn; see requests.
	basis, harmonics device.Buffer
	work             []work // by layer
	back             backBuffers
	layers           []layerBuffers
	params           params
	train            training
}

// slot is one batch in flight: the host memory that the caller fills (pinned or, with pinned=off, pageable), its copy
// on the device, and the events that order the copies.
type slot struct {
	host, dev edgeBuffers
	result    device.Buffer // the step's result on the device
	out       device.Buffer // the result on the host
	energy    device.Buffer // the energy on the host, for a step with a backward pass
	loop.Events
}

// edgeBuffers holds a batch: src, dst [E], rowptr [rows+1], vec [E,3], and for the backward pass the edges by source,
// see op.PositionsBuffers.
type edgeBuffers struct{ src, dst, rowptr, vec, colptr, perm device.Buffer }

// layerBuffers holds a layer's parameters and result on the device.
type layerBuffers struct{ x, w1, w2, mix, readout, out device.Buffer }

// params holds the parameters in float32 on the host, for the reference. Features have mul_ir order.
type params struct {
	x, w1, w2, mix, readout [][]float32
	target                  []float32 // of every row, in training
}

// stageOps holds the operations of one span of a stage, a list for each slot.
type stageOps struct {
	stage    int
	layer    int
	ops      [depth][]*op.Bound
	from, to int         // range [from, to) of micro-batches to which it applies; to = 0: all
	adds     bool        // adds to the existing gradients
	part     *optim.Part // part of the optimizer's step
}

// appliesTo reports whether the operations belong to a micro-batch.
func (so *stageOps) appliesTo(micro int) bool { return so.to == 0 || micro >= so.from && micro < so.to }

// repeatsIn returns how many times a step with the given number of micro-batches runs the operations.
func (so *stageOps) repeatsIn(micros int) int {
	if so.to == 0 {
		return micros
	}
	return so.to - so.from
}

func open(ctx context.Context, d device.Device, c workloads.Config) (*session, error) {
	k := workloads.Read[settings](c.Knobs)
	s := &session{
		dev: d, k: k, seed: c.Seed, mem: op.Arena{Dev: d}, layout: k.Layout, rows: k.Batch / k.Micro(), Pace: workloads.Read[loop.Pace](c.Knobs),
	}
	s.model = buildModel(c.Preset, k.Mul, k.Lmax, s.layout)
	s.chooseWays()
	if err := s.takePool(); err != nil {
		return nil, err
	}
	var err error
	if s.in, err = openInput(ctx, k, c.Seed); err != nil {
		return nil, err
	}
	// The estimate errs by less than a factor of two; counting the edges of a batch of this size would take minutes.
	if err := s.checkMemory(ctx, s.in.estimateEdges(), 2); err != nil {
		return nil, err
	}
	if err := s.in.keepBatches(ctx, s.k.Micro()); err != nil {
		return nil, err
	}
	// The first batch gives the number of batches after which a step's data has left the cache.
	if c.Mode != gpuprof.Hot {
		if err := s.in.keepBatches(ctx, max(s.k.Micro(), s.batchRotation(d.Info().CacheBytes))); err != nil {
			return nil, err
		}
	}
	for i := range s.products {
		if s.isPacked() {
			s.products[i].Segment = op.SegmentFor(s.in.maxRow)
		}
	}
	if s.edges = s.in.maxEdges(); s.goesBack() {
		s.coincident = s.in.countCoincident()
	}
	if err := s.checkMemory(ctx, int64(s.edges), 1); err != nil {
		return nil, err
	}
	if err = s.allocate(); err == nil {
		s.batches = newCollator(s.in, collators(s.in, d.Info().Kind, runtime.GOMAXPROCS(0)))
		err = s.bindSlots(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *session) chooseWays() {
	for _, l := range s.model.Layers {
		m := op.MLP{In: basisSize, Hidden: mlpHidden, Out: l.TP.WeightNumel(), Normalisation: op.NormExact, Precision: s.k.Precision, Library: s.k.Library}
		p := s.productOf(l)
		_, m.Out = p.Columns()
		m.Padding = m.Out - l.TP.WeightNumel()
		s.mlps, s.products = append(s.mlps, m), append(s.products, p)
	}
}

func (s *session) productOf(l layer) op.TensorProduct {
	p := op.TensorProduct{
		TP: l.TP, Impl: s.k.Impl, Layout: s.layout, Scale: float32(1 / math.Sqrt(neighbours)),
		Deterministic: s.k.Deterministic, Packed: s.isPacked(),
	}
	// Without a compiler the general kernels compute the same results.
	made := func(q op.TensorProduct, err error) {
		if p = q; err != nil {
			s.general = err
		}
	}
	if s.goesBack() && s.dev.Info().Kind != "host" {
		made(p.CompileGrad(s.dev, s.k.Trains()))
	}
	if s.isPacked() {
		made(p.Compile(s.dev))
	}
	return p
}

// isPacked reports whether the MLP writes the weights in the order that a generated tensor product and a library's
// product read fastest. A backward pass needs the product's own order, to read the weights and to write their
// gradient.
func (s *session) isPacked() bool {
	return s.dev.Info().Kind != "host" && !s.goesBack()
}

// columns returns the number of stored weights per edge, with padding.
func (s *session) columns(i int) int { return s.mlps[i].Out }

func (s *session) lastLayer() layer { return s.model.Layers[len(s.model.Layers)-1] }

func (s *session) radialBasis() op.Basis {
	return op.Basis{Kind: s.k.Basis, N: basisSize, Cutoff: s.in.finder.Cutoff(), Envelope: s.k.Basis == "bessel"}
}

// radialOf returns the operation of layer i that computes the radial functions and the MLP in one kernel.
func (s *session) radialOf(i int) op.Radial {
	return op.Radial{Basis: s.radialBasis(), MLP: s.mlps[i]}
}

// takePool stores the device's memory pool in the session if a knob acts on it.
func (s *session) takePool() error {
	if s.Trims == 0 && s.Reset == resetOff {
		return nil
	}
	if pool := loop.DevicePool(s.dev); pool != nil {
		s.Pool = pool
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "setting pool_trim=%s and reset_stats=%s on device %s: it has no memory pool", s.k.PoolTrim, s.Reset, s.dev.Info().Name).WithFix("use never and off")
}

// Work implements workloads.Session.
func (s *session) Work() (float64, string) { return float64(s.rows * s.k.Micro()), s.in.unit() }

// Input implements workloads.Session.
func (s *session) Input() map[string]any {
	in := s.in.describe()
	var paths, weights []int
	for _, l := range s.model.Layers {
		paths, weights = append(paths, l.TP.NumPaths()), append(weights, l.TP.WeightNumel())
	}
	in["irreps_in"], in["irreps_out"] = s.lastLayer().In.String(), s.lastLayer().Out.String()
	in["paths"], in["weights_per_edge"] = paths, weights
	in["products"] = s.multiplierName()
	if s.dev.Info().Kind != "host" {
		var kernels []string
		for _, p := range s.products {
			kernels = append(kernels, p.KernelName())
		}
		in["tensor_product_kernels"] = kernels
		if s.goesBack() {
			in["tensor_product_grad_kernels"] = s.gradKernels()
		}
		if s.general != nil {
			in["tensor_product_not_compiled"] = s.general.Error()
		}
	}
	in["collate_threads"] = s.batches.threadCount()
	if s.goesBack() {
		in["edges_of_length_0"] = s.coincident
	}
	if n := len(s.graphs.Of); n > 0 {
		in["graphs"], in["graph_setup_s"] = n, s.graphs.Seconds
	}
	if s.tuned != nil {
		in["autotune_s"], in["autotune_tried"], in["autotune_chosen"] = s.tuned.seconds, s.tuned.tried, s.tuned.describeChoices(s)
	}
	return in
}

func (s *session) gradKernels() []string {
	var names []string
	for i := range s.products {
		g := s.productGrad(i)
		name := g.KernelName()
		if s.k.Trains() {
			name += ", " + g.XKernelName()
		}
		names = append(names, name)
	}
	return names
}

// multiplierName returns the name of the code that computes the MLP's matrix products: the library, our own kernels, or
// both. It ignores the product inside the kernel of the radial functions.
func (s *session) multiplierName() string {
	vendor := 0
	for _, m := range s.mlps {
		if (op.Gemm{K: m.Hidden, N: m.Out, Precision: m.Precision, Library: m.Library}).UsesVendor(s.dev) {
			vendor++
		}
	}
	library := "cuBLAS " + s.dev.Info().Facts["cublas"]
	switch vendor {
	case 0:
		return "own kernels"
	case len(s.mlps):
		return library
	}
	return fmt.Sprintf("%s in %d of %d layers, else own kernels", library, vendor, len(s.mlps))
}

// Close implements workloads.Session. It waits for the batches in flight.
func (s *session) Close() error {
	errs := []error{s.CloseStreams()}
	for _, b := range s.closers {
		errs = append(errs, b.Close())
	}
	s.batches.close()
	return errors.Join(append(errs, s.mem.Free())...)
}
