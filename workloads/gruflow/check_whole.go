package gruflow

import (
	"context"
	"errors"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

const (
	// wholeSteps is the number of steps that run in sequence, to check that carriers, and in training also parameters and
	// moments, are right in the step after.
	wholeSteps = 2
	// wholeKinds is the number of different carriers (rows of the batch) in these steps; all others are copies of them. So
	// a few paths in float64 give the sums over all carriers, and even the new parameters.
	wholeKinds = 5
)

// wholeStep runs steps as a measurement does, with a few different carriers (rows of the batch). It compares the
// results with float64 values from the inputs, the initial carriers and the drawn parameters alone. It does not use the
// list of groups, so it also finds a wrong list.
type wholeStep struct {
	s       *session
	c       *checker // reads buffers
	start   state
	sources []float32
	fields  [wholeSteps][]float32 // a step's inputs: [window,T,B,I] of every micro-batch

	at      []carrier     // the different carriers, indexed by kind
	h       [][][]float64 // by kind: the states [L][H]
	p       params
	ref     *optim.Reference // parameters and moments in the optimizer's order
	levels  [][]tripLevel    // of the last window, by kind
	loss    float64
	rows    [wholeParts]op.ItemErrors
	metrics op.ErrorNorm
	scalars op.ErrorNorm
}

// Values of a carrier that are compared, each relative to its own size.
const (
	wholeHidden = iota
	wholeEnergy
	wholePlace
	wholeDeposit
	wholeParts
)

func (s *session) checkWholeSteps(ctx context.Context) (out []gpuprof.Check, err error) {
	w := &wholeStep{s: s, c: s.newChecker(ctx), p: s.params}
	inputs := slices.Clone(device.Floats(s.inputs)[:min(s.batches, wholeSteps)*int(s.inputWords())])
	defer func() {
		copy(device.Floats(s.inputs), inputs)
		err = errors.Join(err, op.Send(s.mem.Dev, s.stream, s.flow.source, drawSources(s.shape, s.seed)), s.restoreStart())
	}()
	if err := w.beginSteps(); err != nil {
		return nil, err
	}
	for i := range wholeSteps {
		if err := s.Step(i, loop.Silent{}); err != nil {
			return nil, err
		}
		if err := s.stream.Sync(); err != nil {
			return nil, err
		}
		if err := w.stepOnce(i); err != nil {
			return nil, err
		}
	}
	w.checkCarriers()
	return w.resultChecks(), w.c.Err
}

// kind returns which of the few different carriers carrier k copies; see wholeKinds.
func (w *wholeStep) kind(k int) int { return k % w.kinds() }
func (w *wholeStep) kinds() int     { return min(wholeKinds, w.s.shape.B) }

// beginSteps draws the few different carriers and their inputs, makes all other carriers copies of them, and uploads
// the result as the start of the steps.
func (w *wholeStep) beginSteps() error {
	s, sh := w.s, w.s.shape
	w.start, w.sources = drawState(sh, s.seed), drawSources(sh, s.seed)
	// The carriers of kind 0 leave in the first step, those of kind 3 in the second.
	levels := []int{sh.D - 1, 0, sh.D / 2, max(sh.D-2, 0), 1 % sh.D}
	for k := range sh.B {
		from := w.kind(k)
		for l := range sh.L {
			copy(w.start.h[(l*sh.B+k)*sh.H:][:sh.H], w.start.h[(l*sh.B+from)*sh.H:][:sh.H])
		}
		w.start.energy[k], w.sources[k] = w.start.energy[from], w.sources[from]
		w.start.level[k] = int32(levels[from])
		copy(w.start.place[2*k:2*k+2], w.start.place[2*from:2*from+2])
	}
	n := int(s.inputWords())
	for b := range min(s.batches, wholeSteps) {
		x := device.Floats(s.inputs)[b*n : (b+1)*n]
		for row := range n / sh.I {
			k := row % sh.B
			copy(x[row*sh.I:(row+1)*sh.I], x[(row-k+w.kind(k))*sh.I:][:sh.I])
		}
	}
	for i := range w.fields {
		w.fields[i] = device.Floats(s.inputs)[i%s.batches*n:][:n]
	}
	for k := range w.kinds() {
		st := w.start
		w.at = append(w.at, carrier{energy: float64(st.energy[k]), level: int(st.level[k]),
			x: float64(st.place[2*k]), y: float64(st.place[2*k+1])})
		var h [][]float64
		for l := range sh.L {
			h = append(h, op.As[float64](w.start.h[(l*sh.B+k)*sh.H:][:sh.H]))
		}
		w.h = append(w.h, h)
	}
	w.ref = optim.NewReference(w.p.widenAll(), s.k.Settings)
	return w.sendSteps()
}

func (w *wholeStep) sendSteps() error {
	s := w.s
	if err := s.restoreStart(); err != nil {
		return err
	}
	if s.train != nil {
		if err := w.ref.Begin(&s.train.step, s.stream); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		to   device.Buffer
		from []float32
	}{{s.slots[0].net.h, w.start.h}, {s.slots[1].net.h, w.start.h}, {s.flow.energy, w.start.energy},
		{s.flow.level, floatView(w.start.level)}, {s.flow.place, w.start.place}, {s.flow.source, w.sources}} {
		if err := op.Send(s.mem.Dev, s.stream, part.to, part.from); err != nil {
			return err
		}
	}
	for _, b := range []device.Buffer{s.flow.record, s.flow.metrics} {
		if err := s.fillBuffer(b, 0, b.Len()/4); err != nil {
			return err
		}
	}
	for k := range s.slots {
		op.PoisonHost(s.slots[k].metrics, s.slots[k].out)
	}
	return s.stream.Sync()
}

// widenAll returns the parameters in float64, in the optimizer's order.
func (p params) widenAll() (all [][]float64) {
	for _, l := range p.layers {
		all = append(all, op.As[float64](l.wi), op.As[float64](l.wh), op.As[float64](l.bi), op.As[float64](l.bh))
	}
	return append(all, op.As[float64](p.proj), op.As[float64](p.bias))
}

func narrowAll(all [][]float64) (p params) {
	f := func(v []float64) []float32 { return op.As[float32](v) }
	n := len(all) - 2
	for l := 0; l < n; l += 4 {
		p.layers = append(p.layers, layerParams{f(all[l]), f(all[l+1]), f(all[l+2]), f(all[l+3])})
	}
	p.proj, p.bias = f(all[n]), f(all[n+1])
	return p
}

func (w *wholeStep) kindCount(kind int) float64 {
	return float64((w.s.shape.B - kind + w.kinds() - 1) / w.kinds())
}

// stepOnce computes step i in float64, and compares the records and metrics.
func (w *wholeStep) stepOnce(i int) error {
	s, sh := w.s, w.s.shape
	grads, window := w.ref.Gradients(), windowOf(s.k)
	n := window * sh.T * sh.B * sh.I
	for micro := range s.k.Micro() {
		fields := w.fields[i][micro*n : (micro+1)*n]
		dose, trips := make([]float64, sh.D), []trip(nil)
		w.levels = nil
		for k := range w.kinds() {
			r := refTrip(sh, w.p, window, w.at[k], w.h[k], float64(w.sources[k]), func(j, t int) []float32 {
				return fields[((j*sh.T+t)*sh.B+k)*sh.I:][:sh.I]
			})
			for _, lv := range r.levels {
				dose[lv.at.level] += w.kindCount(k) * lv.dose
			}
			w.at[k] = r.end
			last := r.levels[window-1]
			for l := range sh.L {
				if w.h[k][l] = last.h[l][sh.T]; last.leaves {
					w.h[k][l] = make([]float64, sh.H)
				}
			}
			w.levels, trips = append(w.levels, r.levels), append(trips, r)
			if err := w.c.ctx.Err(); err != nil {
				return err
			}
		}
		if s.train != nil {
			w.addGradients(dose, trips, grads)
		}
	}
	if s.train != nil {
		w.ref.Step(grads)
		if err := w.ref.Follow(&s.train.step, s.stream, w.tolerance(), nil); err != nil {
			return err
		}
		w.p = narrowAll(w.ref.P)
	}
	w.checkResults(i)
	return w.c.Err
}

func (w *wholeStep) addGradients(dose []float64, trips []trip, grads [][]float64) {
	s, sh := w.s, w.s.shape
	var place []float64
	for k := range sh.B {
		end := trips[w.kind(k)].end
		place = append(place, end.x, end.y)
	}
	loss, ddose, dplace := refLoss(dose, op.As[float64](drawTargets(sh, windowOf(s.k), s.seed)), place)
	w.loss = loss
	for k, r := range trips {
		g := newTrainGrads(sh)
		r.propagate(ddose, carrierBack{x: dplace[2*k], y: dplace[2*k+1]}, g)
		var all [][]float64
		for _, l := range g.layers {
			all = append(all, l.wi, l.wh, l.bi, l.bh)
		}
		for j, one := range append(all, g.proj, g.bias) {
			w.ref.Term(j, grads[j], one, w.kindCount(k)/float64(s.k.Micro()))
		}
	}
}

// checkResults compares a step's results on the host: the last level's records, the last micro-batch's metrics, the
// loss.
func (w *wholeStep) checkResults(i int) {
	s, sh := w.s, w.s.shape
	got := device.Floats(s.slots[i%depth].metrics)
	if s.Items > 0 { // the host reads only some of them, one by one
		got = w.c.read(s.flow.metrics, 0, s.metricWords())
	}
	records := device.Floats(s.slots[i%depth].out)
	for j := range windowOf(s.k) {
		var of []float32 // the records that the metrics sum
		var levels []int32
		var top []float32
		for k := range sh.B {
			lv := w.levels[w.kind(k)][j]
			level, h := (lv.at.level+1)%sh.D, lv.h[sh.L-1][sh.T]
			if lv.leaves {
				h = make([]float64, sh.H)
			}
			of, levels = append(of, op.As[float32](lv.record[:])...), append(levels, int32(level))
			top = append(top, op.As[float32](h)...)
			if j == windowOf(s.k)-1 {
				at := records[k*outputs : (k+1)*outputs]
				w.rows[wholeDeposit].Add(at[:1], lv.record[:1])
				w.rows[wholeEnergy].Add(at[1:2], lv.record[1:2])
				w.rows[wholePlace].Add(at[2:], lv.record[2:])
			}
		}
		for m, want := range refMetrics(sh, of, levels, top) {
			d := float64(got[j*sh.metrics()+m]) - want
			if want != 0 {
				d /= want
			}
			w.metrics.Diff += d * d
			w.metrics.Ref++
		}
	}
	if s.train != nil {
		w.scalars.Add(got[len(got)-1:], []float64{w.loss})
	}
}

func (w *wholeStep) checkCarriers() {
	s, sh := w.s, w.s.shape
	var now [4][]float32
	for i, b := range []device.Buffer{s.slots[(wholeSteps-1)%depth].net.h, s.flow.energy, s.flow.place, s.flow.level} {
		now[i] = w.c.read(b, 0, b.Len()/4)
	}
	levels := intView(now[3])
	for k := range sh.B {
		at := w.at[w.kind(k)]
		for l := range sh.L {
			w.rows[wholeHidden].Add(now[0][(l*sh.B+k)*sh.H:][:sh.H], w.h[w.kind(k)][l])
		}
		w.rows[wholeEnergy].Add(now[1][k:k+1], []float64{at.energy})
		w.rows[wholePlace].Add(now[2][2*k:2*k+2], []float64{at.x, at.y})
		if int(levels[k]) != at.level {
			w.rows[wholeDeposit].Add([]float32{1}, []float64{0}) // an error as large as the whole energy
		}
	}
}

// tolerance is the largest error of all results but the change of the parameters.
func (w *wholeStep) tolerance() float64 {
	if w.s.train != nil {
		return max(chainBound, w.s.prec.tolerance())
	}
	return w.s.prec.tolerance()
}

// resultChecks returns all comparisons, including the parameters after all steps.
func (w *wholeStep) resultChecks() []gpuprof.Check {
	s := w.s
	add := func(what string, relative, tolerance float64) gpuprof.Check {
		c := loop.WholeCheck(relative, tolerance, s.shape.B, s.shape.B, "flows")
		c.Stage += what
		return c
	}
	carriers := 0.0
	for _, e := range w.rows {
		if rel := e.Relative(); op.Worse(gpuprof.Number(carriers), gpuprof.Number(rel)) {
			carriers = rel
		}
	}
	tol := w.tolerance()
	out := []gpuprof.Check{add("", carriers, tol), add(", metrics", w.metrics.Relative(), tol)}
	if s.train == nil {
		return out
	}
	gradients, update := w.ref.Errors()
	return append(out, add(", loss", w.scalars.Relative(), tol), add(", gradients", gradients, tol),
		add(", parameters", update, optim.UpdateTolerance(tol)))
}
