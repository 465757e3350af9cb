package e3nn

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/structure"
)

const (
	// mostCollators is the largest number of goroutines that collate: waking more takes as long as their work.
	mostCollators = 8
	// edgesPerCollator is the least number of edges for which waking a goroutine pays: 0.1 ms of work.
	edgesPerCollator = 1 << 13
	// A chunk has about edgesPerChunk edges and at most mostRowsPerChunk rows, which takes about 5 us. That is long
	// compared with taking the chunk, and short compared with the wait for the last worker.
	edgesPerChunk, mostRowsPerChunk = 1 << 10, 64
)

// collator finds the neighbours of each batch's points and lists the edges by row, with each row's first edge in
// rowptr. The result does not depend on the number of goroutines.
//
// A single goroutine writes each row after the previous one. With several, a row's position is unknown until all rows
// are searched, so there are two loops: the first marks the candidates that are edges, the second writes them.
type collator struct {
	in    *input
	crew  *workerPool // nil: only the caller works
	words int         // words of edge marks per row: one bit per candidate
	marks []uint64
	next  []int32 // for each source, the next index in perm; see sort

	// The current batch.
	points           []int32
	src, dst, rowptr []int32
	vec              []float32
	mark, place      func(lo, hi int) int // method values bound once, since each binding allocates
}

// collators returns the number of goroutines that collate: at most half of the logical processors. Two of these may
// share a core, and the driver and other programs need the other half.
func collators(in *input, device string, processors int) int {
	if device == "host" { // the host device's kernels use all cores at the same time
		return 1
	}
	return max(1, min(processors/2, mostCollators, in.meanEdges()/edgesPerCollator))
}

// newCollator makes a collator with threads goroutines for the input's batches; close ends those that it starts.
func newCollator(in *input, threads int) *collator {
	c := &collator{in: in, next: make([]int32, len(in.crystal.Positions))}
	if threads > 1 {
		c.words = in.finder.MarkWords()
		c.marks = make([]uint64, in.batch*c.words)
		c.mark, c.place = c.markRows, c.placeRows
		c.crew = newCrew(threads, 1+min(mostRowsPerChunk, int(edgesPerChunk/in.meanDegree())))
	}
	return c
}

func (c *collator) threadCount() int {
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

// collate fills a slot's host buffers with a batch and returns the number of its edges, at most the prefix if there is
// one. It may also write edges beyond the prefix into the slot.
func (c *collator) collate(to *edgeBuffers, batch int) int {
	limit := c.in.edges[batch]
	c.points = c.in.batches[batch]
	c.src, c.dst, c.rowptr, c.vec = device.Ints(to.src), device.Ints(to.dst), device.Ints(to.rowptr), device.Floats(to.vec)
	c.rowptr[0] = 0
	if c.crew == nil {
		c.collateAlone(limit)
		c.sort(to, limit)
		return limit
	}
	clear(c.rowptr)
	c.crew.run(len(c.points), int64(limit), c.mark)
	for r := range c.points { // turns the number of edges of each row into the index of its end
		c.rowptr[r+1] = int32(min(int(c.rowptr[r])+int(c.rowptr[r+1]), limit))
	}
	c.crew.follow(len(c.points), math.MaxInt64, c.place)
	c.sort(to, limit)
	return limit
}

// sort lists the edges by source in perm with a counting sort, which keeps the order within a source. colptr holds the
// index in perm of each source's first edge, then the number of edges, then the point of row 0.
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
	if c.in.atoms { // a batch's atoms are consecutive
		colptr[atoms+1] = c.points[0]
	}
}

func (c *collator) collateAlone(limit int) {
	e := structure.Edges{Src: c.src[:0], Vec: c.vec[:0]}
	for r, point := range c.points {
		if at := len(e.Src); at < limit {
			c.in.finder.Append(&e, c.in.point(point), c.in.atoms)
			fillWith(c.dst[at:min(len(e.Src), limit)], int32(r))
		}
		c.rowptr[r+1] = int32(min(len(e.Src), limit))
	}
}

// markRows marks and counts the edges of rows [lo,hi), and returns their number.
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
		fillWith(c.dst[from:to], int32(r))
	}
	return 0
}

func fillWith(x []int32, v int32) {
	for i := range x {
		x[i] = v
	}
}
