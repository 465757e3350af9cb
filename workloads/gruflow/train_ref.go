package gruflow

import "math"

// lossKappa is the weight of the carriers' drift in the loss.
const lossKappa = 0.3

// refLoss is what a step of training lowers, in float64:
//
//	L = sum over levels of (dose - target)^2/2 + kappa sum over carriers of place^2/2
//
// of all deposits dose [D] of a window and the places [B,2] after it. ddose and dplace
// are its cotangents.
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

// carrierBack is the cotangent of a carrier: of its energy and its place.
type carrierBack struct{ energy, x, y float64 }

// refFlowBack takes one carrier a level up again in float64. after is the cotangent of
// what it became, deposit that of its deposit; a carrier that left has none of the one
// that entered in its place. h is the top layer's state before the level cleared it. It
// returns the cotangents of the carrier before and of h, and adds to those of the
// projection:
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
