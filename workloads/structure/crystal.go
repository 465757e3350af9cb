package structure

import (
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
)

const (
	// maxAtoms is the maximum number of atoms, far beyond any use of this package.
	maxAtoms = 10_000_000
	// maxCoordinate (angstrom) keeps differences exact to about 1e-8 angstrom, and squares finite.
	maxCoordinate = 1e8
	// minVolumeRatio is the smallest allowed |a·(b x c)| / (|a||b||c|). At this ratio the inverse of a lattice loses
	// nine of its sixteen digits.
	minVolumeRatio = 1e-7
	// minEdge (angstrom) is the least length of a lattice vector.
	minEdge = 1e-3
)

// Crystal is a set of atoms with zero to three periodic directions.
type Crystal struct {
	Name      string        // such as "HfO2 (monoclinic, P2_1/c)", or the file's base name
	Lattice   [3][3]float64 // rows a, b, c in angstrom; zero rows in directions that are not periodic
	Periodic  [3]bool       // whether the structure repeats along a, b, c
	Species   []string      // chemical symbol of each atom
	Positions [][3]float64  // cartesian, angstrom; may be outside the cell
}

// Volume returns the volume of the cell in cubic angstrom. In directions that are not periodic it uses the box that
// Grid samples. For an invalid crystal the result is undefined and may be NaN.
func (c *Crystal) Volume() float64 {
	f := newFrame(c, gridMargin)
	return math.Abs(det(f.rows))
}

// Validate returns an error for the first defect that it finds. Defects are: no atoms, lists of different lengths, a
// coordinate that is not finite or is beyond 1e8 angstrom, and periodic lattice vectors that are zero or linearly
// dependent.
func (c *Crystal) Validate() error {
	if len(c.Positions) == 0 {
		return gpuprof.Errorf(nil, "checking structure %q: it has no atoms", c.Name).WithFix("give at least one")
	}
	if len(c.Positions) > maxAtoms {
		return gpuprof.Errorf(nil, "checking structure %q: %d atoms, the limit is %d", c.Name, len(c.Positions), maxAtoms).WithFix("use a smaller cell")
	}
	if len(c.Species) != len(c.Positions) {
		return gpuprof.Errorf(nil, "checking structure %q: %d species for %d positions", c.Name, len(c.Species), len(c.Positions)).WithFix("give one symbol for each atom")
	}
	for i, s := range c.Species {
		if s == "" {
			return gpuprof.Errorf(nil, "checking structure %q: atom %d has no symbol", c.Name, i+1).WithFix("name its element")
		}
	}
	for i, p := range c.Positions {
		if !isInReach(p) {
			return gpuprof.Errorf(nil, "checking structure %q: atom %d is at %v", c.Name, i+1, p).WithFix("coordinates must be finite and within %g angstrom", maxCoordinate)
		}
	}
	if problem := latticeProblem(c.Lattice, c.Periodic); problem != "" {
		return gpuprof.Errorf(nil, "checking structure %q: %s", c.Name, problem).WithFix("give three independent vectors or mark the direction as not periodic")
	}
	return nil
}

// latticeProblem describes a defect of the periodic lattice vectors, "" for none. Readers add the line number.
func latticeProblem(lattice [3][3]float64, periodic [3]bool) string {
	names := [3]string{"a", "b", "c"}
	for k, v := range lattice {
		if !isInReach(v) {
			return fmt.Sprintf("lattice vector %s is %v, not finite numbers within %g angstrom", names[k], v, maxCoordinate)
		}
		if periodic[k] && norm(v) < minEdge {
			return fmt.Sprintf("lattice vector %s is shorter than %g angstrom", names[k], minEdge)
		}
	}
	rows := completeRows(lattice, periodic)
	if ratio := math.Abs(det(rows)) / (norm(rows[0]) * norm(rows[1]) * norm(rows[2])); !(ratio > minVolumeRatio) {
		return "the lattice vectors are linearly dependent (the cell has no volume)"
	}
	return ""
}

