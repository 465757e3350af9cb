package e3nn

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

const (
	// mostCollators: more hardly help, waking them takes as long as the work.
	mostCollators = 8
	// edgesPerCollator is what makes it worth waking a goroutine: 0.1 ms of work.
	edgesPerCollator = 1 << 13
	// A chunk of about so many edges, and at most so many rows, takes some 5 us:
	// long beside handing it out, short beside the wait for whoever does the last.
	edgesPerChunk, mostRowsPerChunk = 1 << 10, 64
)

// collator finds the neighbours of a batch's points, anew for every batch, and
// lays them out as rows: edges sorted by row, rowptr where each row begins. The
// result does not depend on how many goroutines make it.
//
// Alone the caller writes each row behind the last. With helpers nobody knows
// where a row begins before all rows are searched, so these are two loops: the
// first notes which candidates are edges, the second writes them.
type collator struct {
	in    *input
	crew  *crew // nil: the caller alone
	words int   // of marks a row
	marks []uint64
	next  []int32 // of every source, see sort

	// The batch in the making.
	points           []int32
	src, dst, rowptr []int32
	vec              []float32
	mark, place      func(lo, hi int) int // bound once: a method value allocates
}

// collators is how many goroutines make a batch: at most half of the processors,
// which may be two to a core, and whose other half the driver and others want.
func collators(in *input, device string, processors int) int {
	if device == "host" { // its kernels have every core, and run meanwhile
		return 1
	}
	return max(1, min(processors/2, mostCollators, in.meanEdges()/edgesPerCollator))
}

// newCollator is for the input's batches, made by so many goroutines; close ends
// those that it starts.
func newCollator(in *input, threads int) *collator {
	c := &collator{in: in, next: make([]int32, len(in.crystal.Positions))}
	if threads > 1 {
		c.words = in.finder.MarkWords()
		c.marks = make([]uint64, in.batch*c.words)
		c.mark, c.place = c.markRows, c.placeRows
		c.crew = newCrew(threads, 1+min(mostRowsPerChunk, int(edgesPerChunk/in.degree())))
	}
	return c
}

// threads is how many goroutines make a batch.
func (c *collator) threads() int {
	if c.crew == nil {
		return 1
	}
	return cap(c.crew.wake) + 1
}

func (c *collator) close() {
	if c != nil && c.crew != nil {
		c.crew.close()
	}
}

// collate fills a slot's side of the caller with a batch and returns its edges,
// of which there are as many as the prefix allows. What lies beyond them in the
// slot is overwritten.
func (c *collator) collate(to *edgeBuffers, batch int) int {
	limit := c.in.edges[batch]
	c.points = c.in.batches[batch]
	c.src, c.dst, c.rowptr, c.vec = device.Ints(to.src), device.Ints(to.dst), device.Ints(to.rowptr), device.Floats(to.vec)
	c.rowptr[0] = 0
	if c.crew == nil {
		c.alone(limit)
		c.sort(to, limit)
		return limit
	}
	clear(c.rowptr)
	c.crew.run(len(c.points), int64(limit), c.mark)
	for r := range c.points { // from edges of a row to where it ends
		c.rowptr[r+1] = int32(min(int(c.rowptr[r])+int(c.rowptr[r+1]), limit))
	}
	c.crew.follow(len(c.points), math.MaxInt64, c.place)
	c.sort(to, limit)
	return limit
}

// sort lists the edges by source, those of one in their order, by counting: colptr
// has where each source's begin and, last, the point of row 0.
func (c *collator) sort(to *edgeBuffers, edges int) {
	if to.perm == nil {
		return
	}
	colptr, perm, atoms := device.Ints(to.colptr), device.Ints(to.perm), len(c.in.crystal.Positions)
	clear(c.next)
	for _, s := range c.src[:edges] {
		c.next[s]++
	}
	at := int32(0)
	for s, n := range c.next {
		colptr[s], c.next[s] = at, at
		at += n
	}
	colptr[atoms] = at
	for e, s := range c.src[:edges] {
		perm[c.next[s]] = int32(e)
		c.next[s]++
	}
	colptr[atoms+1] = int32(atoms)
	if c.in.atoms { // a batch's atoms follow each other
		colptr[atoms+1] = c.points[0]
	}
}

func (c *collator) alone(limit int) {
	e := structure.Edges{Src: c.src[:0], Vec: c.vec[:0]}
	for r, point := range c.points {
		if at := len(e.Src); at < limit {
			c.in.finder.Append(&e, c.in.point(point), c.in.atoms)
			fill(c.dst[at:min(len(e.Src), limit)], int32(r))
		}
		c.rowptr[r+1] = int32(min(len(e.Src), limit))
	}
}

// markRows returns the edges of the rows.
func (c *collator) markRows(lo, hi int) int {
	edges := 0
	for r := lo; r < hi; r++ {
		n := c.in.finder.Mark(c.marks[r*c.words:(r+1)*c.words], c.in.point(c.points[r]), c.in.atoms)
		c.rowptr[r+1] = int32(n)
		edges += n
	}
	return edges
}

func (c *collator) placeRows(lo, hi int) int {
	for r := lo; r < hi; r++ {
		from, to := c.rowptr[r], c.rowptr[r+1]
		c.in.finder.Place(c.src[from:to], c.vec[3*from:3*to], c.in.point(c.points[r]), c.marks[r*c.words:(r+1)*c.words])
		fill(c.dst[from:to], int32(r))
	}
	return 0
}

func fill(x []int32, v int32) {
	for i := range x {
		x[i] = v
	}
}
