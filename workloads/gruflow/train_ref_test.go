package gruflow

import (
	"math"
	"math/rand/v2"
	"testing"
)

// passage is one carrier on its way through some levels, its hidden states given.
type passage struct {
	start      carrier
	h          [][]float64
	proj, bias []float32
	target     []float64
}

func newPassage(levels, n int) *passage {
	rng := rand.New(rand.NewPCG(4, 4))
	p := &passage{start: carrier{energy: 1.2, x: .3, y: -.2}, bias: []float32{-2.25, .5, -.25, .125}}
	for range outputs * n {
		p.proj = append(p.proj, float32(rng.IntN(64)-32)/64) // steps of float32 are exact
	}
	for range levels {
		h := make([]float64, n)
		for i := range h {
			h[i] = rng.NormFloat64()
		}
		p.h, p.target = append(p.h, h), append(p.target, rng.Float64())
	}
	return p
}

// run goes down and up again. With keep the loss is not refLoss but all energy:
// deposits, and what is left.
func (p *passage) run(keep bool) (loss float64, before carrierBack, dh [][]float64, dproj, dbias []float64) {
	var on []carrier
	var dose []float64
	c := p.start
	for _, h := range p.h {
		on = append(on, c)
		var rec [outputs]float64
		c, rec, _ = refFlow(c, h, p.proj, p.bias, math.MaxInt, 0)
		dose = append(dose, rec[outDeposit])
	}
	loss, ddose, dplace := refLoss(dose, p.target, []float64{c.x, c.y})
	before = carrierBack{x: dplace[0], y: dplace[1]}
	if keep {
		loss, before = c.energy, carrierBack{energy: 1}
		for i, v := range dose {
			loss, ddose[i] = loss+v, 1
		}
	}
	dproj, dbias, dh = make([]float64, len(p.proj)), make([]float64, outputs), make([][]float64, len(p.h))
	for i := len(on) - 1; i >= 0; i-- {
		before, dh[i] = refFlowBack(on[i], p.h[i], p.proj, p.bias, before, ddose[i], false, dproj, dbias)
	}
	return loss, before, dh, dproj, dbias
}

// Every cotangent of a carrier's way is the loss's fourth-order difference.
func TestFlowBackDifferences(t *testing.T) {
	p := newPassage(5, 3)
	_, before, dh, dproj, dbias := p.run(false)
	compare := func(what string, got float64, move func(by float64)) {
		t.Helper()
		const h = 1. / 1024 // exact in float32, too
		f := func(by float64) float64 {
			move(by)
			defer move(-by)
			loss, _, _, _, _ := p.run(false)
			return loss
		}
		if want := (8*(f(h)-f(-h)) - (f(2*h) - f(-2*h))) / (12 * h); !(math.Abs(got-want) <= 1e-10) {
			t.Errorf("%s is %.15g, the difference %.15g", what, got, want)
		}
	}
	compare("energy", before.energy, func(by float64) { p.start.energy += by })
	compare("x", before.x, func(by float64) { p.start.x += by })
	compare("y", before.y, func(by float64) { p.start.y += by })
	for i := range dh {
		for j := range dh[i] {
			compare("dh", dh[i][j], func(by float64) { p.h[i][j] += by })
		}
	}
	for i := range dproj {
		compare("dW", dproj[i], func(by float64) { p.proj[i] += float32(by) })
	}
	for i := range dbias {
		compare("db", dbias[i], func(by float64) { p.bias[i] += float32(by) })
	}
}

// All energy is deposited or left, whatever the parameters: their gradients of that sum
// are 0, bit for bit.
func TestFlowBackConserves(t *testing.T) {
	_, _, dh, dproj, dbias := newPassage(7, 4).run(true)
	for _, v := range append(dh, dproj, dbias) {
		for i, x := range v {
			if x != 0 {
				t.Errorf("gradient %d is %g", i, x)
			}
		}
	}
	before, _ := refFlowBack(carrier{energy: 1}, []float64{1}, make([]float32, outputs), make([]float32, outputs),
		carrierBack{7, 7, 7}, 0, true, make([]float64, outputs), make([]float64, outputs))
	if before != (carrierBack{}) {
		t.Errorf("a carrier that left got %+v from the one that entered", before)
	}
}
