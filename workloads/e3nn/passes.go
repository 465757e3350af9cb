package e3nn

import (
	"math/rand/v2"

	"github.com/gpuprof/gpuprof"
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

// passKnob is pass, how much of a training program a step is.
func passKnob() gpuprof.Knob {
	return gpuprof.Choice("pass", "what a step computes: forward, forces (an energy and its gradient by every position) or train (gradients of all parameters and an optimizer step)", passForward, passForces, passTrain).AsModel()
}

// recomputeKnob is recompute, what the way back makes again instead of keeping.
func recomputeKnob() gpuprof.Knob {
	k := gpuprof.Choice("recompute", "what the way back makes again: off (nothing), weights (those of the tensor product, from the MLP's hidden layer), all (everything but the batch, as activation checkpointing does)",
		recomputeOff, recomputeWeights, recomputeAll)
	k.Acts = []string{"radial", "recompute", "graph"}
	k.Advice = map[string]string{gpuprof.AnyValue: "keep activations where memory allows, and make them again where it does not"}
	k.PyTorch = map[string]string{
		recomputeOff:     "y = layer(x)  # every activation is kept for the backward",
		recomputeWeights: "w = torch.utils.checkpoint.checkpoint(mlp_last, h, use_reentrant=False)",
		recomputeAll:     "y = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)",
	}
	return k
}

// backwards says that a step goes back through the network.
func (s *session) backwards() bool { return s.set["pass"] != passForward }

// microOf is the micro-batches of a step.
func microOf(set gpuprof.Settings) int {
	if set["pass"] != passTrain {
		return 1
	}
	return max(1, set.Int("accumulate"))
}

// trains says that a step ends with new parameters.
func (s *session) trains() bool { return s.set["pass"] == passTrain }

// keeps says that the layers' values stay until the way back.
func (s *session) keeps() bool { return s.backwards() && s.set["recompute"] != recomputeAll }

// keepsWeights says that the weights of every layer stay until the way back.
func (s *session) keepsWeights() bool {
	return s.set["recompute"] == recomputeOff && !s.hiddenOnly()
}

// energy is what a step that goes back adds to the model: the readout, which makes a
// value of every row from its even scalars, rho_r = sum over layers and scalars of
// a_u out_ru. The energy is their sum.
func (l layer) readout() op.Readout {
	r := op.Readout{Width: l.Out.Dim()}
	for _, m := range l.Gate.Scalars { // of a preset's, odd ones come first
		if m.Ir.P < 0 {
			r.First += m.Mul
		} else {
			r.Count += m.Mul
		}
	}
	return r
}

// drawReadout is normal.
func (l layer) drawReadout(rng *rand.Rand) []float32 {
	a := make([]float32, l.readout().Count)
	for i := range a {
		a[i] = float32(rng.NormFloat64())
	}
	return a
}

// points is how many have a force: the atoms, and probes besides.
func (s *session) points() int {
	n := len(s.in.crystal.Positions)
	if !s.in.atoms {
		n += s.rows
	}
	return n
}

// work are the values of a layer between its stages. Layers share them where
// nothing needs them later.
type work struct {
	a, h gpuprof.Buffer // hidden layer before and after its activation; a only for the way back
	w    gpuprof.Buffer // weights of the tensor product
	mid  gpuprof.Buffer // sums over neighbours
	pre  gpuprof.Buffer // before the gate
}

// backBuffers are the cotangents, which layers share, and what a step that goes
// back ends with. dw to dout belong to a layer, dy and db are summed over layers.
type backBuffers struct {
	rho, energy, drho        gpuprof.Buffer // [rows], [1], [rows]
	losses                   gpuprof.Buffer // [rows], in training
	dx                       gpuprof.Buffer // of a layer's features, where they are added
	dout, dpre, dmid, dw, da gpuprof.Buffer
	dy, db, slope, f, forces gpuprof.Buffer
}

// request is device memory that the session takes.
type request struct {
	what  string
	words int64
	to    []*gpuprof.Buffer
}

// requests lists the memory between stages for e edges: what is allocated, and
// what is counted before.
func (s *session) requests(e int64) []request {
	rows, n := int64(s.rows), len(s.model.Layers)
	if s.work == nil {
		s.work = make([]work, n)
	}
	w := s.widths()
	sh := int64((s.model.LMax + 1) * (s.model.LMax + 1))
	list := []request{{"spherical harmonics", e * sh, []*gpuprof.Buffer{&s.harmonics}}}
	if s.backwards() {
		list = append(list, request{"the radial basis", e * basisSize, []*gpuprof.Buffer{&s.basis}})
	}
	each := func(own bool, what string, width func(l layer) int64, shared int64, place func(k *work) *gpuprof.Buffer) {
		var all []*gpuprof.Buffer
		for i, l := range s.model.Layers {
			to := place(&s.work[i])
			if own {
				list = append(list, request{what, width(l), []*gpuprof.Buffer{to}})
			}
			all = append(all, to)
		}
		if !own {
			list = append(list, request{what, shared, all})
		}
	}
	back := s.backwards()
	keeps := s.keeps()
	each(keeps && s.trains(), "summed messages", func(l layer) int64 { return rows * int64(l.TP.Out.Dim()) }, rows*w.mid, func(k *work) *gpuprof.Buffer { return &k.mid })
	hidden := func(layer) int64 { return e * mlpHidden }
	if back || s.hiddenOnly() {
		each(keeps, "hidden layers", hidden, e*mlpHidden, func(k *work) *gpuprof.Buffer { return &k.h })
	}
	if back {
		each(keeps, "hidden layers", hidden, e*mlpHidden, func(k *work) *gpuprof.Buffer { return &k.a })
	}
	if back || !s.hiddenOnly() {
		each(back && s.keepsWeights(), "tensor-product weights", func(l layer) int64 { return e * int64(l.TP.WeightNumel()) }, e*w.weights, func(k *work) *gpuprof.Buffer { return &k.w })
	}
	each(keeps, "mixed messages", func(l layer) int64 { return rows * int64(l.Linear.Out.Dim()) }, rows*w.linear, func(k *work) *gpuprof.Buffer { return &k.pre })
	if !back {
		return list
	}
	b := &s.back
	one := func(what string, words int64, to *gpuprof.Buffer) {
		list = append(list, request{what, words, []*gpuprof.Buffer{to}})
	}
	one("energies", rows, &b.rho)
	one("the energy", 1, &b.energy)
	one("the energies' gradients", rows, &b.drho)
	one("the output's gradient", rows*w.out, &b.dout)
	one("the gate's gradient", rows*w.linear, &b.dpre)
	one("the messages' gradient", rows*w.mid, &b.dmid)
	one("the weights' gradient", e*w.weights, &b.dw)
	one("the hidden layer's gradient", e*mlpHidden, &b.da)
	if s.trains() {
		one("losses", rows, &b.losses)
		if s.addsGrads() {
			one("the features' gradient", int64(len(s.in.crystal.Positions))*w.in, &b.dx)
		}
		return list
	}
	one("the harmonics' gradient", e*sh, &b.dy)
	one("the radial basis' gradient", e*basisSize, &b.db)
	one("slopes", e, &b.slope)
	one("the edges' gradients", 3*e, &b.f)
	one("forces", 3*int64(s.points()), &b.forces)
	return list
}

// widest are the largest widths over the layers, in elements.
type widest struct{ weights, mid, linear, in, out int64 }

func (s *session) widths() (w widest) {
	for i, l := range s.model.Layers {
		w.weights = max(w.weights, int64(s.columns(i)))
		w.mid = max(w.mid, int64(l.TP.Out.Dim()))
		w.linear = max(w.linear, int64(l.Linear.Out.Dim()))
		w.in = max(w.in, int64(l.In.Dim()))
		w.out = max(w.out, int64(l.Out.Dim()))
	}
	return w
}

// transient are the buffers that the next layer's stages write again, so that
// nothing may be left in them that somebody needs.
func (s *session) transient() []gpuprof.Buffer {
	var list []gpuprof.Buffer
	back, keeps := s.backwards(), s.keeps()
	k := s.work[0]
	if !keeps || !s.trains() {
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
	if k.w != nil && (!back || !s.keepsWeights()) {
		list = append(list, k.w)
	}
	return list
}
