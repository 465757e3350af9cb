package collate

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

// checkAssembly compares a finished batch with its required contents. Errors in a row's neighbours, found by brute
// force, count for the stage sample. Errors in the layout (counts, index offsets, padding) count for the stage
// collate.
func (c *checker) checkAssembly(sl *slot) error {
	s := c.s
	collate := &c.errs[stCollate]
	collate.compared, collate.rows = collate.compared+sl.rows[uSample], collate.rows+sl.rows[uSample]
	parts, ok := partition(sl, s.r)
	if !ok {
		collate.Diff = math.Inf(1)
		return nil
	}
	rows := 0
	for i := range parts {
		rows += parts[i].n[uAtom] + parts[i].n[uProbe]
	}
	// The longest row must be among the checked rows.
	longest, most := 0, -1
	at := 0
	for i := range parts {
		p := &parts[i]
		for r := range p.n[uAtom] + p.n[uProbe] {
			if _, _, lo, hi := p.rowAt(sl, r); hi-lo > most {
				longest, most = at+r, hi-lo
			}
		}
		at += p.n[uAtom] + p.n[uProbe]
	}
	images := max(1, len(s.first.crystal.Positions)*100)
	chosen := op.PickRows(c.rng, rows, max(sampledRows, referenceDistances/images), 0, rows-1, longest)
	c.errs[stSample].compared += len(chosen)
	c.errs[stSample].rows += rows
	return c.sampleRows(sl, parts, chosen, &c.errs[stSample], nil)
}

// part is the position of one sample in a batch: its number of rows n and its first row at, by unit.
type part struct {
	item   int
	n, at  sizes
	points [][3]float64
}

// rowAt returns the edges [lo,hi) that end in row r of the sample, whose rows are its atoms and then its probes. probe
// reports whether the row is a probe; index is the atom's or the probe's number in the sample.
func (p *part) rowAt(sl *slot, r int) (probe bool, index, lo, hi int) {
	unit, f := uEdge, fEDst
	base := p.at[uAtom]
	if r >= p.n[uAtom] {
		probe, unit, f, r, base = true, uReach, fPDst, r-p.n[uAtom], p.at[uProbe]
	}
	dst := sl.intField(f)[p.at[unit] : p.at[unit]+p.n[unit]]
	begin, _ := slices.BinarySearch(dst, int32(base+r))
	end, _ := slices.BinarySearch(dst, int32(base+r+1))
	return probe, r, p.at[unit] + begin, p.at[unit] + end
}

// partition reads the counts, and checks everything about the layout that does not depend on the samples' content.
func partition(sl *slot, r *recipe) ([]part, bool) {
	counts := sl.intField(fCounts)
	parts := make([]part, sl.rows[uSample])
	var at, stride sizes
	if len(parts) != r.Batch {
		return nil, false
	}
	for i := range parts {
		for u := uAtom; u < unitCount; u++ {
			stride[u] = max(stride[u], int(counts[4*i+u-uAtom]))
		}
	}
	for i := range parts {
		p := &parts[i]
		p.item, p.at = r.itemAt(sl.index, i), at
		for u := uAtom; u < unitCount; u++ {
			p.n[u] = int(counts[4*i+u-uAtom])
			if p.n[u] < 0 {
				return nil, false
			}
			at[u] += p.n[u]
			if r.Padded {
				at[u] = (i + 1) * stride[u]
			}
		}
	}
	for u := uAtom; u < unitCount; u++ {
		if at[u] != sl.rows[u] {
			return nil, false
		}
	}
	for i := range parts {
		if !parts[i].isPlaced(sl, stride, r.Padded) {
			return nil, false
		}
	}
	return parts, true
}

