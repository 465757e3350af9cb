package structure

import (
	"math"
	"math/bits"
)

const (
	// selfDistance2 is the square of the distance (1e-6 angstrom) under which a source counts as the point itself.
	selfDistance2 = 1e-12
	// markBits is the number of candidates per word of marks.
	markBits = 64
)

// Edges is a growing list of directed edges from atoms to query points.
type Edges struct {
	Src []int32   // index of the source atom, one per edge
	Vec []float32 // source image minus query point, angstrom, three per edge
}

// Reset empties the list and keeps its capacity.
func (e *Edges) Reset() { e.Src, e.Vec = e.Src[:0], e.Vec[:0] }

// Append adds to e one edge for every atom image with |d| < cutoff of the point
// p (cartesian, angstrom, anywhere: it is wrapped into the cell first), sorted
// by source index and then by image (shifts along a, b, c in that order). With
// skipSelf, sources within 1e-6 angstrom are left out. Points that are NaN,
// infinite or beyond 1e8 angstrom have no neighbours.
//
// Distances are compared in float64 and vectors then rounded to float32, so a stored vector may be longer than the
// cutoff by its rounding. Append does not allocate while e has capacity, which it may overwrite beyond the new end,
// and several goroutines may call it with different lists.
func (f *Finder) Append(e *Edges, p [3]float64, skipSelf bool) {
	q, list := f.newQuery(p, skipSelf)
	n := len(e.Src)
	if room := e.Src[n:cap(e.Src)]; len(room) >= len(list) && cap(e.Vec)-len(e.Vec) >= 3*len(list) {
		vec := e.Vec[len(e.Vec) : len(e.Vec)+3*len(list)]
		k := q.writeEdges(room, vec, f.images, list)
		e.Src, e.Vec = e.Src[:n+k], e.Vec[:len(e.Vec)+3*k]
		return
	}
	var src [markBits]int32
	var vec [3 * markBits]float32
	for len(list) > 0 {
		part := list[:min(markBits, len(list))]
		k := q.writeEdges(src[:], vec[:], f.images, part)
		e.Src, e.Vec = append(e.Src, src[:k]...), append(e.Vec, vec[:3*k]...)
		list = list[len(part):]
	}
}

// Count returns the number of edges that Append would add.
func (f *Finder) Count(p [3]float64, skipSelf bool) int { return f.Mark(nil, p, skipSelf) }

// MarkWords returns the number of words that the marks of one point take.
func (f *Finder) MarkWords() int { return (f.bound + markBits - 1) / markBits }

// Mark is the first half of Append for callers that need the number of edges, which it returns, before the place of
// the first: it records in marks (MarkWords long, or nil) which candidates are edges.
func (f *Finder) Mark(marks []uint64, p [3]float64, skipSelf bool) int {
	q, list := f.newQuery(p, skipSelf)
	n := 0
	for i := 0; len(list) > 0; i++ {
		part := list[:min(markBits, len(list))]
		hits := q.markHits(f.images, part)
		if marks != nil {
			marks[i] = hits
		}
		n += bits.OnesCount64(hits)
		list = list[len(part):]
	}
	return n
}

// Place is the second half: it writes the edges that Mark recorded for the same point to src and vec, which are
// exactly as long as these need, or shorter for the first of them.
func (f *Finder) Place(src []int32, vec []float32, p [3]float64, marks []uint64) {
	q, list := f.newQuery(p, false)
	for i := 0; len(src) > 0; i++ {
		part := list[:min(markBits, len(list))]
		k := min(bits.OnesCount64(marks[i]), len(src))
		q.writeMarked(src[:k], vec[:3*k], f.images, part, marks[i])
		src, vec, list = src[k:], vec[3*k:], list[len(part):]
	}
}

// query is a point moved into the box with the bounds of its edges' squared lengths. Both bounds are the bits of
// floats: the bits of positive floats have their order, so one comparison of integers, without a branch, tests both.
type query struct {
	x, y, z   float64
	low, span uint64
}

// newQuery also returns the images worth comparing.
func (f *Finder) newQuery(p [3]float64, skipSelf bool) (query, []int32) {
	x, y, z, list := f.candidates(p)
	q := query{x: x, y: y, z: z, span: math.Float64bits(f.cutoff2)}
	if skipSelf {
		q.low = math.Float64bits(selfDistance2)
		q.span -= min(q.low, q.span) // a cutoff below that has no edges
	}
	return q, list
}

// The three loops below take most of a search. About a third of the candidates are no edges, at random: a branch
// would be mispredicted as often. The conversions of products forbid fused multiply-adds: the edge set is the same on
// every machine.

// writeEdges writes the edges among the candidates and returns their number. src and vec have room for all
// candidates; the values after the edges are overwritten.
func (q *query) writeEdges(src []int32, vec []float32, images []image, list []int32) int {
	x, y, z, low, span := q.x, q.y, q.z, q.low, q.span
	n := uint64(0)
	for _, id := range list {
		im := &images[id]
		dx, dy, dz := im.x-x, im.y-y, im.z-z
		d2 := float64(dx*dx) + float64(dy*dy) + float64(dz*dz)
		src[n] = im.src
		v := vec[3*n : 3*n+3 : 3*n+3]
		v[0], v[1], v[2] = float32(dx), float32(dy), float32(dz)
		_, in := bits.Sub64(math.Float64bits(d2)-low, span, 0)
		n += in
	}
	return int(n)
}

// markHits sets bit i for every edge i of at most 64 candidates.
func (q *query) markHits(images []image, list []int32) uint64 {
	x, y, z, low, span := q.x, q.y, q.z, q.low, q.span
	misses := uint64(0)
	for _, id := range list {
		im := &images[id]
		dx, dy, dz := im.x-x, im.y-y, im.z-z
		d2 := float64(dx*dx) + float64(dy*dy) + float64(dz*dz)
		_, in := bits.Sub64(math.Float64bits(d2)-low, span, 0)
		// misses - ^misses - in = 2*misses + (1-in), a shift by the borrow.
		misses, _ = bits.Sub64(misses, ^misses, in)
	}
	return bits.Reverse64(^misses << (markBits - uint(len(list))))
}

// writeMarked writes the first len(src) of the marked candidates.
func (q *query) writeMarked(src []int32, vec []float32, images []image, list []int32, marks uint64) {
	x, y, z := q.x, q.y, q.z
	for i := range src {
		im := &images[list[bits.TrailingZeros64(marks)]]
		marks &= marks - 1
		src[i] = im.src
		v := vec[3*i : 3*i+3 : 3*i+3]
		v[0], v[1], v[2] = float32(im.x-x), float32(im.y-y), float32(im.z-z)
	}
}
