package op

import "testing"

// Tiles fit the blocks: of the multiply-adds that their threads do, few are nobody's. Tiles of 32 copies that begin anew with
// every source do 2.6 to 4.2 times as many at deepaw's multiplicities of 33, 20, 14 and 11.
func TestLinearPlanWastesLittle(t *testing.T) {
	cases := generatedCases(t)
	for _, c := range []struct {
		in, rows int
		out      string
		limit    float64
	}{
		{2, 1000, "128x0e+384x0e+128x1o+128x2e+128x3o", 1.03},
		{5, 3000, "100x0o+100x0e+156x0e+33x1o+33x1e+20x2o+20x2e+14x3o+14x3e+11x4o+11x4e", 1.25},
	} {
		l := Linear{In: cases[c.in].tp.Out, Out: irreps(t, c.out), Layout: IrMul}
		pairs, coefficients := l.pairs()
		p := mixing{in: l.In, out: l.Out, pairs: pairs, coefficients: coefficients}.plan(c.rows)
		needed, done := 0, 0
		for i := range coefficients {
			q := pairs[i*pairInts:]
			needed += c.rows * int(q[3]*q[4]*q[5])
		}
		longest := 1 << 30
		for i := range p.tiles {
			kind := p.ints[2*p.tiles+8*int(p.ints[2*i]):]
			length := 0
			for s := kind[2]; s < kind[3]; s++ {
				length += int(p.ints[2*p.tiles+8*p.kinds+8*int(s)+1])
			}
			if length > longest {
				t.Fatalf("tile %d of %s is longer than the one before it", i, cases[c.in].name)
			}
			longest = length
			// Idle threads wait for the others.
			done += linearThreads * linearDeep * 4 * ceilDiv(length, linearSlice) * linearSlice
		}
		if waste := float64(done) / float64(needed); waste > c.limit || waste < 1 {
			t.Errorf("%s: %.3g times the multiply-adds that are needed, expected at most %g", cases[c.in].name, waste, c.limit)
		} else {
			t.Logf("%s: %.3g times the multiply-adds that are needed in %d tiles of up to %d bytes", cases[c.in].name, waste, p.tiles, p.most)
		}
	}
}
