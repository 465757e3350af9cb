// Package pool simulates a caching allocator of device memory with the rules of PyTorch's: freed blocks stay reserved
// and serve later requests, large ones are split, free neighbours are joined, and whole segments are returned on
// request. It only counts; the driver holds the memory. Positions are numbers (segment, offset), and addresses matter
// only if Settings.Order is ByAddress.
package pool

import "fmt"

// Driver provides memory. Map creates a segment of the given bytes under a number, and Unmap returns it. Unmap waits
// for work in flight if the device does.
type Driver interface {
	Map(segment int, bytes int64) error
	Unmap(segment int) error
}

// Pager provides the memory of expandable segments: Grow backs a part of a segment, and Shrink returns it. Both use
// whole pages, bytes.
type Pager interface {
	Grow(segment int, offset, bytes int64) error
	Shrink(segment int, offset, bytes int64) error
}

// Addresser is a Driver with the base addresses of its segments, for Settings.Order ByAddress.
type Addresser interface {
	Base(segment int) uint64
}

// Releaser is a Driver for which Trim also returns pools other than 0: Released returns the next of them, each once
// per Trim. Without it these pools keep their memory, like pools of existing CUDA graphs.
type Releaser interface {
	Released() (pool int, ok bool)
}

// Block is allocated memory: Size bytes of a segment from Offset, of which the request asked for Requested.
type Block struct {
	Segment                 int
	Offset, Size, Requested int64
	Stream                  int

	of         *shelf
	idle, hole bool   // hole: address space of an expandable segment without memory
	whole      int64  // bytes of the segment; 0 if expandable
	base       uint64 // address of the segment
	number     uint64 // creation number, for ByBlock
	tie        uint64 // of an idle block: its rank among blocks of its size
	since      int    // of an idle block: the number of searches of its shelf when it became idle
	prev, next *Block // neighbours in the segment
}

// shelf holds the unused blocks of small or of large requests of one pool.
type shelf struct {
	small       bool
	pool        int
	idle, holes list
	searches    int
}

// Stats are the allocator's counters, in bytes and calls of the driver.
type Stats struct {
	InUse, Requested, Reserved int64
	PeakInUse, PeakReserved    int64
	LargestIdle                int64
	DriverAllocs, DriverFrees  int
	Retries                    int // requests before which cached memory was returned
	// Ties counts requests that another block of the same size could have served; Settings.Order decides.
	Ties int
}

// Pool is one allocator. It is not safe for concurrent use.
type Pool struct {
	set     Settings
	driver  Driver
	shelves [][2]*shelf // large and small requests, by pool
	next    int         // number of the next segment
	numbers uint64      // number of blocks created
	stats   Stats
	work    int64
	want    Block    // the request of the last Take
	spare   []*Block // blocks that were joined with others; with them a warm pool allocates nothing
}

// Work returns the number of list entries that the pool visited or moved.
func (p *Pool) Work() int64 { return p.work }

// New returns an empty pool.
func New(s Settings, d Driver) *Pool { return &Pool{set: s, driver: d} }

// shelfFor returns the shelf for requests of a size in a pool.
func (p *Pool) shelfFor(size int64, pool int) *shelf {
	for len(p.shelves) <= pool {
		var both [2]*shelf
		for k := range both {
			both[k] = &shelf{small: k == 1, pool: len(p.shelves), idle: list{order: compareSize, work: &p.work}, holes: list{order: comparePlace, work: &p.work}}
		}
		p.shelves = append(p.shelves, both)
	}
	if size <= smallMost {
		return p.shelves[pool][1]
	}
	return p.shelves[pool][0]
}

// Take returns a block of at least the given bytes from a pool, for work of the stream; 0 is the default pool. The
// block is the smallest idle one that fits, split to size, or a new segment. If the driver refuses a segment, Take
// returns idle segments and asks once more; a second error is returned.
func (p *Pool) Take(bytes int64, stream, pool int) (*Block, error) {
	size := p.set.Round(bytes)
	p.want = Block{Size: size, Stream: stream, of: p.shelfFor(size, pool), Offset: -1}
	b, err := p.findBlock(&p.want)
	if err != nil {
		return nil, err
	}
	p.trimBlock(b, size)
	b.Requested, b.idle = bytes, false
	p.stats.InUse += b.Size
	p.stats.Requested += bytes
	p.stats.PeakInUse = max(p.stats.PeakInUse, p.stats.InUse)
	return b, nil
}

// findBlock takes a block of at least the size, an idle one or a new segment.
func (p *Pool) findBlock(want *Block) (*Block, error) {
	want.of.searches++
	idle := &want.of.idle
	at := idle.find(want)
	if b := p.usableAt(idle, at, want); b != nil {
		if p.set.Pages != nil {
			for to := idle.next(at); ; to = idle.next(to) {
				other := p.usableAt(idle, to, want)
				if other == nil || other.reachableSize() >= b.reachableSize() {
					break
				}
				at, b = to, other
				p.work++
			}
		}
		if p.set.allowsBlock(b.Size, want.Size) {
			if other := p.usableAt(idle, idle.next(at), want); other != nil && other.Size == b.Size {
				p.stats.Ties++
			}
			idle.remove(at)
			return b, nil
		}
	}
	return p.growPool(want)
}

