package e3nn

import (
	"math/rand/v2"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// Values of the knobs pass and recompute.
const (
	passForward = "forward"
	passForces  = "forces"
	passTrain   = optim.Train

	recomputeOff     = "off"
	recomputeWeights = "weights"
	recomputeAll     = "all"
)

// passKnob returns the knob pass: how much of a training program a step computes.
func passKnob() workloads.Knob {
	return workloads.Choice("pass", "what a step computes: forward, forces (an energy and its gradient by every position) or train (gradients of all parameters and an optimizer step)", passForward, passForces, passTrain).AsModel()
}

// recomputeKnob returns the knob recompute: which values the backward pass recomputes instead of keeping them.
func recomputeKnob() workloads.Knob {
	k := workloads.Choice("recompute", "what the way back makes again: off (nothing), weights (those of the tensor product, from the MLP's hidden layer), all (everything but the batch, as activation checkpointing does)",
		recomputeOff, recomputeWeights, recomputeAll)
	k.Acts = []string{"radial", "recompute", "graph"}
	k.Advice = map[string]string{workloads.AnyValue: "keep activations where memory allows, and make them again where it does not"}
	k.PyTorch = map[string]string{
		recomputeOff:     "y = layer(x)  # every activation is kept for the backward",
		recomputeWeights: "w = torch.utils.checkpoint.checkpoint(mlp_last, h, use_reentrant=False)",
		recomputeAll:     "y = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)",
	}
	return k
}

// goesBack reports whether a step has a backward pass.
func (s *session) goesBack() bool { return s.k.Pass != passForward }

func (s *session) computesForces() bool { return s.k.Pass == passForces }

// keepsValues reports whether the layers' values stay in memory until the backward pass.
func (s *session) keepsValues() bool { return s.goesBack() && s.k.Recompute != recomputeAll }

// keepsWeights reports whether every layer's weights stay in memory until the backward pass.
func (s *session) keepsWeights() bool { return s.k.Recompute == recomputeOff }

// readout returns the readout that a backward pass starts from. It computes a value of every row from the row's even
// scalars: rho_r = sum over layers and scalars of a_u out_ru. The energy is the sum of rho_r over rows.
func (l layer) readout() op.Readout {
	r := op.Readout{Width: l.Out.Dim()}
	for _, m := range l.Gate.Scalars { // a preset's odd scalars come first
		if m.Ir.P < 0 {
			r.First += m.Mul
		} else {
			r.Count += m.Mul
		}
	}
	return r
}

// drawReadout draws the factors a_u of the readout, normal with unit variance.
func (l layer) drawReadout(rng *rand.Rand) []float32 {
	a := make([]float32, l.readout().Count)
	for i := range a {
		a[i] = float32(rng.NormFloat64())
	}
	return a
}

// points returns the number of points with a force: the atoms and, if the rows are probes, the probes.
func (s *session) points() int {
	n := len(s.in.crystal.Positions)
	if !s.in.atoms {
		n += s.rows
	}
	return n
}

// work holds a layer's values between its stages. Layers share a buffer if no later stage needs its values.
type work struct {
	a, h device.Buffer // hidden layer before and after its activation, for the backward pass only
	w    device.Buffer // weights of the tensor product
	mid  device.Buffer // sums over neighbours
	pre  device.Buffer // input of the gate
}

// backBuffers holds the gradients and results of a backward pass. Layers share one layer's buffers; dy and db are sums
// over layers.
type backBuffers struct {
	rho, energy, drho        device.Buffer // [rows], [1], [rows]
	losses                   device.Buffer // by row, in training
	of                       []layerBack
	dy, db, slope, f, forces device.Buffer
}

type layerBack struct{ dout, dpre, dmid, dw, da device.Buffer }

type request struct {
	what  string
	words int64
	to    []*device.Buffer
}

// requests lists the device memory that holds values between stages, for e edges. The caller either allocates the
// memory or only counts it.
func (s *session) requests(e int64) []request {
	rows, n := int64(s.rows), len(s.model.Layers)
	if s.work == nil {
		s.work, s.back.of = make([]work, n), make([]layerBack, n)
	}
	w := s.widths()
	sh := int64((s.model.LMax + 1) * (s.model.LMax + 1))
	list := []request{{"spherical harmonics", e * sh, []*device.Buffer{&s.harmonics}}}
	if s.goesBack() {
		list = append(list, request{"the radial basis", e * basisSize, []*device.Buffer{&s.basis}})
	}
	each := func(own bool, what string, width func(l layer) int64, shared int64, place func(i int) *device.Buffer) {
		var all []*device.Buffer
		for i, l := range s.model.Layers {
			to := place(i)
			if own {
				list = append(list, request{what, width(l), []*device.Buffer{to}})
			}
			all = append(all, to)
		}
		if !own {
			list = append(list, request{what, shared, all})
		}
	}
	back := s.goesBack()
	keeps := s.keepsValues()
	each(keeps && s.k.Trains(), "summed messages", func(l layer) int64 { return rows * int64(l.TP.Out.Dim()) }, rows*w.mid, func(i int) *device.Buffer { return &s.work[i].mid })
	hidden := func(layer) int64 { return e * mlpHidden }
	if back {
		each(keeps, "hidden layers", hidden, e*mlpHidden, func(i int) *device.Buffer { return &s.work[i].h })
		each(keeps, "hidden layers", hidden, e*mlpHidden, func(i int) *device.Buffer { return &s.work[i].a })
	}
	each(back && s.keepsWeights(), "tensor-product weights", func(l layer) int64 { return e * int64(l.TP.WeightNumel()) }, e*w.weights, func(i int) *device.Buffer { return &s.work[i].w })
	each(keeps, "mixed messages", func(l layer) int64 { return rows * int64(l.Linear.Out.Dim()) }, rows*w.linear, func(i int) *device.Buffer { return &s.work[i].pre })
	if !back {
		return list
	}
	b := &s.back
	one := func(what string, words int64, to *device.Buffer) {
		list = append(list, request{what, words, []*device.Buffer{to}})
	}
	one("energies", rows, &b.rho)
	one("the energy", 1, &b.energy)
	one("the energies' gradients", rows, &b.drho)
	for _, r := range []struct {
		what  string
		words int64
		of    func(b *layerBack) *device.Buffer
	}{
		{"the output's gradient", rows * w.out, func(b *layerBack) *device.Buffer { return &b.dout }},
		{"the gate's gradient", rows * w.linear, func(b *layerBack) *device.Buffer { return &b.dpre }},
		{"the messages' gradient", rows * w.mid, func(b *layerBack) *device.Buffer { return &b.dmid }},
		{"the weights' gradient", e * w.weights, func(b *layerBack) *device.Buffer { return &b.dw }},
		{"the hidden layer's gradient", e * mlpHidden, func(b *layerBack) *device.Buffer { return &b.da }},
	} {
		shared := request{what: r.what, words: r.words}
		for i := range b.of {
			shared.to = append(shared.to, r.of(&b.of[i]))
		}
		list = append(list, shared)
	}
	if s.k.Trains() {
		one("losses", rows, &b.losses)
	}
	if !s.computesForces() {
		return list
	}
	one("the harmonics' gradient", e*sh, &b.dy)
	one("the radial basis' gradient", e*basisSize, &b.db)
	one("slopes", e, &b.slope)
	one("the edges' gradients", 3*e, &b.f)
	one("forces", 3*int64(s.points()), &b.forces)
	return list
}

type widest struct{ weights, mid, linear, out int64 }

func (s *session) widths() (w widest) {
	for i, l := range s.model.Layers {
		w.weights = max(w.weights, int64(s.columns(i)))
		w.mid = max(w.mid, int64(l.TP.Out.Dim()))
		w.linear = max(w.linear, int64(l.Linear.Out.Dim()))
		w.out = max(w.out, int64(l.Out.Dim()))
	}
	return w
}

// transientBuffers returns the buffers that the next layer overwrites, because no later stage needs their values.
func (s *session) transientBuffers() []device.Buffer {
	var list []device.Buffer
	back, keeps := s.goesBack(), s.keepsValues()
	k := s.work[0]
	if !keeps || !s.k.Trains() {
		list = append(list, k.mid)
	}
	if !keeps {
		list = append(list, k.pre)
	}
	if k.h != nil && !keeps {
		list = append(list, k.h)
	}
	if k.a != nil && !keeps {
		list = append(list, k.a)
	}
	if !back || !s.keepsWeights() {
		list = append(list, k.w)
	}
	return list
}
