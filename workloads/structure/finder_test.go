package structure_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/workloads/structure"
)

func mustFinder(tb testing.TB, c *structure.Crystal, cutoff float64) *structure.Finder {
	tb.Helper()
	f, err := structure.NewFinder(c, cutoff)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// latticeGen draws a triclinic cell as lengths times nearly independent
// directions: short edges make it flat, the off-diagonal part skews it.
func latticeGen(t *rapid.T) (rows [3][3]float64) {
	for k := range 3 {
		edge := rapid.OneOf(rapid.Float64Range(0.6, 1.5), rapid.Float64Range(2, 9)).Draw(t, "edge")
		for j := range 3 {
			if j == k {
				rows[k][j] = edge
			} else {
				rows[k][j] = edge * rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(-0.9, 0.9)).Draw(t, "skew")
			}
		}
	}
	return rows
}

func pointGen(t *rapid.T, span float64, label string) (p [3]float64) {
	for k := range p {
		p[k] = rapid.Float64Range(-span, span).Draw(t, label)
	}
	return p
}

func crystalGen(t *rapid.T) *structure.Crystal {
	c := &structure.Crystal{Name: "drawn", Lattice: latticeGen(t)}
	for k := range 3 {
		c.Periodic[k] = rapid.IntRange(0, 3).Draw(t, "periodic") > 0
		if !c.Periodic[k] {
			c.Lattice[k] = [3]float64{}
		}
	}
	for range rapid.IntRange(1, 6).Draw(t, "atoms") {
		c.Species = append(c.Species, "X")
		c.Positions = append(c.Positions, pointGen(t, 12, "atom"))
	}
	return c
}

// queryGen draws a crystal, a cutoff up to many times the cell (few enough
// images for the oracle to be quick) and its finder.
func queryGen(t *rapid.T) (*structure.Crystal, float64, *structure.Finder) {
	valid := func(c *structure.Crystal) bool { return c.Validate() == nil }
	c := rapid.Custom(crystalGen).Filter(valid).Draw(t, "crystal")
	cutoff := rapid.Float64Range(0.2, 6).Draw(t, "cutoff")
	density := float64(len(c.Positions)) / c.Volume()
	if density*cutoff*cutoff*cutoff*4 > 2000 {
		cutoff = math.Cbrt(500 / density)
	}
	f, err := structure.NewFinder(c, cutoff)
	if n := rapid.IntRange(-1, 200).Draw(t, "points"); n >= 0 {
		f, err = structure.NewFinderFor(c, cutoff, n)
	}
	if err != nil || f.Cutoff() != cutoff {
		t.Fatal(f, err)
	}
	return c, cutoff, f
}

func TestFinderMatchesBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, cutoff, f := queryGen(t)
		skip := rapid.Bool().Draw(t, "skipSelf")
		points := append([][3]float64{{}, pointGen(t, 10, "p"), pointGen(t, 10, "p"), pointGen(t, 1e4, "far")}, c.Positions[0])
		for _, p := range points {
			want := structure.BruteForce(c, cutoff, p, skip)
			got := everyWay(t, f, p, skip)
			if !slices.Equal(got.Src, want.Src) || !slices.Equal(got.Vec, want.Vec) {
				t.Fatalf("at %v: finder %d edges %v, brute force %d edges %v", p, len(got.Src), got, len(want.Src), *want)
			}
			if len(want.Src) > f.MaxDegree() {
				t.Fatalf("at %v: %d edges, more than MaxDegree %d", p, len(want.Src), f.MaxDegree())
			}
			if !slices.IsSorted(got.Src) {
				t.Fatalf("at %v: sources %v are not sorted", p, got.Src)
			}
		}
	})
}

