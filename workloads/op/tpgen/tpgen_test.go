package tpgen

import "testing"

// Every path is computed once, by lanes that cover its channels, each with its own
// weight at an address its vector can have; and no two write one value.
func TestPlansCoverTheProduct(t *testing.T) {
	for _, f := range Families() {
		for n := range f.Layers {
			plan, err := PlanOf(f, n)
			if err != nil {
				t.Fatal(err)
			}
			tp := plan.Spec.TP
			weights, outs := map[int]bool{}, map[int]bool{}
			for _, w := range plan.Warps {
				p := parts(t, f)[w.Number]
				for _, l := range w.Lanes {
					if (l.X%p.Copies|l.W%p.Copies) != 0 || plan.Spec.Columns.Stride%p.Copies != 0 || tp.In1.Dim()%p.Copies != 0 {
						t.Fatalf("%s: part %d reads vectors of %d at x %d and w %d", f.Name, w.Number, p.Copies, l.X, l.W)
					}
					for i, place := range l.Places {
						if p.columns[i]%p.Copies != 0 || l.W+p.columns[i]+p.Copies > plan.Spec.Columns.Stride {
							t.Fatalf("%s: column %d of part %d", f.Name, p.columns[i], w.Number)
						}
						if place < 0 {
							continue
						}
						for v := range p.Copies {
							if weights[l.W+p.columns[i]+v] {
								t.Fatalf("%s: weight %d is used twice", f.Name, l.W+p.columns[i]+v)
							}
							weights[l.W+p.columns[i]+v] = true
							for k := range p.paths[i].d3() {
								if at := place + v + k*p.Mul; outs[at] {
									t.Fatalf("%s: value %d is written twice", f.Name, at)
								} else {
									outs[at] = true
								}
							}
						}
					}
				}
			}
			if len(weights) != tp.WeightNumel() || len(outs) != tp.Out.Dim() {
				t.Errorf("%s: %d weights and %d values, the product has %d and %d", f.Name, len(weights), len(outs), tp.WeightNumel(), tp.Out.Dim())
			}
		}
	}
}

func parts(t *testing.T, f Family) []*Part {
	t.Helper()
	_, all, err := Source(f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// mace-large's weights are aligned without padding; the weights of deepaw's third layer take 54 columns more.
func TestColumns(t *testing.T) {
	families := Families()
	for i, want := range map[int]Columns{2: {Stride: 2176}, 5: {Stride: 3292}} {
		plan, err := PlanOf(families[i], len(families[i].Layers)-1)
		if err != nil {
			t.Fatal(err)
		}
		s := plan.Spec
		if s.Columns.Stride != want.Stride || s.Straight() != (want.Stride == s.TP.WeightNumel()) {
			t.Errorf("%s: %d columns for %d weights, expected %d", families[i].Name, s.Columns.Stride, s.TP.WeightNumel(), want.Stride)
		}
	}
}
