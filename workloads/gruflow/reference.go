package gruflow

import "math"

// refCell computes one GRU step of one row in float64 by PyTorch's formula (torch.nn.GRU), rows of the weights in the
// order r, z, n:
//
//	r  = sigma(W_ir x + b_ir + W_hr h + b_hr)
//	z  = sigma(W_iz x + b_iz + W_hz h + b_hz)
//	n  = tanh(W_in x + b_in + r (W_hn h + b_hn))
//	h' = (1 - z) n + z h
//
// wi is [3H,K], wh [3H,H], bi and bh [3H] or empty without a bias; out [H] must not be h unless H is 1. norace: one
// goroutine computes here, so the race detector would only cost time (see op.RefGemm).
//
//go:norace
func refCell[F float32 | float64](x, h []float64, wi, wh, bi, bh []F, out []float64) {
	n := len(h)
	row := func(w, b []F, i int, v []float64) float64 {
		sum := 0.0
		if len(b) > 0 {
			sum = float64(b[i])
		}
		w = w[i*len(v) : (i+1)*len(v)]
		for j, a := range v {
			sum += float64(w[j]) * a
		}
		return sum
	}
	for j := range n {
		r := sigmoid(row(wi, bi, j, x) + row(wh, bh, j, h))
		z := sigmoid(row(wi, bi, n+j, x) + row(wh, bh, n+j, h))
		c := math.Tanh(row(wi, bi, 2*n+j, x) + r*row(wh, bh, 2*n+j, h))
		out[j] = (1-z)*c + z*h[j]
	}
}

func sigmoid(v float64) float64 { return 1 / (1 + math.Exp(-v)) }

type carrier struct {
	energy float64
	level  int
	x, y   float64
}

// refFlow moves one carrier (row of the batch) down by one level. Of its energy e the share sigma(p0) stays at the
// level, and the carrier drifts by stride*tanh(p1, p2), where p = W h + b is the projection of the top layer's state. A
// carrier that passes the last of depth levels leaves; the result leaves is then true. A new carrier with the energy
// source replaces it at the origin of level 0, and the hidden state becomes zero in all layers. record is the step's
// result for the carrier before the replacement.
func refFlow(c carrier, h []float64, proj, bias []float32, depth int, source float64) (next carrier, record [outputs]float64, leaves bool) {
	var p [outputs]float64
	for o := range p {
		p[o] = float64(bias[o])
		for j, v := range h {
			p[o] += float64(proj[o*len(h)+j]) * v
		}
	}
	deposit := sigmoid(p[0]) * c.energy
	next = carrier{
		energy: c.energy - deposit, level: c.level + 1,
		x: c.x + float64(float32(stride))*math.Tanh(p[1]), y: c.y + float64(float32(stride))*math.Tanh(p[2]),
	}
	record = [outputs]float64{deposit, next.energy, next.x, next.y}
	if next.level == depth {
		return carrier{energy: source}, record, true
	}
	return next, record, false
}

// refMetrics reduces the records [B,outputs], the levels after the step [B] and the top layer's state h [B,H] to the
// metrics.
func refMetrics(s shape, records []float32, levels []int32, h []float32) []float64 {
	m := make([]float64, s.metrics())
	for c, level := range levels {
		rec := records[c*outputs : (c+1)*outputs]
		deposit, energy := float64(rec[outDeposit]), float64(rec[outEnergy])
		m[metDeposited] += deposit
		was := int(level) - 1
		if level == 0 { // it has just entered: its predecessor left from the last level
			was = s.D - 1
			m[metLeft] += energy
			m[metLeaving]++
		} else {
			m[metCarried] += energy
		}
		m[metFixed+was] += deposit
		m[metHottest] = math.Max(m[metHottest], energy)
		m[metSpread] += float64(rec[outX])*float64(rec[outX]) + float64(rec[outY])*float64(rec[outY])
		m[metDepth] += float64(level)
	}
	for _, v := range h {
		m[metHidden] += float64(v) * float64(v)
	}
	return m
}
