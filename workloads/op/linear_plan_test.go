package op

import (
	"slices"
	"testing"
)

// Tiles fit the blocks: of the multiply-adds that their threads do, few are nobody's. Tiles of 32 copies that begin anew with
// every source do 2.6 to 4.2 times as many at deepaw's multiplicities of 33, 20, 14 and 11. And there are enough of them for
// all multiprocessors of an H200 to end at nearly the same time, with as many blocks on each as its registers hold.
func TestLinearPlanWastesLittle(t *testing.T) {
	cases := generatedCases(t)
	for _, c := range []struct {
		in, rows int
		out      string
		limit    float64
	}{
		{2, 1000, "128x0e+384x0e+128x1o+128x2e+128x3o", 1.03},
		{5, 3000, "100x0o+100x0e+156x0e+33x1o+33x1e+20x2o+20x2e+14x3o+14x3e+11x4o+11x4e", 1.15},
	} {
		l := Linear{In: cases[c.in].tp.Out, Out: irreps(t, c.out), Layout: IrMul}
		pairs, coefficients := l.pairTable()
		p := mixing{in: l.In, out: l.Out, pairs: pairs, coefficients: coefficients}.makePlan(c.rows)
		needed, done := 0, 0
		for i := range coefficients {
			q := pairs[i*pairInts:]
			needed += c.rows * int(q[3]*q[4]*q[5])
		}
		for i := range p.tiles {
			kind := p.kind(i)
			length := 0
			for s := kind[2]; s < kind[3]; s++ {
				length += int(p.ints[sliceInts*s+3])
			}
			// Idle threads wait for the others.
			done += linearThreads * linearDeep * 4 * length
		}
		if waste := float64(done) / float64(needed); waste > c.limit || waste < 1 {
			t.Errorf("%s: %.3g times the multiply-adds that are needed, expected at most %g", cases[c.in].name, waste, c.limit)
		} else {
			t.Logf("%s: %.3g times the multiply-adds that are needed in %d tiles of up to %d bytes", cases[c.in].name, waste, p.tiles, p.most)
		}
		if late := p.late(132, 4); late > 1.15 || late < 1 {
			t.Errorf("%s: the last multiprocessor ends after %.3g of the mean, expected at most 1.15", cases[c.in].name, late)
		} else {
			t.Logf("%s: the last multiprocessor ends after %.3g of the mean", cases[c.in].name, late)
		}
	}
}

// kind is the kind of tile i.
func (p linearPlan) kind(i int) []int32 {
	tiles := p.ints[sliceInts*p.slices:]
	return tiles[tileInts*p.tiles+kindInts*int(tiles[tileInts*i]):][:kindInts]
}

// late is when the last of some multiprocessors ends, with 1 for the mean. Blocks start in order, each on the first
// multiprocessor with a place; those of one share its arithmetic, and a block takes as long as K.
func (p linearPlan) late(processors, places int) float64 {
	type processor struct {
		now  float64
		left []float64 // of its blocks
	}
	all, total, next := make([]processor, processors), 0.0, 0
	start := func(m *processor) {
		if next == p.tiles {
			return
		}
		length := 0.0
		for s, kind := p.kind(next)[2], p.kind(next); s < kind[3]; s++ {
			length += float64(p.ints[sliceInts*s+3])
		}
		m.left, total, next = append(m.left, length), total+length, next+1
	}
	for range places {
		for i := range all {
			start(&all[i])
		}
	}
	for {
		ends, first := -1.0, 0
		for i := range all {
			m := &all[i]
			if len(m.left) == 0 {
				continue
			}
			if end := m.now + slices.Min(m.left)*float64(len(m.left)); ends < 0 || end < ends {
				ends, first = end, i
			}
		}
		if ends < 0 {
			break
		}
		m := &all[first]
		least := slices.Min(m.left)
		m.now = ends
		at := slices.Index(m.left, least)
		m.left = slices.Delete(m.left, at, at+1)
		for i := range m.left {
			m.left[i] -= least
		}
		start(m)
	}
	last := 0.0
	for i := range all {
		last = max(last, all[i].now)
	}
	return last * float64(processors) / total
}