// everyWay asks for a point's edges in every way there is and returns them once
// all have agreed.
func everyWay(t interface{ Fatalf(string, ...any) }, f *structure.Finder, p [3]float64, skip bool) structure.Edges {
	var got structure.Edges
	f.Append(&got, p, skip)
	n := len(got.Src)
	for room := range map[int]bool{0: true, n: true, f.MaxDegree(): true} { // behind an edge that is there already
		e := structure.Edges{Src: append(make([]int32, 0, 1+room), -1), Vec: append(make([]float32, 0, 3+3*room), 7, 8, 9)}
		f.Append(&e, p, skip)
		if e.Src[0] != -1 || !slices.Equal(e.Vec[:3], []float32{7, 8, 9}) || !slices.Equal(e.Src[1:], got.Src) || !slices.Equal(e.Vec[3:], got.Vec) {
			t.Fatalf("at %v: with room for %d edges %v, without any room %v", p, room, e, got)
		}
	}
	if c := f.Count(p, skip); c != n {
		t.Fatalf("at %v: Count %d, want %d", p, c, n)
	}
	marks := make([]uint64, f.MarkWords())
	for i := range marks {
		marks[i] = math.MaxUint64 // of another point
	}
	if c := f.Mark(marks, p, skip); c != n {
		t.Fatalf("at %v: Mark %d, want %d", p, c, n)
	}
	for _, k := range []int{n, n / 2} {
		src, vec := make([]int32, k), make([]float32, 3*k)
		f.Place(src, vec, p, marks)
		if !slices.Equal(src, got.Src[:k]) || !slices.Equal(vec, got.Vec[:3*k]) {
			t.Fatalf("at %v: the first %d of %d edges placed: %v %v, want %v", p, k, n, src, vec, got)
		}
	}
	return got
}

// An oracle that shares nothing with the package: it never wraps and tries every
// shift of a cube far larger than needed.
func TestBruteForceMatchesPlainSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &structure.Crystal{Name: "drawn", Periodic: [3]bool{true, true, true}}
		for k := range 3 {
			for j := range 3 {
				c.Lattice[k][j] = rapid.Float64Range(-0.3, 0.3).Draw(t, "skew")
			}
			c.Lattice[k][k] += rapid.Float64Range(2, 4).Draw(t, "edge")
		}
		for range rapid.IntRange(1, 3).Draw(t, "atoms") {
			c.Species, c.Positions = append(c.Species, "X"), append(c.Positions, pointGen(t, 3, "atom"))
		}
		p := pointGen(t, 3, "p")
		cutoff := rapid.Float64Range(0.5, 5).Draw(t, "cutoff")
		sure, maybe := 0, 0
		const reach = 9 // (3+3+5)/1.4 angstrom of least spacing, rounded up
		for _, a := range c.Positions {
			for i := -reach; i <= reach; i++ {
				for j := -reach; j <= reach; j++ {
					for k := -reach; k <= reach; k++ {
						var d [3]float64
						for x := range 3 {
							d[x] = a[x] + float64(i)*c.Lattice[0][x] + float64(j)*c.Lattice[1][x] + float64(k)*c.Lattice[2][x] - p[x]
						}
						if r := length(d); r < cutoff-1e-9 {
							sure++
						} else if r < cutoff+1e-9 {
							maybe++
						}
					}
				}
			}
		}
		got := len(structure.BruteForce(c, cutoff, p, false).Src)
		if got < sure || got > sure+maybe {
			t.Fatalf("%d edges, want %d to %d", got, sure, sure+maybe)
		}
	})
}

func TestTranslationInvariance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, _, f := queryGen(t)
		p := pointGen(t, 8, "p")
		moved := p
		for k := range 3 {
			n := float64(rapid.IntRange(-7, 7).Draw(t, "shift"))
			for j := range 3 {
				moved[j] += n * c.Lattice[k][j]
			}
		}
		var a, b structure.Edges
		f.Append(&a, p, false)
		f.Append(&b, moved, false)
		// An image within rounding of the cutoff may be in one list only.
		const slack = 1e-5
		if i, j := firstDifference(&a, &b, slack); i >= 0 {
			cutoff := f.Cutoff()
			edge := (i < len(a.Src) && math.Abs(edgeLength(&a, i)-cutoff) < slack) ||
				(j < len(b.Src) && math.Abs(edgeLength(&b, j)-cutoff) < slack)
			if !edge {
				t.Fatalf("edges differ at %d after a lattice translation: %v, %v", i, a, b)
			}
		}
	})
}

