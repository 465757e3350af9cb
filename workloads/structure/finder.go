package structure

import (
	"math"

	"github.com/gpuprof/gpuprof"
)

const (
	// A finder has at most maxImages periodic images (32 bytes each) plus two per atom.
	maxImages = 4 << 20
	// maxTrials limits the shifted atoms that building a finder tests, so that it takes less than a second. In skewed
	// cells most of them are out of reach.
	maxTrials = 1 << 26
)

// Finder finds the atoms, including periodic images, within the cutoff of a point. It is read-only, so goroutines may
// share it. The cell is cut into small bins, each with the sorted list of the atom images within the cutoff of any of
// its points. A query is one look-up and one pass over a list that is little longer than the list of atoms found.
type Finder struct {
	frame   frame
	cutoff  float64
	cutoff2 float64
	n       [3]int     // bins along each edge of the box
	scale   [3]float64 // n as floats
	images  []image    // sorted by source, then by image
	start   []int32    // start of each bin's range in list; length bins + 1
	list    []int32    // indices into images
	bound   int        // length of the longest bin's list
}

// image is one periodic copy of an atom.
type image struct {
	x, y, z float64
	src     int32
}

// NewFinder prepares the neighbour search of a crystal for a cutoff in angstrom. It fails for an invalid crystal, for
// a cutoff that is not positive and finite, and if more than about four million periodic images are within the cutoff.
func NewFinder(c *Crystal, cutoff float64) (*Finder, error) {
	return NewFinderFor(c, cutoff, max(maxBins, len(c.Positions)))
}

// NewFinderFor is NewFinder for about the given number of queries (points). For few queries it makes fewer bins,
// which are faster to build and slower to query. The answers are the same.
func NewFinderFor(c *Crystal, cutoff float64, points int) (*Finder, error) {
	if err := checkSearch(c, cutoff); err != nil {
		return nil, err
	}
	f := &Finder{cutoff: cutoff, cutoff2: cutoff * cutoff}
	// Build the lists for a slightly larger reach, so that rounding never loses a candidate; queries compare exactly.
	size := 0.0
	for _, p := range c.Positions {
		size = math.Max(size, norm(p))
	}
	for k := range 3 {
		size = math.Max(size, norm(c.Lattice[k]))
	}
	reach := cutoff*(1+1e-9) + 1e-9*(1+size)
	f.frame = *newFrame(c, reach)
	positions, err := f.makeImages(c, reach)
	if err != nil {
		return nil, err
	}
	f.fillBins(positions, reach, len(c.Positions), min(points, max(maxBins, len(c.Positions))))
	return f, nil
}

func checkSearch(c *Crystal, cutoff float64) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if !(cutoff > 0) || math.IsInf(cutoff, 1) {
		return gpuprof.Errorf(nil, "searching neighbours in %q: cutoff %g is not a positive finite length", c.Name, cutoff).WithFix("give it in angstrom, such as 4")
	}
	if cutoff > maxCoordinate {
		return tooManyImages(c, cutoff)
	}
	f := newFrame(c, cutoff)
	trials := float64(len(c.Positions))
	for k := range 3 {
		if f.periodic[k] {
			trials *= 2 + 2*cutoff/f.height[k]
		}
	}
	// Every image in the sphere around a point is needed. If all directions are periodic, their mean number is known.
	degree := 0.0
	if f.periodic == [3]bool{true, true, true} {
		degree = sphereDegree(len(c.Positions), f, cutoff)
	}
	if trials > maxTrials || degree > float64(imageLimit(c)) {
		return tooManyImages(c, cutoff)
	}
	return nil
}

// sphereDegree returns the mean number of images in a sphere (radius in angstrom) if all directions are periodic.
func sphereDegree(atoms int, f *frame, radius float64) float64 {
	return float64(atoms) / math.Abs(det(f.rows)) * 4 / 3 * math.Pi * radius * radius * radius
}

func imageLimit(c *Crystal) int { return maxImages + 2*len(c.Positions) }

func tooManyImages(c *Crystal, cutoff float64) error {
	return gpuprof.Errorf(nil, "searching neighbours in %q: a cutoff of %g angstrom reaches over too many periodic images of this cell (%.3g cubic angstrom, %d atoms)", c.Name, cutoff, c.Volume(), len(c.Positions)).WithFix("use a smaller cutoff")
}

// makeImages fills f.images with all copies of atoms within reach of a point in the box, and returns their fractional
// positions. Images are sorted by source and then by shift. makeImages counts first, to reject too many images before
// allocating.
func (f *Finder) makeImages(c *Crystal, reach float64) ([][3]float64, error) {
	count, limit := 0, imageLimit(c)
	for src := range c.Positions {
		f.eachImage(c, src, reach, func(_, _ [3]float64) { count++ })
		if count > limit {
			return nil, tooManyImages(c, f.cutoff)
		}
	}
	f.images = make([]image, 0, count)
	positions := make([][3]float64, 0, count)
	for src := range c.Positions {
		f.eachImage(c, src, reach, func(q, fractional [3]float64) {
			f.images = append(f.images, image{q[0], q[1], q[2], int32(src)})
			positions = append(positions, fractional)
		})
	}
	return positions, nil
}

