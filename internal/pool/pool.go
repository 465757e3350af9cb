// Package pool simulates a caching allocator of device memory by PyTorch's rules: freed blocks stay reserved and serve
// later requests, large blocks are split, free neighbours are joined, and whole segments are returned on request. It
// only counts; a Driver provides the memory. A segment is memory that the driver gave at once, and a block is a part of
// a segment; an idle block serves no request. An expandable segment reserves address space and gets memory page by
// page: a hole is a part without memory, and to back a part is to get memory for it. A position is a segment number and
// an offset; addresses matter only if Settings.Order is ByAddress. A Pool is a whole allocator. The argument pool of
// its methods is the number of one of PyTorch's pools: 0 is the default pool, others are private pools, such as the
// pool of a CUDA graph. The argument want is the block that a request needs.
package pool

import "fmt"

// Driver provides memory. Map creates a segment of a number and a size, bytes; Unmap returns it. If the device must
// finish its work first, Unmap waits for it.
type Driver interface {
	Map(segment int, bytes int64) error
	Unmap(segment int) error
}

// Pager provides the memory of expandable segments, in whole pages: Grow adds memory to a part of a segment's address
// space, Shrink takes it away.
type Pager interface {
	Grow(segment int, offset, bytes int64) error
	Shrink(segment int, offset, bytes int64) error
}

// Addresser is a Driver that returns the base addresses of its segments, for Settings.Order ByAddress.
type Addresser interface {
	Base(segment int) uint64
}

// Releaser is a Driver for which Trim also returns pools other than 0. Released returns the next such pool, each once
// per Trim. Without it these pools keep their memory, as pools of existing CUDA graphs do.
type Releaser interface {
	Released() (pool int, ok bool)
}

// Block is allocated memory: Size bytes from Offset of a segment. Its request asked for Requested bytes.
type Block struct {
	Segment                 int
	Offset, Size, Requested int64
	Stream                  int

	of         *shelf
	idle, hole bool   // hole: address space of an expandable segment without memory
	whole      int64  // bytes of the segment; 0 if expandable
	base       uint64 // address of the segment
	number     uint64 // creation number, for ByBlock
	tie        uint64 // rank of an idle block among blocks of its size
	since      int    // number of searches of its shelf when the block became idle
	prev, next *Block // neighbours in the segment
}

// shelf has the idle blocks of one pool, for either small or large requests.
type shelf struct {
	small       bool
	pool        int
	idle, holes list
	searches    int
}

// Stats has the allocator's counters: bytes, and driver calls.
type Stats struct {
	InUse, Requested, Reserved int64
	PeakInUse, PeakReserved    int64
	LargestIdle                int64
	DriverAllocs, DriverFrees  int
	Retries                    int // requests for which cached memory was returned first
	// Ties counts requests for which several idle blocks had the same size, so that Settings.Order decided.
	Ties int
}

// Pool is one allocator. It is not safe for concurrent use.
type Pool struct {
	set     Settings
	driver  Driver
	shelves [][2]*shelf // shelves for large and small requests, by pool
	next    int         // number of the next segment
	numbers uint64      // number of blocks created
	stats   Stats
	work    int64
	want    Block    // the request of the last Take
	spare   []*Block // structs of joined blocks for reuse, so that a warm pool does not allocate
}

// Work returns the number of list entries that the pool visited or moved, as a measure of its cost.
func (p *Pool) Work() int64 { return p.work }

// New returns an empty pool.
func New(s Settings, d Driver) *Pool { return &Pool{set: s, driver: d} }

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

// Take returns a block of at least the given bytes from a pool (0: default), for work on the stream. It is the smallest
// idle block that fits, split to size, or a new segment. If the driver refuses a segment, Take returns idle segments
// and asks again. It returns the error of a second refusal.
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

// findBlock returns an idle block of at least want's size, or a new segment.
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

// usableAt returns the block at a place, or nil if it does not belong to want's stream.
func (p *Pool) usableAt(idle *list, at place, want *Block) *Block {
	if b := idle.get(at); b != nil && b.Stream == want.Stream {
		return b
	}
	return nil
}

// growPool gets memory for want. It returns want, or an idle block that is large enough.
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
	if err != nil && want.of.pool == 0 { // while a graph is captured, nothing is returned
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

// requestMemory asks the driver for memory, once.
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

func (p *Pool) nextNumber() uint64 {
	p.numbers++
	return p.numbers
}

func (p *Pool) countReserved(bytes int64) {
	p.stats.DriverAllocs++
	p.stats.Reserved += bytes
	p.stats.PeakReserved = max(p.stats.PeakReserved, p.stats.Reserved)
}

// trimBlock splits off the part of a block beyond size, if PyTorch would. The idle rest keeps the block's number.
func (p *Pool) trimBlock(b *Block, size int64) {
	if !p.set.worthSplitting(b, size) {
		return
	}
	p.addIdle(p.splitBlock(b, size))
	b.number = p.nextNumber()
}

// splitBlock cuts a block to size and links the rest after it.
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

func (p *Pool) addIdle(b *Block) {
	b.idle, b.tie, b.since = true, p.set.tieRank(b), b.of.searches
	b.of.idle.insert(b)
}

// Give makes a block in use idle and joins it with idle neighbours. The pool may then reuse the block.
func (p *Pool) Give(b *Block) {
	p.stats.InUse -= b.Size
	p.stats.Requested -= b.Requested
	p.addIdle(p.joinNeighbours(b))
}

// joinNeighbours joins a block that is in no list with idle neighbours, or a hole with neighbouring holes. The joined
// block has the block's number.
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

// unlist removes b from its list, if hole is true only a hole, otherwise only an idle block. It reports whether it did.
// b may be nil.
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

func (p *Pool) mergeNext(b *Block) {
	gone := b.next
	b.Size += gone.Size
	if b.next = gone.next; b.next != nil {
		b.next.prev = b
	}
	p.spare = append(p.spare, gone)
}

// Stats returns the pool's counters, and the size of its largest idle block.
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

// ResetPeak sets the peaks of the bytes in use and of the reserved bytes to the current values.
func (p *Pool) ResetPeak() {
	p.stats.PeakInUse, p.stats.PeakReserved = p.stats.InUse, p.stats.Reserved
}
