package e3nn

import (
	"math"
	"slices"
	"testing"
)

// sines are sin(k+1), sin(k+2), …
func sines(n, k int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = math.Sin(float64(k + 1 + i))
	}
	return v
}

// knownCluster is three atoms and all six pairs whose energy and gradients are known, see
// package op, which has the same figures for the operations one by one.
func knownCluster(t *testing.T, envelope bool) *network {
	t.Helper()
	c := &networkCase{IrrepsIn: "1x0e+1x1o", Hidden: 3, vectorCase: vectorCase{IrrepsOut: "1x0e+1x1o", LMax: new(1), Basis: "gaussian", Functions: 4, Cutoff: 4, Envelope: envelope, X: sines(12, 0), Out: make([]float64, 10)},
		Positions: []float64{0, 0, 0, 1.1, .2, -.3, -.4, 1.3, .8}, Src: []float64{1, 2, 0, 2, 0, 1}, Dst: []float64{0, 0, 1, 1, 2, 2},
		W1: sines(12, 1), W2: sines(12, 2), Mix: sines(6, 3), Readout: []float64{1}}
	n, err := c.newNetwork()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// gradientsOf returns the energy, and its gradients by x, w1, w2, mix and readout.
func gradientsOf(t *testing.T, n *network) (float64, []float64) {
	t.Helper()
	c, in := n.c, n.layer.In.Dim()
	gx := make([]float64, len(c.X))
	g := &refGrads{w1: make([]float64, len(c.W1)), w2: make([]float64, len(c.W2)), mix: make([]float64, len(c.Mix)), readout: make([]float64, len(c.Readout))}
	net, energy := n.refNet(), 0.0
	for r := range n.atoms {
		var row refRow
		g.x = nil
		for e := n.rowptr[r]; e < n.rowptr[r+1]; e++ {
			at := int(n.src[e]) * in
			row.vec, row.x, g.x = append(row.vec, n.edgeVector(int(e))), append(row.x, c.X[at:at+in]), append(g.x, gx[at:at+in])
		}
		sums := &refSums{grads: g}
		if err := net.addRow(row, sums); err != nil {
			t.Fatal(err)
		}
		energy += sums.energy
	}
	return energy, slices.Concat(gx, g.w1, g.w2, g.mix, g.readout)
}

// The energy and its gradient by every position are known, and its gradients by all parameters are differences of
// the energy.
func TestGradientsAreSlopesOfTheEnergy(t *testing.T) {
	for _, envelope := range []bool{false, true} {
		n := knownCluster(t, envelope)
		known := []float64{.007696524783894, -.002106623979, .007624453785, .004658861715, .004235472122, -.003576535313, -.003405971905, -.002128848143, -.004047918472, -.001252889810}
		got, err := n.reference()
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range known {
			if !envelope && math.Abs(got[i]-w) > 1e-12 {
				t.Errorf("value %d is %.12f, want %.12f", i, got[i], w)
			}
		}
		_, grads := gradientsOf(t, n)
		at, worst, largest := 0, 0.0, 0.0
		for _, p := range n.parameters() {
			for i := range p {
				energy := func(e float64) float64 {
					defer func(v float64) { p[i] = v }(p[i])
					p[i] += e
					v, _ := gradientsOf(t, n)
					return v
				}
				const h = 1e-3
				slope := (8*(energy(h)-energy(-h)) - (energy(2*h) - energy(-2*h))) / (12 * h)
				worst, largest = max(worst, math.Abs(slope-grads[at])), max(largest, math.Abs(grads[at]))
				at++
			}
		}
		if at != len(grads) || !(worst <= 1e-10*largest) {
			t.Errorf("envelope %t: differences are %.3g off of %.3g", envelope, worst, largest)
		}
	}
}
