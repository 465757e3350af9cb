package structure_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/structure"
)

func length(v [3]float64) float64 { return math.Sqrt(v[0]*v[0] + v[1]*v[1] + v[2]*v[2]) }

func edgeLength(e *structure.Edges, i int) float64 {
	return length([3]float64{float64(e.Vec[3*i]), float64(e.Vec[3*i+1]), float64(e.Vec[3*i+2])})
}

func TestHfO2Cell(t *testing.T) {
	c := structure.HfO2()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, s := range c.Species {
		count[s]++
	}
	if len(c.Positions) != 12 || count["Hf"] != 4 || count["O"] != 8 {
		t.Fatalf("got %d atoms, %v; want 12 with 4 Hf and 8 O", len(c.Positions), count)
	}
	want := 5.12 * 5.17 * 5.29 * math.Sin(99.2*math.Pi/180)
	if got := c.Volume(); math.Abs(got-want) > 1e-9 {
		t.Errorf("volume %v, want abc sin(beta) = %v", got, want)
	}
	a, cc := c.Lattice[0], c.Lattice[2]
	beta := math.Acos((a[0]*cc[0]+a[1]*cc[1]+a[2]*cc[2])/(length(a)*length(cc))) * 180 / math.Pi
	if math.Abs(beta-99.2) > 1e-9 || math.Abs(length(cc)-5.29) > 1e-12 {
		t.Errorf("beta %v, c %v; want 99.2 and 5.29", beta, length(cc))
	}
}

// The published structure has sevenfold hafnium with bonds of 2.0 to 2.3
// angstrom; the two kinds of oxygen have three and four hafnium neighbours.
func TestHfO2Bonds(t *testing.T) {
	c := structure.HfO2()
	const cutoff = 2.4 // between the longest bond and the next shell
	for i, p := range c.Positions {
		e := structure.BruteForce(c, cutoff, p, true)
		want := 7
		switch {
		case i >= 8:
			want = 4
		case i >= 4:
			want = 3
		}
		if len(e.Src) != want {
			t.Errorf("atom %d (%s) has %d neighbours within %g, want %d", i, c.Species[i], len(e.Src), cutoff, want)
		}
		for j, src := range e.Src {
			if d := edgeLength(e, j); c.Species[src] == c.Species[i] || d < 2.0 || d > 2.3 {
				t.Errorf("atom %d (%s) bonds to %s at %.3f, want the other element at 2.0 to 2.3", i, c.Species[i], c.Species[src], d)
			}
		}
	}
}

// The cell must map onto itself under the glide plane and the inversion (which
// with the translations generate the group).
func TestHfO2Symmetry(t *testing.T) {
	c := structure.HfO2()
	a, b, cc := c.Lattice[0], c.Lattice[1], c.Lattice[2]
	operations := map[string]func(p [3]float64) [3]float64{
		"inversion": func(p [3]float64) [3]float64 { return [3]float64{-p[0], -p[1], -p[2]} },
		"glide": func(p [3]float64) [3]float64 {
			return [3]float64{p[0] + cc[0]/2, b[1]/2 - p[1], p[2] + cc[2]/2}
		},
		"translation": func(p [3]float64) [3]float64 {
			return [3]float64{p[0] + a[0] - 2*cc[0], p[1] + 3*b[1], p[2] - 2*cc[2]}
		},
	}
	for name, operation := range operations {
		for i, p := range c.Positions {
			e := structure.BruteForce(c, 1e-3, operation(p), false)
			if len(e.Src) != 1 || c.Species[e.Src[0]] != c.Species[i] {
				t.Errorf("%s of atom %d (%s) meets atoms %v", name, i, c.Species[i], e.Src)
			}
		}
	}
}

func TestDiamondNeighbours(t *testing.T) {
	c := structure.Diamond(5, 5, 5, 3.567)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if len(c.Positions) != 1000 {
		t.Fatalf("%d atoms, want 1000", len(c.Positions))
	}
	f, err := structure.NewFinder(c, 6)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range c.Positions {
		if n := f.Count(p, true); n != 158 {
			t.Fatalf("atom %d has %d neighbours within 6 angstrom, want 158", i, n)
		}
		if n := f.Count(p, false); n != 159 {
			t.Fatalf("atom %d has %d neighbours with itself, want 159", i, n)
		}
	}
}

func TestDiamondRefusesNonsense(t *testing.T) {
	for _, c := range []*structure.Crystal{
		structure.Diamond(0, 1, 1, 3.567), structure.Diamond(1, -1, -1, 3.567),
		structure.Diamond(1, 1, 1, 0), structure.Diamond(1, 1, 1, math.NaN()),
		structure.Diamond(1, 1, 1, math.Inf(1)), structure.Diamond(1<<20, 1<<20, 1<<20, 3.567),
		structure.Diamond(1, 1, 1, 1e9),
	} {
		if err := c.Validate(); err == nil {
			t.Errorf("%s with lattice %v is valid", c.Name, c.Lattice)
		}
	}
}