// isInReach reports whether a point is finite and within maxCoordinate.
func isInReach(p [3]float64) bool {
	return math.Abs(p[0]) <= maxCoordinate && math.Abs(p[1]) <= maxCoordinate && math.Abs(p[2]) <= maxCoordinate
}

// HfO2 returns monoclinic hafnia: space group P2_1/c (number 14, unique axis b, cell choice 1), a = 5.12, b = 5.17, c
// = 5.29 angstrom, beta = 99.2 degrees. Its 12 atoms are 4 Hf, 4 O1 and 4 O2; each of the three atoms of the
// asymmetric unit is on the general position 4e, which the group's four symmetry operations repeat.
func HfO2() *Crystal {
	const a, b, c = 5.12, 5.17, 5.29
	sin, cos := math.Sincos(99.2 * math.Pi / 180)
	crystal := &Crystal{
		Name:     "HfO2 (monoclinic, P2_1/c)",
		Lattice:  [3][3]float64{{a, 0, 0}, {0, b, 0}, {c * cos, 0, c * sin}},
		Periodic: [3]bool{true, true, true},
	}
	sites := []struct {
		symbol string
		f      [3]float64
	}{
		{"Hf", [3]float64{0.2759, 0.0403, 0.2079}},
		{"O", [3]float64{0.0703, 0.3324, 0.3447}},
		{"O", [3]float64{0.4496, 0.7571, 0.4792}},
	}
	for _, s := range sites {
		for _, f := range p21cImages(s.f) {
			for k := range f {
				f[k] -= math.Floor(f[k])
			}
			crystal.Species = append(crystal.Species, s.symbol)
			crystal.Positions = append(crystal.Positions, cartesianOf(f, crystal.Lattice))
		}
	}
	return crystal
}

// p21cImages applies P2_1/c (identity, twofold screw along b, inversion, c glide) to a fractional position.
func p21cImages(f [3]float64) [4][3]float64 {
	x, y, z := f[0], f[1], f[2]
	return [4][3]float64{
		{x, y, z},
		{-x, y + 0.5, 0.5 - z},
		{-x, -y, -z},
		{x, 0.5 - y, z + 0.5},
	}
}

// Diamond returns nx x ny x nz conventional cubic cells of diamond (8 carbon atoms each) with lattice constant a in
// angstrom. For a = 3.567, 5x5x5 cells have 1,000 atoms with 158 neighbours each within 6 angstrom. Invalid arguments
// give a crystal without atoms, which Validate and NewFinder reject. Invalid are a count below one, an a that is not
// positive and finite, and more than ten million atoms.
func Diamond(nx, ny, nz int, a float64) *Crystal {
	crystal := &Crystal{
		Name:     fmt.Sprintf("diamond %dx%dx%d", nx, ny, nz),
		Periodic: [3]bool{true, true, true},
	}
	cells := float64(nx) * float64(ny) * float64(nz)
	if nx < 1 || ny < 1 || nz < 1 || !(a > 0) || math.IsInf(a, 1) || 8*cells > maxAtoms {
		return crystal
	}
	basis := [8][3]float64{
		{0, 0, 0}, {0, 0.5, 0.5}, {0.5, 0, 0.5}, {0.5, 0.5, 0},
		{0.25, 0.25, 0.25}, {0.25, 0.75, 0.75}, {0.75, 0.25, 0.75}, {0.75, 0.75, 0.25},
	}
	crystal.Lattice = [3][3]float64{{float64(nx) * a, 0, 0}, {0, float64(ny) * a, 0}, {0, 0, float64(nz) * a}}
	crystal.Species = make([]string, 0, 8*nx*ny*nz)
	crystal.Positions = make([][3]float64, 0, 8*nx*ny*nz)
	for ix := range nx {
		for iy := range ny {
			for iz := range nz {
				for _, f := range basis {
					crystal.Species = append(crystal.Species, "C")
					crystal.Positions = append(crystal.Positions,
						[3]float64{(float64(ix) + f[0]) * a, (float64(iy) + f[1]) * a, (float64(iz) + f[2]) * a})
				}
			}
		}
	}
	return crystal
}
