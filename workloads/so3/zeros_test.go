package so3

import "testing"

// TestZeroCells counts the cells [2 l1+1, 2 l3+1] of every path that are zero whatever
// the harmonics are: less than a quarter, which docs/performance.md says.
func TestZeroCells(t *testing.T) {
	const all = "100x0o+100x0e+33x1o+33x1e+20x2o+20x2e+14x3o+14x3e+11x4o+11x4e"
	for name, c := range map[string]struct {
		in, sh, out  string
		cells, zeros int
	}{
		"mace-large": {"128x0e+128x1o+128x2e", "0e+1o+2e+3o", "128x0e+128x1o+128x2e+128x3o", 243, 56},
		"deepaw":     {all, "0e+1o+2e+3o+4e", all, 4458, 1010},
	} {
		var irreps [3]Irreps
		for i, text := range []string{c.in, c.sh, c.out} {
			var err error
			if irreps[i], err = ParseIrreps(text); err != nil {
				t.Fatal(err)
			}
		}
		tp := UVUProduct(irreps[0], irreps[1], irreps[2])
		cells, zeros := 0, 0
		for _, in := range tp.Instructions {
			l1, l2, l3 := tp.In1[in.In1].Ir.L, tp.In2[in.In2].Ir.L, tp.Out[in.Out].Ir.L
			w, err := Wigner3j(l1, l2, l3)
			if err != nil {
				t.Fatal(err)
			}
			d2, d3 := 2*l2+1, 2*l3+1
			for i := range 2*l1 + 1 {
				for k := range d3 {
					cells++
					zero := 1
					for j := range d2 {
						if v := w[(i*d2+j)*d3+k]; v > 1e-9 || v < -1e-9 {
							zero = 0
						}
					}
					zeros += zero
				}
			}
		}
		if cells != c.cells || zeros != c.zeros {
			t.Errorf("%s: %d of %d cells are zero, want %d of %d", name, zeros, cells, c.zeros, c.cells)
		}
	}
}