func firstDifference(a, b *structure.Edges, slack float64) (int, int) {
	for i := 0; i < max(len(a.Src), len(b.Src)); i++ {
		if i >= len(a.Src) || i >= len(b.Src) || a.Src[i] != b.Src[i] {
			return i, i
		}
		for k := 3 * i; k < 3*i+3; k++ {
			if math.Abs(float64(a.Vec[k]-b.Vec[k])) > slack {
				return i, i
			}
		}
	}
	return -1, -1
}

// Cells that need care one by one: the property test draws nothing as extreme.
func TestFinderExtremeCells(t *testing.T) {
	all := [3]bool{true, true, true}
	one := [][3]float64{{0.1, 0.2, 0.3}}
	cases := []struct {
		name     string
		c        structure.Crystal
		cutoff   float64
		p        [3]float64
		wantSome bool
	}{
		{"one atom, cutoff 20 times the cell", structure.Crystal{Lattice: [3][3]float64{{0.5, 0, 0}, {0, 0.5, 0}, {0, 0, 0.5}}, Periodic: all, Positions: one}, 10, [3]float64{}, true},
		{"pancake", structure.Crystal{Lattice: [3][3]float64{{200, 0, 0}, {0, 200, 0}, {0, 0, 0.05}}, Periodic: all, Positions: one}, 4, [3]float64{}, true},
		{"needle", structure.Crystal{Lattice: [3][3]float64{{0.1, 0, 0}, {0, 0.1, 0}, {0, 0, 900}}, Periodic: all, Positions: one}, 3, [3]float64{}, true},
		{"two degrees", structure.Crystal{Lattice: [3][3]float64{{5, 0, 0}, {5, 0.17, 0}, {0, 0, 5}}, Periodic: all, Positions: one}, 4, [3]float64{}, true},
		{"left-handed", structure.Crystal{Lattice: [3][3]float64{{0, 3, 0}, {3, 0, 0}, {0, 0, 3}}, Periodic: all, Positions: one}, 4, [3]float64{}, true},
		{"tiny cutoff", structure.Crystal{Lattice: [3][3]float64{{50, 0, 0}, {0, 50, 0}, {0, 0, 50}}, Periodic: all, Positions: one}, 1e-4, one[0], true},
		{"a cutoff below what counts as the point itself", structure.Crystal{Lattice: [3][3]float64{{3, 0, 0}, {0, 3, 0}, {0, 0, 3}}, Periodic: all, Positions: one}, 1e-7, one[0], true},
		{"just more than what counts as the point itself", structure.Crystal{Lattice: [3][3]float64{{3, 0, 0}, {0, 3, 0}, {0, 0, 3}}, Periodic: all, Positions: [][3]float64{{0, 0, 0}, {9e-7, 0, 0}, {1.1e-6, 0, 0}}}, 1e-5, [3]float64{}, true},
		{"far atom", structure.Crystal{Lattice: [3][3]float64{{3, 0, 0}, {0, 3, 0}, {0, 0, 3}}, Periodic: all, Positions: [][3]float64{{9e7, -9e7, 1}}}, 4, [3]float64{-8e7, 8e7, 3}, true},
		{"polymer along b", structure.Crystal{Lattice: [3][3]float64{{}, {1, 2, 0.5}, {}}, Periodic: [3]bool{false, true, false}, Positions: one}, 5, [3]float64{100, 200, 50}, true},
		{"two far atoms", structure.Crystal{Positions: [][3]float64{{0, 0, 0}, {9e7, 9e7, -9e7}}}, 4, [3]float64{9e7, 9e7, -9e7 + 1}, true},
		{"molecule, beyond", structure.Crystal{Positions: one}, 4, [3]float64{50, 0, 0}, false},
		{"flat molecule", structure.Crystal{Positions: [][3]float64{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}}}, 4, [3]float64{0, 0, 3.9}, true},
		{"point at infinity", structure.Crystal{Positions: one}, 4, [3]float64{math.Inf(1), 0, 0}, false},
		{"point NaN", structure.Crystal{Positions: one}, 4, [3]float64{0, math.NaN(), 0}, false},
		{"point beyond reach", structure.Crystal{Lattice: [3][3]float64{{3, 0, 0}, {0, 3, 0}, {0, 0, 3}}, Periodic: all, Positions: one}, 4, [3]float64{0, 1e300, 0}, false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			for range tc.c.Positions {
				tc.c.Species = append(tc.c.Species, "X")
			}
			f := mustFinder(t, &tc.c, tc.cutoff)
			for _, skip := range []bool{true, false} {
				want := structure.BruteForce(&tc.c, tc.cutoff, tc.p, skip)
				got := everyWay(t, f, tc.p, skip)
				if !slices.Equal(got.Src, want.Src) || !slices.Equal(got.Vec, want.Vec) {
					t.Fatalf("skipSelf=%t: finder %d edges, brute force %d", skip, len(got.Src), len(want.Src))
				}
				if !skip && tc.wantSome != (len(got.Src) > 0) {
					t.Errorf("%d edges, want some: %v", len(got.Src), tc.wantSome)
				}
			}
		})
	}
}

