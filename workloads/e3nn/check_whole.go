package e3nn

import (
	"context"
	"math/rand/v2"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
	"github.com/gpuprof/gpuprof/workloads/so3"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

const (
	// wholeSteps is the number of steps that run in sequence, to check that parameters, moments and shared memory are
	// right in the step after.
	wholeSteps = 2
	// wholeRows is the number of rows that keep their edges. All other rows lose theirs, so that a float64 reference is
	// affordable from a step's inputs to its new parameters, which are sums over all rows.
	wholeRows = 4
)

// wholeStep runs steps on the device with batches of few edges. It compares their results with float64 values that it
// computes from the batches and the drawn parameters. It does not use the list of operations, so it also finds a wrong
// list.
type wholeStep struct {
	s    *session
	ctx  context.Context
	rng  *rand.Rand
	nets []*refNet
	// Parameters (ref) and gradients (g) in the optimizer's order: layer after layer, features in mul_ir.
	ref *optim.Reference
	g   [][]float64

	outputs op.ItemErrors // one item per row, or with forces per point
	scalars op.ErrorNorm  // energies and losses
}

// wholeBatch is the reference's own batch: for the rows that keep their edges, the edges that a brute-force search
// finds. A row without edges is 0 in every layer: its sum over neighbours is 0, the linear layer has no bias, and
// activations map 0 to 0.
type wholeBatch struct {
	rows  [][]wholeEdge // by row
	first int           // point of row 0
	micro int
}

// wholeEdge is an edge from the atom with index source; vec is in angstrom.
type wholeEdge struct {
	source int
	vec    []float64
}

// netOf returns a layer in float64 and mul_ir. p holds its parameters, in the optimizer's order.
func (s *session) netOf(layer int, p [][]float64) *refNet {
	l, mlp := s.model.Layers[layer], s.mlps[layer]
	l.Linear.Layout, l.Gate.Layout = op.MulIr, op.MulIr
	mlp.Out, mlp.Padding = l.TP.WeightNumel(), 0
	n := &refNet{layer: l, basis: s.radialBasis(), sph: op.Sph{LMax: s.model.LMax}, mlp: mlp,
		w1: p[1], w2: p[2], mix: p[3]}
	if s.goesBack() {
		n.readout, n.factors = l.readout(), p[4]
	}
	return n
}

func (s *session) drawnParameters() (all [][]float64) {
	p := widen(s.params)
	for i := range s.model.Layers {
		all = append(all, p.x[i], p.w1[i], p.w2[i], p.mix[i])
		if s.goesBack() {
			all = append(all, p.readout[i])
		}
	}
	return all
}

func (s *session) wholeSteps(ctx context.Context) ([]gpuprof.Check, error) {
	w := &wholeStep{s: s, ctx: ctx, rng: rand.New(rand.NewPCG(s.seed, 6)), ref: optim.NewReference(s.drawnParameters(), s.k.Settings)}
	if s.k.Trains() {
		// Step numbers begin here: if a loss is not finite, the search for the stage that caused it repeats all steps from
		// here on.
		if err := s.restartParameters(); err != nil {
			return nil, err
		}
		if err := w.ref.Begin(&s.train.step, s.Compute); err != nil {
			return nil, err
		}
	}
	for i := range wholeSteps {
		if err := w.stepOnce(i); err != nil {
			return nil, err
		}
	}
	return w.wholeChecks(), nil
}

// perLayer returns the number of parameter arrays of a layer.
func (w *wholeStep) perLayer() int { return len(w.ref.P) / len(w.s.model.Layers) }

// stepOnce computes one step with its micro-batches on the device and in float64.
func (w *wholeStep) stepOnce(i int) error {
	s := w.s
	w.nets, w.g = nil, w.ref.Gradients()
	for l := range s.model.Layers {
		w.nets = append(w.nets, s.netOf(l, w.ref.P[l*w.perLayer():]))
	}
	micros := s.k.Micro()
	for micro := range micros {
		at := i*micros + micro
		sl := &s.slots[at%depth]
		b, err := w.microStep(at, micro)
		if err != nil {
			return err
		}
		if err := w.compareBatch(b, sl); err != nil {
			return err
		}
	}
	if !s.k.Trains() {
		return nil
	}
	for _, g := range w.g {
		scale(g, 1/float64(micros))
	}
	w.ref.Step(w.g)
	return w.ref.Follow(&s.train.step, s.Compute, s.chainTolerance(), func(i int, v []float64) []float64 {
		if i%w.perLayer() > 0 {
			return v
		}
		return mulIrOf(s.layout, s.model.Layers[i/w.perLayer()].In, v) // features
	})
}

// microStep runs one micro-batch with the edges of only a few random rows, and returns the reference's batch of these
// rows. at counts micro-batches over all steps, micro within the step.
func (w *wholeStep) microStep(at, micro int) (*wholeBatch, error) {
	s := w.s
	keep := map[int]int{0: 0} // number of edges by kept row; row 0 is always kept, since a prefix of edges begins there
	for _, r := range w.rng.Perm(s.rows)[:min(s.rows, wholeRows-1)] {
		keep[r] = 0
	}
	s.dropEdges = func(sl *slot) int { return w.removeEdges(sl, keep) }
	defer func() { s.dropEdges = nil }()
	if err := s.microStep(at, micro, loop.Silent{}); err != nil {
		return nil, err
	}
	if err := s.Results.Sync(); err != nil {
		return nil, err
	}
	return w.searchBatch(at%len(s.in.batches), micro, keep), w.ctx.Err()
}

// removeEdges removes, from a batch on the host, the edges of rows that are not in keep. It stores the number of edges
// of each other row in keep, and returns the sum of these numbers.
func (w *wholeStep) removeEdges(sl *slot, keep map[int]int) int {
	h := sl.host
	src, dst, rowptr, vec := device.Ints(h.src), device.Ints(h.dst), device.Ints(h.rowptr), device.Floats(h.vec)
	rows := len(rowptr) - 1
	n, lo := 0, int(rowptr[0])
	for r := range rows {
		hi := int(rowptr[r+1])
		if _, ok := keep[r]; ok {
			keep[r] = hi - lo
			copy(src[n:], src[lo:hi])
			copy(dst[n:], dst[lo:hi])
			copy(vec[3*n:], vec[3*lo:3*hi])
			n += hi - lo
		}
		lo, rowptr[r+1] = hi, int32(n)
	}
	w.s.batches.sort(&sl.host, n)
	return n
}

// searchBatch finds the neighbours of the kept rows of batch n by brute force. With a limit of edges per batch, which
// may cut a row, it keeps only as many edges of a row as keep has.
func (w *wholeStep) searchBatch(n, micro int, keep map[int]int) *wholeBatch {
	s, points := w.s, w.s.in.batches[n]
	b := &wholeBatch{rows: make([][]wholeEdge, s.rows), micro: micro, first: len(s.in.crystal.Positions)}
	if s.in.atoms { // the rows' points are atoms
		b.first = int(points[0])
	}
	for r, degree := range keep {
		found := structure.BruteForce(s.in.crystal, s.in.finder.Cutoff(), s.in.point(points[r]), s.in.atoms)
		vec := op.As[float64](found.Vec)
		for e, src := range found.Src {
			if s.in.prefix == 0 || e < degree {
				b.rows[r] = append(b.rows[r], wholeEdge{int(src), vec[3*e : 3*e+3]})
			}
		}
	}
	return b
}

// rowOf returns the inputs of layer l for row r of a batch.
func (w *wholeStep) rowOf(b *wholeBatch, r, l int) (row refRow) {
	in, x := w.s.model.Layers[l].In.Dim(), w.ref.P[l*w.perLayer()]
	for _, e := range b.rows[r] {
		row.vec, row.x = append(row.vec, e.vec), append(row.x, x[e.source*in:][:in])
	}
	return row
}

func (w *wholeStep) compareBatch(b *wholeBatch, sl *slot) error {
	s := w.s
	if !s.goesBack() {
		return w.compareForward(b, sl)
	}
	rho, forces, err := w.energies(b)
	if err != nil {
		return err
	}
	if !s.k.Trains() {
		sum := 0.0
		for _, v := range rho {
			sum += v
		}
		w.scalars.Add(device.Floats(sl.energy), []float64{sum})
		got := device.Floats(sl.out)
		for p := range s.points() {
			w.outputs.Add(got[3*p:3*p+3], forces[3*p:3*p+3])
		}
		return nil
	}
	loss := 0.0
	for i, v := range rho { // from here on rho holds the gradient of the loss with respect to each row's value
		off := v - float64(s.params.target[b.micro*len(rho)+i])
		loss += off * off / 2 / float64(len(rho))
		rho[i] = off / float64(len(rho))
	}
	w.scalars.Add(device.Floats(sl.out)[:1], []float64{loss})
	return w.addGradients(b, rho)
}

// compareForward compares every layer's output. The last layer's output is on the host. All steps share the memory of
// the other outputs, which holds the values of the current step.
func (w *wholeStep) compareForward(b *wholeBatch, sl *slot) error {
	s := w.s
	for l, m := range s.model.Layers {
		got, n := device.Floats(sl.out), m.Out.Dim()
		if l < len(s.model.Layers)-1 {
			var err error
			if got, err = op.Receive(s.dev, s.Compute, s.layers[l].out, 0, s.rows*n); err != nil {
				return err
			}
		}
		for r := range s.rows {
			want := make([]float64, n)
			if len(b.rows[r]) > 0 {
				v, err := w.nets[l].forward(w.rowOf(b, r, l), &refSums{})
				if err != nil {
					return err
				}
				want = v.out
			}
			w.outputs.Add(mulIrOf(s.layout, m.Out, got[r*n:(r+1)*n]), want)
		}
	}
	return w.ctx.Err()
}

// mulIrOf returns features that are stored in layout in the order mul_ir: for each irrep the channels are the outer
// index and the components the inner one. In ir_mul it is the other way round.
func mulIrOf[F float32 | float64](layout op.Layout, irs so3.Irreps, v []F) (out []F) {
	if layout == op.MulIr {
		return v
	}
	for len(v) > 0 {
		for _, block := range irs {
			d := block.Ir.Dim()
			for u := range block.Mul {
				for i := range d {
					out = append(out, v[i*block.Mul+u])
				}
			}
			v = v[d*block.Mul:]
		}
	}
	return out
}

// energies returns the rows' values rho and, if the step computes them, the forces on all points.
func (w *wholeStep) energies(b *wholeBatch) (rho, forces []float64, err error) {
	s := w.s
	rho = make([]float64, s.rows)
	if s.computesForces() {
		forces = make([]float64, 3*s.points())
	}
	for l, net := range w.nets {
		for r := range s.rows {
			if len(b.rows[r]) == 0 {
				continue
			}
			row, to := w.rowOf(b, r, l), refSums{}
			v, err := net.forward(row, &to)
			if err == nil && s.computesForces() {
				err = net.addBack(row, v, &to)
			}
			if err != nil {
				return nil, nil, err
			}
			rho[r] += to.energy
			for k, f := range to.f {
				for i, d := range f {
					forces[3*b.rows[r][k].source+i] -= d
					forces[3*(b.first+r)+i] += d
				}
			}
		}
	}
	return rho, forces, w.ctx.Err()
}

// addGradients adds the gradients of the loss with respect to all parameters to w.g; pull[r] is the derivative of the
// loss with respect to row r's value.
func (w *wholeStep) addGradients(b *wholeBatch, pull []float64) error {
	s := w.s
	for l, net := range w.nets {
		in, g := s.model.Layers[l].In.Dim(), w.g[l*w.perLayer():]
		for r := range s.rows {
			if len(b.rows[r]) == 0 {
				continue
			}
			row, to := w.rowOf(b, r, l), &refGrads{w1: g[1], w2: g[2], mix: g[3], readout: g[4]}
			for _, e := range b.rows[r] {
				to.x = append(to.x, g[0][e.source*in:][:in])
			}
			if err := net.addRow(row, &refSums{grads: to, pull: func(float64) float64 { return pull[r] }}); err != nil {
				return err
			}
		}
	}
	return w.ctx.Err()
}

// wholeChecks returns all comparisons, including the parameters after all steps.
func (w *wholeStep) wholeChecks() []gpuprof.Check {
	s := w.s
	add := func(what string, relative, tolerance float64) gpuprof.Check {
		c := loop.WholeCheck(relative, tolerance, min(wholeRows, s.rows), s.rows, "rows")
		c.Stage += what
		return c
	}
	var out []gpuprof.Check
	if !s.k.Trains() {
		tol := tolerances[s.k.Precision]
		if s.goesBack() {
			tol = s.chainTolerance()
		}
		out = append(out, add("", max(w.outputs.Relative(), w.scalars.Relative()), tol))
		return out
	}
	tol := s.chainTolerance()
	gradients, update := w.ref.Errors()
	return append(out, add(", loss", w.scalars.Relative(), tol), add(", gradients", gradients, tol),
		add(", parameters", update, optim.UpdateTolerance(tol)))
}
