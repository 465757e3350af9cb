package structure

import (
	"math"
	"math/bits"
)

const (
	// selfDistance2 is the squared distance (1e-6 angstrom) below which a source counts as the point itself.
	selfDistance2 = 1e-12
	// markBits is the number of candidates per word of marks.
	markBits = 64
)

// Edges is a growing list of directed edges from atoms to query points.
type Edges struct {
	Src []int32   // index of the source atom, one per edge
	Vec []float32 // source image minus query point in angstrom, three per edge
}

// Reset empties the list and keeps its capacity.
func (e *Edges) Reset() { e.Src, e.Vec = e.Src[:0], e.Vec[:0] }

// Append adds to e one edge for every atom image that is closer than the cutoff to the point p. p is cartesian, in
// angstrom, and is wrapped into the cell. Edges are sorted by source index and then by image (shifts along a, b, c).
// skipSelf omits sources within 1e-6 angstrom. Points that are NaN, infinite or beyond 1e8 angstrom have no neighbours.
//
// Append compares distances in float64 and then rounds vectors to float32, so a stored vector may exceed the cutoff by
// its rounding error. It does not allocate while e has capacity, and may overwrite the capacity beyond the new end.
// Several goroutines may call it with different lists.
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

// MarkWords returns the length of the marks of one point.
func (f *Finder) MarkWords() int { return (f.bound + markBits - 1) / markBits }

// Mark is the first half of Append, for callers that need the number of edges before they can place them. It returns
// that number and records in marks (of length MarkWords, or nil) which candidates are edges.
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

// Place is the second half of Append: it writes the edges that Mark recorded for the same point to src and vec. If
// src has room for fewer edges, it writes the first ones.
func (f *Finder) Place(src []int32, vec []float32, p [3]float64, marks []uint64) {
	q, list := f.newQuery(p, false)
	for i := 0; len(src) > 0; i++ {
		part := list[:min(markBits, len(list))]
		k := min(bits.OnesCount64(marks[i]), len(src))
		q.writeMarked(src[:k], vec[:3*k], f.images, part, marks[i])
		src, vec, list = src[k:], vec[3*k:], list[len(part):]
	}
}

// query is a point moved into the box, with bounds for the squared length of an edge. The bounds low and low+span are
// the bits of float64 values. The bits of positive floats have the order of the floats, so one integer comparison tests
// both bounds without a branch.
type query struct {
	x, y, z   float64
	low, span uint64
}

// newQuery returns the query for a point, and the images that are candidates for its edges.
func (f *Finder) newQuery(p [3]float64, skipSelf bool) (query, []int32) {
	x, y, z, list := f.candidates(p)
	q := query{x: x, y: y, z: z, span: math.Float64bits(f.cutoff2)}
	if skipSelf {
		q.low = math.Float64bits(selfDistance2)
		q.span -= min(q.low, q.span) // a cutoff below selfDistance has no edges
	}
	return q, list
}

// The loops of writeEdges, markHits and writeMarked take most of a search's time. They avoid branches, which would
// often be mispredicted, since about a third of the candidates are not edges. The conversions of products to float64
// prevent fused multiply-adds, so that the edges are the same on every machine.

// writeEdges writes the edges among the candidates and returns their number. src and vec must have room for all
// candidates; values after the edges are overwritten.
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

// markHits returns a word with bit i set if candidate i, of at most 64, is an edge.
func (q *query) markHits(images []image, list []int32) uint64 {
	x, y, z, low, span := q.x, q.y, q.z, q.low, q.span
	misses := uint64(0)
	for _, id := range list {
		im := &images[id]
		dx, dy, dz := im.x-x, im.y-y, im.z-z
		d2 := float64(dx*dx) + float64(dy*dy) + float64(dz*dz)
		_, in := bits.Sub64(math.Float64bits(d2)-low, span, 0)
		// Shift misses left, and set bit 0 if the candidate is not an edge: misses - ^misses - in = 2*misses +
		// (1-in).
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
