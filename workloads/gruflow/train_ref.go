package gruflow

import "math"

// lossKappa is the weight of the places' term in the loss.
const lossKappa = 0.3

// refLoss is the training loss in float64:
//
//	L = sum over levels of (dose - target)^2/2 + kappa sum over carriers of place^2/2
//
// where dose [D] sums all deposits of a window and place [B,2] holds the places after the window. ddose and dplace
// are the derivatives of L.
func refLoss(dose, target, place []float64) (loss float64, ddose, dplace []float64) {
	ddose, dplace = make([]float64, len(dose)), make([]float64, len(place))
	for d, v := range dose {
		ddose[d] = v - target[d]
		loss += ddose[d] * ddose[d] / 2
	}
	for i, v := range place {
		dplace[i] = lossKappa * v
		loss += lossKappa * v * v / 2
	}
	return loss, ddose, dplace
}

// carrierBack holds the cotangents of a carrier's energy and place.
type carrierBack struct{ energy, x, y float64 }

// refFlowBack is the backward pass, in float64, of moving one carrier (row of the batch) down by one level. after is
// the cotangent of the carrier after the level, deposit the cotangent of its deposit. If leaves is set, after is
// ignored, because it belongs to the carrier that replaced this one. h is the top layer's state before the level
// cleared it. The function returns the cotangents of the carrier before the level and of h, and adds to the
// projection's gradients:
//
//	dp0 = (dq - de1) e d(1-d), de = dq d + de1 (1-d), dp12 = s dplace (1 - tanh^2)
//	dh = W^T dp, dW += dp h^T, db += dp
//
// with d = sigma(p0), q = d e and e1 = e - q.
func refFlowBack(c carrier, h []float64, proj, bias []float32, after carrierBack, deposit float64, leaves bool, dproj, dbias []float64) (before carrierBack, dh []float64) {
	if leaves {
		after = carrierBack{}
	}
	var p, dp [outputs]float64
	for o := range p {
		p[o] = float64(bias[o])
		for j, v := range h {
			p[o] += float64(proj[o*len(h)+j]) * v
		}
	}
	d, s := sigmoid(p[0]), float64(float32(stride))
	back := func(p, dplace float64) float64 { t := math.Tanh(p); return s * dplace * (1 - t*t) }
	dp[0] = (deposit - after.energy) * c.energy * d * (1 - d)
	dp[1], dp[2] = back(p[1], after.x), back(p[2], after.y)
	dh = make([]float64, len(h))
	for o, v := range dp {
		dbias[o] += v
		for j := range h {
			dh[j] += float64(proj[o*len(h)+j]) * v
			dproj[o*len(h)+j] += v * h[j]
		}
	}
	return carrierBack{energy: deposit*d + after.energy*(1-d), x: after.x, y: after.y}, dh
}

// trip is the path of a carrier (row of the batch) through a window of levels in float64: the values of the forward
// pass that the backward pass needs.
type trip struct {
	s      shape
	p      params
	levels []tripLevel
	end    carrier
}

// tripLevel is one level of a trip: the carrier before the level, the inputs of all time steps, and the states of every
// layer, from the state before the first time step on.
type tripLevel struct {
	at     carrier
	dose   float64
	record [outputs]float64
	leaves bool
	x      [][]float64   // [T][I]
	h      [][][]float64 // [L][T+1][H]
}

// refTrip computes the forward path of carrier c. The argument field returns the input [I] of a time step at a level,
// without the energy.
func refTrip(s shape, p params, window int, c carrier, h0 [][]float64, source float64, field func(level, t int) []float32) trip {
	r := trip{s: s, p: p, end: c}
	for j := range window {
		lv := tripLevel{at: r.end}
		for t := range s.T {
			x := make([]float64, s.I)
			for i, v := range field(j, t) {
				x[i] = float64(v)
			}
			x[0] = r.end.energy
			lv.x = append(lv.x, x)
		}
		in := lv.x
		for l, w := range p.layers {
			states := [][]float64{h0[l]}
			for t := range s.T {
				next := make([]float64, s.H)
				refCell(in[t], states[t], w.wi, w.wh, w.bi, w.bh, next)
				states = append(states, next)
			}
			lv.h, in = append(lv.h, states), states[1:]
		}
		top := lv.h[s.L-1][s.T]
		r.end, lv.record, lv.leaves = refFlow(r.end, top, p.proj, p.bias, s.D, source)
		lv.dose = lv.record[outDeposit]
		h0 = make([][]float64, s.L)
		for l := range h0 {
			h0[l] = lv.h[l][s.T]
			if lv.leaves {
				h0[l] = make([]float64, s.H)
			}
		}
		r.levels = append(r.levels, lv)
	}
	return r
}

type trainGrads struct {
	layers     []grad64
	proj, bias []float64
}

func newTrainGrads(s shape) trainGrads {
	g := trainGrads{proj: make([]float64, outputs*s.H), bias: make([]float64, outputs)}
	for l := range s.L {
		g.layers = append(g.layers, newGrad64(s, l))
	}
	return g
}

// propagate runs the backward pass along the path. It starts from ddose, the cotangents of the doses [D], and from
// after, the cotangent of the carrier after the window. It adds to the gradients in the argument to, and returns the
// cotangents of the initial carrier and of its initial states [L][H].
func (r trip) propagate(ddose []float64, after carrierBack, to trainGrads) (carrierBack, [][]float64) {
	s := r.s
	dh := make([][]float64, s.L)
	for l := range dh {
		dh[l] = make([]float64, s.H)
	}
	for j := len(r.levels) - 1; j >= 0; j-- {
		lv := r.levels[j]
		if lv.leaves {
			for l := range dh {
				clear(dh[l])
			}
		}
		var top []float64
		after, top = refFlowBack(lv.at, lv.h[s.L-1][s.T], r.p.proj, r.p.bias, after, ddose[lv.at.level], lv.leaves, to.proj, to.bias)
		dout := make([][]float64, s.T)
		dout[s.T-1] = top
		for l := s.L - 1; l >= 0; l-- {
			in, w := lv.x, r.p.layers[l]
			if l > 0 {
				in = lv.h[l-1][1:]
			}
			dx := make([][]float64, s.T)
			for t := s.T - 1; t >= 0; t-- {
				for i, v := range dout[t] {
					dh[l][i] += v
				}
				dx[t], dh[l] = refCellBack(in[t], lv.h[l][t], dh[l], w.wi, w.wh, w.bi, w.bh, to.layers[l])
			}
			dout = dx
		}
		for t := range s.T {
			after.energy += dout[t][0]
		}
	}
	return after, dh
}
