package tpgen

import (
	"os"
	"testing"
)

func TestGradientSourcesAreFresh(t *testing.T) {
	for _, f := range Families() {
		if f.GradRoom == 0 {
			continue
		}
		text, _, err := GradSource(f)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile("../tensorproduct_gengrad_" + f.Name + ".cu")
		if err != nil || string(kept) != text {
			t.Errorf("the gradients of %s are stale (%v); run go generate ./workloads/op/tpgen and make kernels", f.Name, err)
		}
	}
}

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
