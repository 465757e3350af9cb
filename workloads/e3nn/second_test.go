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
	c := &vectorCase{IrrepsIn: "1x0e+1x1o", IrrepsOut: "1x0e+1x1o", LMax: new(1), Basis: "gaussian", Functions: 4, Cutoff: 4, Envelope: envelope, Hidden: 3,
		Positions: []float64{0, 0, 0, 1.1, .2, -.3, -.4, 1.3, .8}, Src: []float64{1, 2, 0, 2, 0, 1}, Dst: []float64{0, 0, 1, 1, 2, 2},
		X: sines(12, 0), W1: sines(12, 1), W2: sines(12, 2), Mix: sines(6, 3), Readout: []float64{1}, Out: make([]float64, 10)}
	n, err := c.newNetwork()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// firstGradients returns the gradients of the energy by x, w1, w2, mix and readout.
func firstGradients(t *testing.T, n *network) []float64 {
	t.Helper()
	c, in := n.c, n.layer.In.Dim()
	gx := make([]float64, len(c.X))
	g := &refGrads{w1: make([]float64, len(c.W1)), w2: make([]float64, len(c.W2)), mix: make([]float64, len(c.Mix)), readout: make([]float64, len(c.Readout))}
	net := n.refNet()
	for r := range n.atoms {
		var row refRow
		g.x = nil
		for e := n.rowptr[r]; e < n.rowptr[r+1]; e++ {
			at := int(n.src[e]) * in
			row.vec, row.x, g.x = append(row.vec, n.edgeVector(int(e), c.Positions)), append(row.x, c.X[at:at+in]), append(g.x, gx[at:at+in])
		}
		if err := net.addRow(row, &refSums{first: g}); err != nil {
			t.Fatal(err)
		}
	}
	return slices.Concat(gx, g.w1, g.w2, g.mix, g.readout)
}

// The gradients of the energy's slope along v are the slopes of its gradients: the second
// derivatives of an energy do not depend on which comes first.
func TestSecondGradientsAreSlopesOfTheFirst(t *testing.T) {
	for _, envelope := range []bool{false, true} {
		n := knownCluster(t, envelope)
		known := []float64{.007696524783894, -.002106623979, .007624453785, .004658861715, .004235472122, -.003576535313, -.003405971905, -.002128848143, -.004047918472, -.001252889810}
		dir := sines(9, 5)
		for i := range dir {
			dir[i] /= 4 // a step as short as one of 1e-3 along an axis is
		}
		got, err := n.reference(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range known {
			if !envelope && math.Abs(got[i]-w) > 1e-12 {
				t.Errorf("value %d is %.12f, want %.12f", i, got[i], w)
			}
		}
		at := func(e float64) []float64 {
			n := knownCluster(t, envelope)
			for i, d := range dir {
				n.c.Positions[i] += e * d
			}
			return firstGradients(t, n)
		}
		const h = 1e-3
		a, b, c, d := at(h), at(-h), at(2*h), at(-2*h)
		got = got[len(known):]
		worst, largest := 0.0, 0.0
		for i, g := range got {
			worst = max(worst, math.Abs((8*(a[i]-b[i])-(c[i]-d[i]))/(12*h)-g))
			largest = max(largest, math.Abs(g))
		}
		if len(got) != len(a) || !(worst <= 1e-10*largest) {
			t.Errorf("envelope %t: differences are %.3g off of %.3g", envelope, worst, largest)
		}
		t.Logf("envelope %t: differences are %.3g off of %.3g", envelope, worst, largest)
	}
}