func TestSimpleCubicShells(t *testing.T) {
	c := &structure.Crystal{Lattice: [3][3]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, Periodic: [3]bool{true, true, true},
		Species: []string{"Po"}, Positions: [][3]float64{{0.5, 0.5, 0.5}}}
	// Sums of r3(n), the number of ways to write n as three squares.
	for cutoff, want := range map[float64]int{1: 0, 1.01: 6, 1.42: 18, 1.74: 26, 2.01: 32, 2.24: 56, 2.45: 80, 2.83: 92, 3.001: 122} {
		if got := mustFinder(t, c, cutoff).Count(c.Positions[0], true); got != want {
			t.Errorf("cutoff %g: %d neighbours, want %d (the cutoff itself is outside)", cutoff, got, want)
		}
	}
}

// The mean over a fine grid tends to the number of atoms in a sphere: the
// integral of the count over the cell is atoms x sphere volume.
func TestHfO2MeanDegree(t *testing.T) {
	c := structure.HfO2()
	f := mustFinder(t, c, 4)
	g := c.Grid([3]int{80, 80, 80})
	sum, n := 0, 0
	for i := 0; i < g.Len(); i += 7 { // 7 is prime to 80: the sample covers the grid evenly
		sum += f.Count(g.Point(i), false)
		n++
	}
	mean := float64(sum) / float64(n)
	want := 4.0 / 3 * math.Pi * 64 * 12 / c.Volume()
	t.Logf("mean degree of HfO2 at 4 angstrom over %d grid points: %.4f (sphere: %.4f)", n, mean, want)
	// A surface of about 23 neighbours crosses the grid at random: sampling
	// noise is a few thousandths.
	if math.Abs(mean-want) > 0.02 {
		t.Errorf("mean degree %.4f, want %.4f", mean, want)
	}
}

func TestNewFinderRefusesCutoff(t *testing.T) {
	for _, cutoff := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 500, 1e7, 1e300} {
		t.Run(fmt.Sprint(cutoff), func(t *testing.T) {
			c := structure.HfO2()
			f, err := structure.NewFinder(c, cutoff)
			if err == nil || f != nil {
				t.Fatalf("accepted: %v", f)
			}
			if msg := err.Error(); !strings.Contains(msg, "cutoff") || !strings.Contains(msg, "HfO2") {
				t.Errorf("error %q names neither the cutoff nor the structure", msg)
			}
		})
	}
}