// isPlaced reports whether one sample's padding and indices are right: in range, with rows in order.
func (p *part) isPlaced(sl *slot, stride sizes, padded bool) bool {
	for f, d := range fields {
		if d.unit == uSample {
			continue
		}
		from, to := p.at[d.unit], p.at[d.unit]+p.n[d.unit]
		if d.base >= 0 {
			v := sl.intField(f)[from:to]
			lo, hi := int32(p.at[d.base]), int32(p.at[d.base]+p.n[d.base])
			for _, x := range v {
				if x < lo || x >= hi {
					return false
				}
			}
			if (f == fEDst || f == fPDst) && !slices.IsSorted(v) {
				return false
			}
		}
		if !padded {
			continue
		}
		for _, x := range sl.intField(f)[to*d.width : (p.at[d.unit]+stride[d.unit])*d.width] {
			if x != d.pad { // a zero float has all bits zero, too
				return false
			}
		}
	}
	return true
}

// sampleRows compares the chosen rows with a brute-force search, and the positions of all atoms and probes in the
// samples of these rows. Rows are numbered through the batch, each sample's atoms before its probes. If the callback
// and is not nil, it is called for each row that agrees.
func (c *checker) sampleRows(sl *slot, parts []part, chosen []int, v *verdict, and func(p *part, r int, crystal *structure.Crystal)) error {
	first := 0
	for i := range parts {
		p := &parts[i]
		rows := p.n[uAtom] + p.n[uProbe]
		var own []int
		for len(chosen) > 0 && chosen[0] < first+rows {
			own, chosen = append(own, chosen[0]-first), chosen[1:]
		}
		first += rows
		if len(own) == 0 {
			continue
		}
		crystal := structure.HfO2()
		if files := c.s.r.Files; len(files) > 0 {
			var err error
			if crystal, err = structure.ReadFound(files[p.item]); err != nil {
				return err
			}
		}
		if !p.checkPositions(sl, c.s.r, crystal) {
			v.Diff = math.Inf(1)
			continue
		}
		for _, r := range own {
			switch ok := p.checkNeighbours(sl, r, crystal, c.s.r.Cutoff); {
			case !ok:
				v.Diff = math.Inf(1)
			case and != nil:
				and(p, r, crystal)
			}
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// checkPositions reports whether species, atoms and probes are right, and stores the probes in p.points.
func (p *part) checkPositions(sl *slot, r *recipe, crystal *structure.Crystal) bool {
	d := newDrawer()
	if len(crystal.Positions) != p.n[uAtom] || d.start(r, p.item) != p.n[uProbe] {
		return false
	}
	grid := crystal.Grid([3]int{gridSize, gridSize, gridSize})
	p.points = nil
	for range p.n[uProbe] {
		p.points = append(p.points, d.probe(grid))
	}
	for i, x := range crystal.Positions {
		if sl.intField(fSpecies)[p.at[uAtom]+i] != speciesCode(crystal.Species[i]) || !isAtPoint(sl.floatField(fPos), p.at[uAtom]+i, x) {
			return false
		}
	}
	for i, x := range p.points {
		if !isAtPoint(sl.floatField(fProbe), p.at[uProbe]+i, x) {
			return false
		}
	}
	return true
}

func isAtPoint(list []float32, row int, x [3]float64) bool {
	v := list[3*row : 3*row+3]
	return v[0] == float32(x[0]) && v[1] == float32(x[1]) && v[2] == float32(x[2])
}

// checkNeighbours reports whether one row's edges agree with a search over all periodic images of all atoms.
func (p *part) checkNeighbours(sl *slot, r int, crystal *structure.Crystal, cutoff float64) bool {
	probe, index, lo, hi := p.rowAt(sl, r)
	points, src, vec := crystal.Positions, sl.intField(fESrc), sl.floatField(fEVec)
	if probe {
		points, src, vec = p.points, sl.intField(fPSrc), sl.floatField(fPVec)
	}
	point := points[index]
	want := structure.BruteForce(crystal, cutoff, point, !probe)
	if want == nil || len(want.Src) != hi-lo || !slices.Equal(vec[3*lo:3*hi], want.Vec) {
		return false
	}
	for i, x := range want.Src {
		if src[lo+i] != x+int32(p.at[uAtom]) {
			return false
		}
	}
	return true
}