// eachImage calls do with the cartesian and fractional positions of the copies of one atom within reach of a point in
// the box. The distances between lattice planes give a range of shifts. Of the copies in this range, eachImage takes
// the copies in a sphere that contains the box and its surroundings within reach.
func (f *Finder) eachImage(c *Crystal, src int, reach float64, do func(q, fractional [3]float64)) {
	fr := &f.frame
	centre := cartesianOf([3]float64{0.5, 0.5, 0.5}, fr.rows)
	far := reach + longestDiagonal(fr.rows)/2
	base, fb := fr.wrap(c.Positions[src])
	var lo, hi [3]int
	for k := range 3 {
		centre[k] += fr.origin[k]
		if fr.periodic[k] {
			r := reach / fr.height[k]
			lo[k], hi[k] = int(math.Floor(-fb[k]-r)), int(math.Ceil(1-fb[k]+r))
		}
	}
	for n0 := lo[0]; n0 <= hi[0]; n0++ {
		for n1 := lo[1]; n1 <= hi[1]; n1++ {
			for n2 := lo[2]; n2 <= hi[2]; n2++ {
				q := fr.shiftImage(base, [3]int{n0, n1, n2})
				if norm([3]float64{q[0] - centre[0], q[1] - centre[1], q[2] - centre[2]}) <= far {
					do(q, [3]float64{fb[0] + float64(n0), fb[1] + float64(n1), fb[2] + float64(n2)})
				}
			}
		}
	}
}

// Cutoff returns the finder's cutoff in angstrom.
func (f *Finder) Cutoff() float64 { return f.cutoff }

// MaxDegree returns an upper bound for the number of edges of one point. Append never grows a list of this capacity.
func (f *Finder) MaxDegree() int { return f.bound }

// candidates returns the point moved into the box, and the candidate images.
func (f *Finder) candidates(p [3]float64) (x, y, z float64, list []int32) {
	if !isInReach(p) {
		return 0, 0, 0, nil
	}
	x, y, z, a, b, c := f.frame.wrapPoint(p[0], p[1], p[2])
	i, j, k := f.binIndex(0, a), f.binIndex(1, b), f.binIndex(2, c)
	if i < 0 || j < 0 || k < 0 {
		return 0, 0, 0, nil
	}
	bin := (i*f.n[1]+j)*f.n[2] + k
	return x, y, z, f.list[f.start[bin]:f.start[bin+1]]
}

// binIndex returns the index along k of the bin at a fractional coordinate, or -1 outside the box.
func (f *Finder) binIndex(k int, at float64) int {
	if !f.frame.periodic[k] && (at < 0 || at > 1) {
		return -1
	}
	return min(max(int(at*f.scale[k]), 0), f.n[k]-1)
}

// BruteForce finds the same edges as Append, in the same order, by trying every atom with every relevant shift. It is
// the reference for tests of the finder. It returns nil if NewFinder would fail. op.RefGemm explains the directive.
//
//go:norace
func BruteForce(c *Crystal, cutoff float64, p [3]float64, skipSelf bool) *Edges {
	if checkSearch(c, cutoff) != nil {
		return nil
	}
	e := &Edges{}
	if !isInReach(p) {
		return e
	}
	f := newFrame(c, gridMargin)
	q, fq := f.wrap(p)
	for src, pos := range c.Positions {
		base, fb := f.wrap(pos)
		var lo, hi [3]int
		for k := range 3 {
			if f.periodic[k] {
				// One more shift on both sides than the geometry requires.
				r := cutoff / f.height[k]
				lo[k] = int(math.Floor(fq[k]-fb[k]-r)) - 1
				hi[k] = int(math.Ceil(fq[k]-fb[k]+r)) + 1
			}
		}
		for n0 := lo[0]; n0 <= hi[0]; n0++ {
			for n1 := lo[1]; n1 <= hi[1]; n1++ {
				for n2 := lo[2]; n2 <= hi[2]; n2++ {
					im := f.shiftImage(base, [3]int{n0, n1, n2})
					dx, dy, dz := im[0]-q[0], im[1]-q[1], im[2]-q[2]
					d2 := float64(dx*dx) + float64(dy*dy) + float64(dz*dz)
					if d2 < cutoff*cutoff && !(skipSelf && d2 < selfDistance2) {
						e.Src = append(e.Src, int32(src))
						e.Vec = append(e.Vec, float32(dx), float32(dy), float32(dz))
					}
				}
			}
		}
	}
	return e
}