// usableAt returns the block at a place, if it belongs to the stream.
func (p *Pool) usableAt(idle *list, at place, want *Block) *Block {
	if b := idle.get(at); b != nil && b.Stream == want.Stream {
		return b
	}
	return nil
}

// growPool allocates memory for want, and returns it or the block that contains it.
func (p *Pool) growPool(want *Block) (*Block, error) {
	if err := p.collectUnused(); err != nil {
		return nil, err
	}
	b, err := p.requestMemory(want)
	if err != nil && p.set.MaxSplit > 0 {
		var freed bool
		if freed, err = p.makeRoom(want); err != nil {
			return nil, err
		}
		if err = errNoRoom; freed {
			b, err = p.requestMemory(want)
		}
	}
	if err != nil && want.of.pool == 0 { // during the capture of a graph nothing is returned
		p.stats.Retries++
		if e := p.Trim(); e != nil {
			return nil, e
		}
		b, err = p.requestMemory(want)
	}
	if err != nil {
		return nil, fmt.Errorf("reserving a segment of %d bytes beside %d: %w", p.set.segmentSize(want.Size), p.stats.Reserved, err)
	}
	return b, nil
}

// requestMemory asks the driver once.
func (p *Pool) requestMemory(want *Block) (*Block, error) {
	whole := p.set.segmentSize(want.Size)
	if p.set.Allowed > 0 && p.stats.Reserved+whole > p.set.Allowed {
		return nil, errLimit
	}
	if p.set.Pages != nil {
		return p.expandSegment(want)
	}
	if err := p.driver.Map(p.next, whole); err != nil {
		return nil, err //nolint:wrapcheck // growPool wraps it
	}
	b := *want
	b.Segment, b.Offset, b.Size, b.whole = p.next, 0, whole, whole
	if a, ok := p.driver.(Addresser); ok {
		b.base = a.Base(b.Segment)
	}
	b.number = p.nextNumber()
	p.next++
	p.countReserved(whole)
	return &b, nil
}

// nextNumber returns the number of a new block.
func (p *Pool) nextNumber() uint64 {
	p.numbers++
	return p.numbers
}

// countReserved counts a driver call that allocated memory.
func (p *Pool) countReserved(bytes int64) {
	p.stats.DriverAllocs++
	p.stats.Reserved += bytes
	p.stats.PeakReserved = max(p.stats.PeakReserved, p.stats.Reserved)
}

// trimBlock splits off the part of a block beyond size, if worthwhile. It keeps the block's number.
func (p *Pool) trimBlock(b *Block, size int64) {
	if !p.set.worthSplitting(b, size) {
		return
	}
	p.addIdle(p.splitBlock(b, size))
	b.number = p.nextNumber()
}

// splitBlock splits a block and links the rest after it.
func (p *Pool) splitBlock(b *Block, size int64) (rest *Block) {
	if last := len(p.spare) - 1; last >= 0 {
		rest, p.spare = p.spare[last], p.spare[:last]
	} else {
		rest = new(Block)
	}
	*rest = *b
	rest.Offset, rest.Size, rest.prev = b.Offset+size, b.Size-size, b
	if rest.next != nil {
		rest.next.prev = rest
	}
	b.next, b.Size = rest, size
	return rest
}

// addIdle adds a block to the idle ones.
func (p *Pool) addIdle(b *Block) {
	b.idle, b.tie, b.since = true, p.set.tieRank(b), b.of.searches
	b.of.idle.insert(b)
}

// Give makes a block idle and joins it with idle neighbours of its segment. The block must be in use. After Give it
// belongs to the pool, which may reuse it.
func (p *Pool) Give(b *Block) {
	p.stats.InUse -= b.Size
	p.stats.Requested -= b.Requested
	p.addIdle(p.joinNeighbours(b))
}

// joinNeighbours joins a block, which is in no list, with its idle neighbours, and a hole with neighbouring holes.
// The result has the block's number.
func (p *Pool) joinNeighbours(b *Block) *Block {
	if n := b.next; unlist(n, b.hole) {
		p.mergeNext(b)
	}
	if v := b.prev; unlist(v, b.hole) {
		v.number = b.number
		p.mergeNext(v)
		b = v
	}
	return b
}

// unlist removes a neighbour from its list, if it is a hole or idle as requested.
func unlist(b *Block, hole bool) bool {
	switch {
	case b == nil || b.hole != hole:
		return false
	case hole:
		b.of.holes.drop(b)
	case b.idle:
		b.of.idle.drop(b)
	default:
		return false
	}
	return true
}

// mergeNext joins a block with the following one.
func (p *Pool) mergeNext(b *Block) {
	gone := b.next
	b.Size += gone.Size
	if b.next = gone.next; b.next != nil {
		b.next.prev = b
	}
	p.spare = append(p.spare, gone)
}

// Stats returns the counters.
func (p *Pool) Stats() Stats {
	s := p.stats
	for _, both := range p.shelves {
		for _, of := range both {
			for _, part := range of.idle.parts {
				for _, b := range part {
					s.LargestIdle = max(s.LargestIdle, b.Size)
				}
			}
		}
	}
	return s
}

// ResetPeak sets both peaks to the present values.
func (p *Pool) ResetPeak() {
	p.stats.PeakInUse, p.stats.PeakReserved = p.stats.InUse, p.stats.Reserved
}
