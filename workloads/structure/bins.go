package structure

import "math"

const (
	// maxBins is the maximum number of bins. maxEntries is the maximum number of entries in all their lists together, 4
	// bytes each. Large structures may have a bin per atom, and entriesPerImage entries per image.
	maxBins    = 1 << 18
	maxEntries = 1 << 21
	// With bins as long as the cutoff an image is in about 1+6+3pi+4pi/3 = 21 lists; entriesPerImage is twice that,
	// which leaves room for skewed cells.
	entriesPerImage = 40
	// binGrowth is the factor by which bins get longer if the lists do not fit.
	binGrowth = 1.3
)

// fillBins cuts the box into at most the given number of bins and makes their candidate lists. The first bins have
// edges of a tenth of the cutoff, with which a candidate list is a third longer than a list of neighbours. fillBins
// makes the bins longer until all lists fit. A single bin always fits.
func (f *Finder) fillBins(positions [][3]float64, reach float64, atoms, bins int) {
	entries := max(maxEntries, entriesPerImage*len(f.images))
	// If all directions are periodic, the mean number of neighbours is known. Candidate lists are at least that long
	// on average, so bins whose lists cannot fit are skipped without counting.
	least := 0.0
	if f.frame.periodic == [3]bool{true, true, true} {
		least = sphereDegree(atoms, &f.frame, f.cutoff)
	}
	for edge := f.cutoff / 10; ; edge *= binGrowth {
		total := 1.0
		var n [3]float64
		for k := range 3 {
			n[k] = math.Max(1, math.Ceil(norm(f.frame.rows[k])/edge))
			total *= n[k]
		}
		if total > float64(bins) && total > 1 || (total > 1 && total*least > float64(entries)) {
			continue
		}
		f.n, f.scale = [3]int{int(n[0]), int(n[1]), int(n[2])}, n
		if f.tryBins(positions, reach, entries) {
			return
		}
	}
}

// tryBins makes the lists of f.n bins and reports whether they fit. It counts their entries, gives up if these exceed
// the limit, and then fills the lists. It visits images in order, so every list is sorted.
func (f *Finder) tryBins(positions [][3]float64, reach float64, limit int) bool {
	total := 0
	step, far := f.binStep(reach)
	counts := make([]int32, f.n[0]*f.n[1]*f.n[2]+1)
	for i := range f.images {
		f.eachBin(i, positions[i], reach, step, far, func(bin int) {
			counts[bin+1]++
			total++
		})
		if total > limit {
			return false
		}
	}
	f.bound = 0
	for b := 1; b < len(counts); b++ {
		f.bound = max(f.bound, int(counts[b]))
		counts[b] += counts[b-1]
	}
	f.start = counts
	f.list = make([]int32, total)
	next := append([]int32(nil), counts...)
	for i := range f.images {
		f.eachBin(i, positions[i], reach, step, far, func(bin int) {
			f.list[next[bin]] = int32(i)
			next[bin]++
		})
	}
	return true
}

// binStep returns the edges of a bin, and the radius around its centre that contains all points within reach of it.
func (f *Finder) binStep(reach float64) (step [3][3]float64, far float64) {
	for k := range 3 {
		for j := range 3 {
			step[k][j] = f.frame.rows[k][j] / f.scale[k]
		}
	}
	return step, reach + longestDiagonal(step)/2
}

// eachBin calls do for every bin within reach of image i, whose fractional position is at. The distances between
// lattice planes give a range of bins; of these it takes the bins whose centres are within far of the image.
func (f *Finder) eachBin(i int, at [3]float64, reach float64, step [3][3]float64, far float64, do func(bin int)) {
	var lo, hi [3]int
	for k := range 3 {
		r := reach / f.frame.height[k]
		lo[k] = max(0, int(math.Floor((at[k]-r)*f.scale[k])))
		hi[k] = min(f.n[k]-1, int(math.Floor((at[k]+r)*f.scale[k])))
	}
	im, origin := f.images[i], f.frame.origin
	for i0 := lo[0]; i0 <= hi[0]; i0++ {
		for i1 := lo[1]; i1 <= hi[1]; i1++ {
			// Vector from the image to the centre of bin (i0, i1, 0).
			row := cartesianOf([3]float64{float64(i0) + 0.5, float64(i1) + 0.5, 0.5}, step)
			x0, y0, z0 := row[0]+origin[0]-im.x, row[1]+origin[1]-im.y, row[2]+origin[2]-im.z
			for i2 := lo[2]; i2 <= hi[2]; i2++ {
				s := float64(i2)
				x, y, z := x0+s*step[2][0], y0+s*step[2][1], z0+s*step[2][2]
				if x*x+y*y+z*z <= far*far {
					do((i0*f.n[1]+i1)*f.n[2] + i2)
				}
			}
		}
	}
}

// longestDiagonal returns the length of the longest diagonal of the parallelepiped with the given edges.
func longestDiagonal(rows [3][3]float64) float64 {
	longest := 0.0
	for _, s := range [4][2]float64{{1, 1}, {1, -1}, {-1, 1}, {-1, -1}} {
		longest = math.Max(longest, norm(cartesianOf([3]float64{1, s[0], s[1]}, rows)))
	}
	return longest
}