// A slab has no mean degree to go by: the images are counted as they are made.
func TestNewFinderRefusesManyImages(t *testing.T) {
	c := &structure.Crystal{Name: "dust", Lattice: [3][3]float64{{0.01, 0, 0}, {0, 0.01, 0}, {}}, Periodic: [3]bool{true, true, false},
		Species: []string{"X"}, Positions: [][3]float64{{}}}
	for _, cutoff := range []float64{20, 2000} {
		if f, err := structure.NewFinder(c, cutoff); f != nil || err == nil || !strings.Contains(err.Error(), "too many periodic images") {
			t.Errorf("cutoff %g: %v, %v", cutoff, f, err)
		}
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	c := structure.HfO2()
	f := mustFinder(t, c, 4)
	g := c.Grid([3]int{16, 16, 16})
	var e structure.Edges
	f.Append(&e, g.Point(5), true)
	exact := structure.Edges{Src: make([]int32, 0, len(e.Src)), Vec: make([]float32, 0, len(e.Vec))}
	if n := testing.AllocsPerRun(20, func() {
		exact.Reset()
		f.Append(&exact, g.Point(5), true)
	}); n != 0 {
		t.Errorf("%v allocations with room for exactly the edges", n)
	}
	i := 0
	e = structure.Edges{Src: make([]int32, 0, f.MaxDegree()), Vec: make([]float32, 0, 3*f.MaxDegree())}
	if n := testing.AllocsPerRun(500, func() {
		e.Reset()
		f.Append(&e, g.Point(i), true)
		i += f.Count(g.Point(i), true)
	}); n != 0 {
		t.Errorf("%v allocations with room for MaxDegree edges", n)
	}
}

func TestFinderSharedByGoroutines(t *testing.T) {
	c := structure.HfO2()
	f := mustFinder(t, c, 4)
	g := c.Grid([3]int{8, 8, 8})
	var lists [4]structure.Edges
	var wg sync.WaitGroup
	for w := range lists {
		wg.Go(func() {
			for i := range g.Len() {
				f.Append(&lists[w], g.Point(i), false)
			}
		})
	}
	wg.Wait()
	for w := range lists {
		if len(lists[w].Src) == 0 || !slices.Equal(lists[w].Vec, lists[0].Vec) {
			t.Errorf("goroutine %d found %d edges, goroutine 0 %d", w, len(lists[w].Src), len(lists[0].Src))
		}
	}
}

func BenchmarkAppendHfO2(b *testing.B) {
	c := structure.HfO2()
	f := mustFinder(b, c, 4)
	g := c.Grid([3]int{80, 80, 80})
	points := make([][3]float64, 3000)
	for i := range points {
		points[i] = g.Point(100_000 + i)
	}
	e := structure.Edges{Src: make([]int32, 0, 40*len(points)), Vec: make([]float32, 0, 120*len(points))}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i == len(points) {
			i = 0
			e.Reset()
		}
		f.Append(&e, points[i], false)
		i++
	}
}

func BenchmarkAppendDiamond(b *testing.B) {
	c := structure.Diamond(5, 5, 5, 3.567)
	f := mustFinder(b, c, 6)
	var e structure.Edges
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		e.Reset()
		f.Append(&e, c.Positions[i%len(c.Positions)], true)
		i++
	}
}

// A sample of a folder: a search of few atoms and probes, made for it alone.
func BenchmarkFinderForOneSample(b *testing.B) {
	c := structure.HfO2()
	points := c.Grid([3]int{4, 4, 6})
	for name, n := range map[string]int{"many points": math.MaxInt, "its points": points.Len()} {
		b.Run(name, func(b *testing.B) {
			var e structure.Edges
			for b.Loop() {
				f, err := structure.NewFinderFor(c, 4.083, n)
				if err != nil {
					b.Fatal(err)
				}
				e.Reset()
				for i := range points.Len() {
					f.Append(&e, points.Point(i), false)
				}
			}
		})
	}
}

func BenchmarkNewFinder(b *testing.B) {
	for _, c := range []*structure.Crystal{structure.HfO2(), structure.Diamond(5, 5, 5, 3.567), structure.Diamond(25, 25, 25, 3.567)} {
		b.Run(c.Name, func(b *testing.B) {
			for b.Loop() {
				mustFinder(b, c, 6)
			}
		})
	}
}