func TestValidate(t *testing.T) {
	cases := []struct {
		name   string
		change func(c *structure.Crystal)
		want   string
	}{
		{"no atoms", func(c *structure.Crystal) { c.Positions = nil }, "no atoms"},
		{"lengths", func(c *structure.Crystal) { c.Species = c.Species[1:] }, "11 species for 12 positions"},
		{"no symbol", func(c *structure.Crystal) { c.Species[2] = "" }, "atom 3 has no symbol"},
		{"NaN", func(c *structure.Crystal) { c.Positions[4][1] = math.NaN() }, "atom 5 is at"},
		{"infinite", func(c *structure.Crystal) { c.Positions[0][0] = math.Inf(-1) }, "atom 1 is at"},
		{"far", func(c *structure.Crystal) { c.Positions[0][0] = 1e9 }, "within 1e+08 angstrom"},
		{"lattice NaN", func(c *structure.Crystal) { c.Lattice[1][1] = math.NaN() }, "lattice vector b"},
		{"zero row", func(c *structure.Crystal) { c.Lattice[2] = [3]float64{} }, "lattice vector c is shorter"},
		{"parallel", func(c *structure.Crystal) { c.Lattice[1] = c.Lattice[0] }, "linearly dependent"},
		{"parallel in a slab", func(c *structure.Crystal) {
			c.Lattice[1], c.Periodic[2] = c.Lattice[0], false
		}, "linearly dependent"},
		{"coplanar", func(c *structure.Crystal) {
			c.Lattice = [3][3]float64{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}
		}, "linearly dependent"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := structure.HfO2()
			tc.change(c)
			err := c.Validate()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want it to say %q", err, tc.want)
			}
			if _, err := structure.NewFinder(c, 4); err == nil {
				t.Error("NewFinder accepts it")
			}
			if structure.BruteForce(c, 4, [3]float64{}, false) != nil {
				t.Error("BruteForce accepts it")
			}
		})
	}
}

func TestGridPoint(t *testing.T) {
	c := structure.HfO2()
	n := [3]int{3, 4, 5}
	g := c.Grid(n)
	if g.Len() != 60 {
		t.Fatalf("%d points, want 60", g.Len())
	}
	i := 0
	for ix := range n[0] {
		for iy := range n[1] {
			for iz := range n[2] {
				f := [3]float64{float64(ix) / 3, float64(iy) / 4, float64(iz) / 5}
				var want [3]float64
				for k := range 3 {
					for j := range 3 {
						want[j] += f[k] * c.Lattice[k][j]
					}
				}
				for _, got := range [][3]float64{g.Point(i), g.Point(i + 60), g.Point(i - 60)} {
					if d := length([3]float64{got[0] - want[0], got[1] - want[1], got[2] - want[2]}); d > 1e-12 {
						t.Fatalf("point %d is %v, want %v", i, got, want)
					}
				}
				i++
			}
		}
	}
	if got := c.Grid([3]int{0, -1, 1}).Point(0); got != [3]float64{} {
		t.Errorf("a grid with counts below one starts at %v, want the origin", got)
	}
}

func TestGridPointNotPeriodic(t *testing.T) {
	molecule := &structure.Crystal{
		Species:   []string{"C", "O"},
		Positions: [][3]float64{{1, 2, 3}, {1, 2, 4}},
	}
	if got := molecule.Grid([3]int{1, 1, 1}).Point(0); got != [3]float64{-1, 0, 1} {
		t.Errorf("the grid starts at %v, want 2 angstrom before the atoms, [-1 0 1]", got)
	}
	if got, want := molecule.Grid([3]int{2, 2, 2}).Point(7), [3]float64{1, 2, 3.5}; got != want {
		t.Errorf("the middle point is %v, want %v", got, want)
	}
	if v := molecule.Volume(); math.Abs(v-4*4*5) > 1e-12 {
		t.Errorf("volume of the box %v, want 80", v)
	}
	slab := &structure.Crystal{
		Lattice:   [3][3]float64{{3, 0, 0}, {1, 3, 0}, {}},
		Periodic:  [3]bool{true, true, false},
		Species:   []string{"C"},
		Positions: [][3]float64{{7, 7, 7}},
	}
	if got, want := slab.Grid([3]int{2, 2, 2}).Point(7), [3]float64{2, 1.5, 7}; got != want {
		t.Errorf("the slab's middle point is %v, want %v", got, want)
	}
}
