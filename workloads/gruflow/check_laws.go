package gruflow

import (
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// Properties of a whole training step that the check tests.
const (
	lawChain     = iota // cotangents of the initial carriers equal float64, from the batch and the parameters alone
	lawConserved        // the gradients of the total energy are 0
	lawCount
)

// chainBound is the largest error of the whole backward pass in float32; PyTorch's error is 3e-7 over one call.
const chainBound = 1e-4

func (c *checker) lawChecks() []gpuprof.Check {
	var out []gpuprof.Check
	if e := c.laws[lawChain]; e.Used {
		out = append(out, loop.CheckOf("gradient of the whole step", e.Relative(), max(chainBound, c.s.prec.tolerance()), len(c.carriersOf()), c.s.shape.B))
	}
	if e := c.laws[lawConserved]; e.Used {
		out = append(out, loop.CheckOf("gradient of all energy", e.Relative(), 0, 1, 1))
	}
	return out
}

// checkConservation runs a step whose loss is the total energy: what carriers (rows of the batch) have deposited, still
// have, or took along when they left. No parameter changes the total, so every gradient must be exactly 0.
func (c *checker) checkConservation() {
	s, t, sh := c.s, c.s.train, c.s.shape
	if c.Stops(s.restoreStart()) || c.Stops(s.send(&s.slots[c.slot], c.batch, loop.Silent{})) {
		return
	}
	groups := s.slots[c.slot].groups
	for i := range groups {
		if groups[i].stage == stClip {
			break
		}
		if c.Stops(s.run(&groups[i])) {
			return
		}
		if groups[i].stage != stLoss {
			continue
		}
		for _, b := range []struct {
			to    device.Buffer
			n     int
			value float32
		}{{t.ddose, sh.D + 1, 1}, {t.de, sh.B, 1}, {t.dplace, 2 * sh.B, 0}} {
			v := make([]float32, b.n)
			for i := range v {
				v[i] = b.value
			}
			if c.Stops(op.Send(s.mem.Dev, s.stream, b.to, v)) {
				return
			}
		}
	}
	e := &c.laws[lawConserved]
	e.Used = true
	for l := range sh.L + 1 {
		for _, b := range c.gradsOf(l) {
			for _, v := range c.read(b, 0, b.Len()/4) {
				if v != 0 {
					e.Diff = math.Inf(1)
				}
			}
		}
	}
	c.Stops(s.restoreStart())
}

// checkChained compares the cotangents of the initial carriers and states with a float64 forward and backward pass of
// the whole step. That pass reads only the batch, the parameters, the cotangents of the doses and the loss scale from
// the device.
func (c *checker) checkChained() {
	s, sh, t, e := c.s, c.s.shape, c.s.train, &c.laws[lawChain]
	ddose := c.read(t.ddose, 0, sh.D)
	de := c.read(t.de, 0, sh.B)
	sources, fields := drawSources(sh, s.seed), device.Floats(s.inputs)[c.batch*int(s.inputWords()):]
	scale, err := t.step.Scale(s.stream)
	if c.Stops(err) {
		return
	}
	list := c.carriersOf()
	for _, k := range list[:min(len(list), chainCarriers)] {
		r := s.tripOf(c.start, k, float64(sources[k]), fields)
		after := carrierBack{x: scale * lossKappa * r.end.x, y: scale * lossKappa * r.end.y}
		before, dh := r.propagate(op.As[float64](ddose), after, newTrainGrads(sh))
		e.Add(de[k:k+1], []float64{before.energy})
		for l, b := range t.u.layers {
			got := c.read(b.dh, k*sh.H, sh.H)
			chain := c.read(b.chain, k*sh.H, sh.H)
			addTo(got, chain)
			e.Add(got, dh[l])
		}
	}
}

// chainCarriers is the number of carriers whose whole step checkChained computes.
const chainCarriers = 8

// tripOf computes carrier k's path through a window with the session's parameters.
func (s *session) tripOf(st state, k int, source float64, fields []float32) trip {
	return tripOf(s.shape, s.params, s.train.window, st, k, source, fields)
}

// tripOf computes carrier k's path through a window. st holds the carriers before it, source is the energy of the
// carrier that replaces k, fields are the inputs [window,T,B,I].
func tripOf(sh shape, p params, window int, st state, k int, source float64, fields []float32) trip {
	var h [][]float64
	for l := range sh.L {
		h = append(h, op.As[float64](st.h[(l*sh.B+k)*sh.H:][:sh.H]))
	}
	at := carrier{energy: float64(st.energy[k]), level: int(st.level[k]), x: float64(st.place[2*k]), y: float64(st.place[2*k+1])}
	return refTrip(sh, p, window, at, h, source, func(j, t int) []float32 {
		return fields[((j*sh.T+t)*sh.B+k)*sh.I:][:sh.I]
	})
}
