package gruflow

import (
	"math"
	"math/rand/v2"
)

type shape struct {
	T int `knob:"steps"`  // time steps in a call
	B int `knob:"flows"`  // carriers
	I int `knob:"input"`  // input features
	H int `knob:"hidden"` // units
	L int `knob:"layers"` // layers
	D int `knob:"depth"`  // levels
}

func (s shape) inputWidth(layer int) int {
	if layer == 0 {
		return s.I
	}
	return s.H
}

// gates returns the number of values per row in the output of a gate product, for r, z and n.
func (s shape) gates() int { return 3 * s.H }

// outputs is the number of columns in the projection of a hidden state. They are the logit of the deposited share of
// energy, two components of a displacement in the plane, and a spare column that pads a record to 16 bytes.
const outputs = 4

// Columns of a carrier's record, the step's result [B, outputs].
const (
	outDeposit = iota // energy deposited at the level
	outEnergy         // energy left
	outX              // place in the plane
	outY
)

// Metrics of a step: metFixed values, then the dose (the sum of deposits) of every level.
const (
	metDeposited = iota // sum of deposits
	metCarried          // energy of the carriers that stay
	metLeft             // energy of those that leave at the bottom
	metLeaving          // number of carriers that leave
	metHottest          // largest energy
	metHidden           // squared norm of the top layer's state
	metSpread           // sum of x^2 + y^2
	metDepth            // sum of levels
	metFixed
)

func (s shape) metrics() int { return metFixed + s.D }

// stride is the largest move of a carrier in the plane in one step.
const stride = 0.01

// layerParams holds one layer in PyTorch's shapes: wi [3H,K], wh [3H,H], bi, bh [3H], rows in the order r, z, n.
type layerParams struct{ wi, wh, bi, bh []float32 }

// params holds a model's parameters in float32, for the reference.
type params struct {
	layers []layerParams
	proj   []float32 // [outputs, H]
	bias   []float32 // [outputs]
}

type state struct {
	h      []float32 // [L,B,H]
	energy []float32 // [B]
	level  []int32   // [B]
	place  []float32 // [B,2]
}

// depositBias is the logit of 0.1, the share of its energy that a carrier of a new model usually deposits at a level.
var depositBias = float32(math.Log(0.1 / 0.9))

// drawParams draws parameters as PyTorch initialises a GRU: uniform within 1/sqrt(H). If draws is false, they are 0,
// except the bias of the projection.
func drawParams(s shape, seed uint64, draws bool) params {
	rng := rand.New(rand.NewPCG(seed, 2))
	bound := 1 / math.Sqrt(float64(s.H))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			if !draws {
				break
			}
			v[i] = float32((2*rng.Float64() - 1) * bound)
		}
		return v
	}
	var p params
	for l := range s.L {
		p.layers = append(p.layers, layerParams{
			wi: draw(s.gates() * s.inputWidth(l)), wh: draw(s.gates() * s.H), bi: draw(s.gates()), bh: draw(s.gates()),
		})
	}
	p.proj, p.bias = draw(outputs*s.H), []float32{depositBias, 0, 0, 0}
	return p
}

// drawState distributes the carriers (rows of the batch) over all levels, so that the same number leaves in each step
// and all steps do equal work. Hidden states are random, as after some steps.
func drawState(s shape, seed uint64) state {
	rng := rand.New(rand.NewPCG(seed, 4))
	st := state{h: make([]float32, s.L*s.B*s.H), energy: make([]float32, s.B), level: make([]int32, s.B), place: make([]float32, 2*s.B)}
	for i := range st.h {
		st.h[i] = rng.Float32() - 0.5
	}
	for c := range s.B {
		st.energy[c] = 0.5 + rng.Float32()
		st.level[c] = int32(c % s.D)
		st.place[2*c], st.place[2*c+1] = stride*(rng.Float32()-0.5), stride*(rng.Float32()-0.5)
	}
	return st
}

// drawSources draws the energy [B] with which each carrier enters.
func drawSources(s shape, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 5))
	v := make([]float32, s.B)
	for i := range v {
		v[i] = 0.5 + rng.Float32()
	}
	return v
}

// drawInputs fills x [T,B,I] with the inputs of a step, normal with unit variance. Column 0 is 0; the device writes
// each carrier's energy to it.
func drawInputs(s shape, seed uint64, batch int, x []float32) {
	rng := rand.New(rand.NewPCG(seed, 100+uint64(batch)))
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for i := 0; i < len(x); i += s.I {
		x[i] = 0
	}
}
