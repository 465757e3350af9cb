package tpgen

import "testing"

// Every weight's gradient is written by one lane, which reads its weight, its x and all of its
// dz at addresses that its vector can have; every harmonic's columns are of warps that compute it, and no
// two warps have one.
func TestGradientPlansCoverTheProduct(t *testing.T) {
	for _, f := range Families() {
		for n := range f.Layers {
			if f.GradRoom == 0 {
				continue
			}
			plan, err := GradPlanOf(f, n)
			if err != nil {
				t.Fatal(err)
			}
			_, parts, err := GradSource(f)
			if err != nil {
				t.Fatal(err)
			}
			tp := plan.Spec.TP
			weights, outs, columns := map[int]bool{}, map[int]bool{}, map[int]bool{}
			for _, w := range plan.Warps {
				p := parts[w.Number]
				for c := range w.Harmonics {
					if columns[w.At+c] || w.At+c >= plan.Columns {
						t.Fatalf("%s: column %d of dy has two warps, or lies beyond %d", f.Name, w.At+c, plan.Columns)
					}
					columns[w.At+c] = true
				}
				for _, l := range w.Lanes {
					if l.X%p.Copies != 0 || l.Line < 0 || l.Line >= tp.WeightNumel() {
						t.Fatalf("%s: x %d, line %d", f.Name, l.X, l.Line)
					}
					for i, place := range l.Places {
						at := l.Weights[i]
						if !p.Merged && at != l.W+p.columns[i] || at%p.Copies != 0 || at < 0 || at+p.Copies > tp.WeightNumel() {
							t.Fatalf("%s: path %d has its weights at %d", f.Name, i, at)
						}
						if place < 0 {
							continue
						}
						for v := range p.Copies {
							if weights[at+v] || place%p.Copies != 0 {
								t.Fatalf("%s: weight %d has two lanes, or dz %d no vector", f.Name, at+v, place)
							}
							weights[at+v] = true
							for k := range p.paths[i].d3() {
								outs[place+v+k*p.Mul] = true
							}
						}
					}
				}
			}
			if len(weights) != tp.WeightNumel() || len(outs) != tp.Out.Dim() {
				t.Errorf("%s: %d weights and %d values of dz, the product has %d and %d", f.Name, len(weights), len(outs), tp.WeightNumel(), tp.Out.Dim())
			}
		}
	}
}

// Every feature's gradient is written by one lane, which reads weights and dz of all of its paths
// at addresses that its vector can have.
func TestFeatureGradientPlansCoverTheProduct(t *testing.T) {
	for _, f := range Families() {
		for n := range f.Layers {
			if f.XRoom == 0 {
				continue
			}
			plan, err := XPlanOf(f, n)
			if err != nil {
				t.Fatal(err)
			}
			_, parts, err := XSource(f)
			if err != nil {
				t.Fatal(err)
			}
			tp := plan.Spec.TP
			xs, weights, outs := map[int]bool{}, map[int]bool{}, map[int]bool{}
			for _, w := range plan.Warps {
				p := parts[w.Number]
				for _, l := range w.Lanes {
					if (l.X|l.W|l.Z|tp.In1.Dim()|tp.Out.Dim()|tp.WeightNumel())%p.Copies != 0 {
						t.Fatalf("%s: x %d, w %d and dz %d are no vectors of %d", f.Name, l.X, l.W, l.Z, p.Copies)
					}
					for v := range p.Copies {
						for i := range 2*p.L1 + 1 {
							at := l.X + v + i*p.Mul
							if l.Writes && xs[at] {
								t.Fatalf("%s: feature %d has two lanes", f.Name, at)
							}
							xs[at] = xs[at] || l.Writes
						}
						for i, q := range p.paths {
							weights[l.W+p.columns[i]+v] = true
							for k := range q.d3() {
								outs[l.Z+p.place[i]+v+k*p.Mul] = true
							}
						}
					}
				}
			}
			if len(xs) != tp.In1.Dim() || len(weights) != tp.WeightNumel() || len(outs) != tp.Out.Dim() {
				t.Errorf("%s: %d features, %d weights and %d values of dz, the product has %d, %d and %d", f.Name, len(xs), len(weights), len(outs), tp.In1.Dim(), tp.WeightNumel(), tp.Out.Dim())
			}
		}
	}
}

// Features of one degree and multiplicity but two parities are one part of dw and dy, and dx
// goes to the general kernel.
func TestFeatureGradientRefusesMergedBlocks(t *testing.T) {
	tp, err := Layer{In: "32x1o+32x1e", Target: "0e+1o+1e", LMax: 1}.Product()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CutX(tp, 92); err == nil {
		t.Error("two blocks of degree 1 with 32 channels were cut")
	}
}
