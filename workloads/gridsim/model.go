package gridsim

import (
	"math"
	"math/rand/v2"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// tau is the step size of the laws mlp and diffuse, turn the angle in radians of the law walk. tiny is added to the sum
// of a cell's squared values before the square root, so that no division is by 0.
const (
	tau  = 0.1
	tiny = 1e-8
	turn = 0.3
)

// shape is the model: it alone defines the results, independent of the implementation.
type shape struct {
	N, C, H   int
	law       string
	normalise bool
	zero      bool // zero border; else periodic
	hwc       bool // layout of the state: channels last
	identity  bool // no activation; set by tests only
	tau       float32
}

func shapeOf(k settings) shape {
	return shape{
		N: k.Grid, C: k.Channels, H: k.Hidden, law: k.Law, normalise: k.Normalise, zero: k.Border == borderO, hwc: k.Layout == layoutHW, tau: tau,
	}
}

func (s shape) cells() int { return s.N * s.N }

func (s shape) stateWords() int64 { return int64(s.C) * int64(s.cells()) }

// offset returns the index of channel c of cell i in an array. The argument cells is the number of the array's cells,
// channels the number of values of each cell.
func (s shape) offset(c, i, channels, cells int) int {
	if s.hwc {
		return i*channels + c
	}
	return c*cells + i
}

// weights holds the network of the law mlp: W1 [H,2C], b1 [H], W2 [C,H], b2 [C].
type weights struct{ w1, b1, w2, b2 []float32 }

// drawWeights draws the network from the seed: W1 is normal / sqrt(2C), W2 normal / sqrt(H), biases are 0.1 normal.
func drawWeights(s shape, seed uint64) weights {
	rng := rand.New(rand.NewPCG(seed, 1))
	draw := func(n int, scale float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(scale * rng.NormFloat64())
		}
		return v
	}
	return weights{
		w1: draw(s.H*2*s.C, 1/math.Sqrt(2*float64(s.C))), b1: draw(s.H, 0.1),
		w2: draw(s.C*s.H, 1/math.Sqrt(float64(s.H))), b2: draw(s.C, 0.1),
	}
}

// packedAt holds the offsets of the packed weights in elements: W1, W2, their transposes (a product reads one of the
// two forms), and the biases.
type packedAt struct{ w1, w2, w1T, w2T, b1, b2, words int }

func packedOf(c, h int) packedAt {
	n1, n2 := 2*c*h, c*h
	return packedAt{w1: 0, w2: n1, w1T: n1 + n2, w2T: 2*n1 + n2, b1: 2 * (n1 + n2), b2: 2*(n1+n2) + h, words: 2*(n1+n2) + h + c}
}

// packWeights returns the network in the kernels' order, the matrices rounded to the precision.
func (w weights) packWeights(s shape, precision string) []float32 {
	at := packedOf(s.C, s.H)
	out := make([]float32, at.words)
	copy(out[at.w1:], w.w1)
	copy(out[at.w2:], w.w2)
	transpose(out[at.w1T:], w.w1, s.H, 2*s.C)
	transpose(out[at.w2T:], w.w2, s.C, s.H)
	op.RoundTo(precision, out[:at.b1])
	copy(out[at.b1:], w.b1)
	copy(out[at.b2:], w.b2)
	return out
}

func transpose(dst, src []float32, rows, cols int) {
	for r := range rows {
		for c := range cols {
			dst[c*rows+r] = src[r*cols+c]
		}
	}
}

func drawState(s shape, seed uint64) []float32 { return s.arrangeCells(drawCells(s, seed)) }

// drawCells draws the first state as [cells,C]: normal values, each cell normalised. For the law diffuse the values are
// 1 + 0.1 times normal values, because a state that decays to 0 would end in denormal numbers.
func drawCells(s shape, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 2))
	out := make([]float32, s.stateWords())
	cell := make([]float64, s.C)
	for i := range s.cells() {
		sum := 0.0
		for c := range cell {
			cell[c] = rng.NormFloat64()
			sum += cell[c] * cell[c]
		}
		length := math.Sqrt(sum + tiny)
		for c, v := range cell {
			if s.law == lawDiffuse {
				v = 1 + 0.1*v
			} else {
				v /= length
			}
			out[i*s.C+c] = float32(v)
		}
	}
	return out
}

// arrangeCells converts a state [cells,C] to the session's layout.
func (s shape) arrangeCells(cells []float32) []float32 {
	if s.hwc {
		return cells
	}
	out := make([]float32, len(cells))
	transpose(out, cells, s.cells(), s.C)
	return out
}

// lawCost returns the least arithmetic and traffic of a step, independent of the implementation.
func (s shape) lawCost(precision string) gpuprof.Cost {
	p, c, h := int64(s.cells()), int64(s.C), int64(s.H)
	cost := gpuprof.Cost{BytesRead: 4 * c * p, BytesWritten: 4 * c * p, Launches: 1}
	switch s.law {
	case lawDiffuse:
		cost.Flops = 11 * c * p
	case lawWalk:
		cost.Flops = 6 * c * p
	default:
		cost.Flops = (8*c + 6*c*h + 3*h + 3*c) * p // neighbours, products, biases and elu, update
		if s.normalise {
			cost.Flops += (3*c + 2) * p
		}
		cost = cost.In(precision, 6*c*h*p)
	}
	return cost
}

// frameCost returns the cost of a frame. It reads the state, for the map of changes also the previous state, and
// writes the picture, which has as many planes as maps.
func frameCost(s shape, maps, scale int) gpuprof.Cost {
	p, c := int64(s.cells()), int64(s.C)
	cost := gpuprof.Cost{Flops: 2 * c * p, BytesRead: 4 * c * p, BytesWritten: 4 * int64(maps) * p / int64(scale*scale), Launches: 1}
	if maps > 1 {
		cost.Flops += 3 * c * p
		cost.BytesRead += 4 * c * p
	}
	return cost
}
