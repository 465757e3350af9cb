// Package pool is a caching allocator of device memory with the rules of PyTorch's:
// freed blocks stay reserved and serve later requests, large ones are cut, free
// neighbours are joined, and whole segments are returned on request. It counts; the
// memory itself is the driver's. Places are numbers (segment, offset), and addresses
// matter only where Settings.Order says so.
package pool

import "fmt"

// Driver has the memory. Map makes a segment of bytes bytes under a number, Unmap
// returns it; it waits for work in flight where the device does.
type Driver interface {
	Map(segment int, bytes int64) error
	Unmap(segment int) error
}

// Pager has the memory of expandable segments: Grow backs a part of a segment, Shrink
// returns it. Both are whole pages of it, bytes.
type Pager interface {
	Grow(segment int, offset, bytes int64) error
	Shrink(segment int, offset, bytes int64) error
}

// Addresser is a Driver that knows where its segments begin, for Settings.Order ByAddress.
type Addresser interface {
	Base(segment int) uint64
}

// Releaser is a Driver whose pools other than 0 are returned by Trim as well: Released is
// the next of them, once each in a Trim. Without it they keep their memory, as those of
// CUDA graphs do while the graph exists.
type Releaser interface {
	Released() (pool int, ok bool)
}

// Block is memory that was taken: Size bytes of a segment from Offset on, of which
// Requested were asked for.
type Block struct {
	Segment                 int
	Offset, Size, Requested int64
	Stream                  int

	of         *shelf
	idle, hole bool   // hole: of an expandable segment: address space without memory
	whole      int64  // bytes of the segment; 0: it is expandable
	base       uint64 // address of the segment
	number     uint64 // of the block, for ByBlock
	tie        uint64 // of an idle block, with others of its size
	since      int    // of an idle block: the searches of its shelf before it was put there
	prev, next *Block // neighbours in the segment
}

// shelf are the blocks of small or of large requests of one pool that are not in use.
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
	Retries                    int // requests for which cached memory was returned first
	// Ties are requests that a block of the same size would have served as well, as
	// Settings.Order decides.
	Ties int
}

// Pool is one allocator. It is called by one goroutine.
type Pool struct {
	set     Settings
	driver  Driver
	shelves [][2]*shelf // of large and of small requests, by pool
	next    int         // the number of the next segment
	numbers uint64      // of blocks
	stats   Stats
	work    int64
	want    Block    // the request of the last Take
	spare   []*Block // of blocks that were joined with others: a warm pool allocates nothing
}

// Work is how many entries of its lists the pool has looked at or moved.
func (p *Pool) Work() int64 { return p.work }

// New returns an empty pool.
func New(s Settings, d Driver) *Pool { return &Pool{set: s, driver: d} }

// shelf is that of requests of a size in a pool.
func (p *Pool) shelf(size int64, pool int) *shelf {
	for len(p.shelves) <= pool {
		var both [2]*shelf
		for k := range both {
			both[k] = &shelf{small: k == 1, pool: len(p.shelves), idle: list{order: bySize, work: &p.work}, holes: list{order: byPlace, work: &p.work}}
		}
		p.shelves = append(p.shelves, both)
	}
	if size <= smallMost {
		return p.shelves[pool][1]
	}
	return p.shelves[pool][0]
}

// Take returns a block of at least bytes of a pool that work of the stream may use; 0 is
// the pool of a program that has no other. The block is the smallest idle one that fits,
// cut to size, or else of a new segment. Where the driver refuses one, idle segments are
// returned and it is asked once more; its second error is the caller's.
func (p *Pool) Take(bytes int64, stream, pool int) (*Block, error) {
	size := p.set.Round(bytes)
	p.want = Block{Size: size, Stream: stream, of: p.shelf(size, pool), Offset: -1}
	b, err := p.find(&p.want)
	if err != nil {
		return nil, err
	}
	p.cut(b, size)
	b.Requested, b.idle = bytes, false
	p.stats.InUse += b.Size
	p.stats.Requested += bytes
	p.stats.PeakInUse = max(p.stats.PeakInUse, p.stats.InUse)
	return b, nil
}

// find takes a block of at least the size from the idle ones or of a new segment.
func (p *Pool) find(want *Block) (*Block, error) {
	want.of.searches++
	idle := &want.of.idle
	at := idle.find(want)
	if b := p.serves(idle, at, want); b != nil {
		if p.set.Pages != nil {
			for to := idle.next(at); ; to = idle.next(to) {
				other := p.serves(idle, to, want)
				if other == nil || other.reach() >= b.reach() {
					break
				}
				at, b = to, other
				p.work++
			}
		}
		if p.set.fits(b.Size, want.Size) {
			if other := p.serves(idle, idle.next(at), want); other != nil && other.Size == b.Size {
				p.stats.Ties++
			}
			idle.remove(at)
			return b, nil
		}
	}
	return p.grow(want)
}

// serves is the block at a place, if it is of the stream.
func (p *Pool) serves(idle *list, at place, want *Block) *Block {
	if b := idle.get(at); b != nil && b.Stream == want.Stream {
		return b
	}
	return nil
}

// grow makes memory for want: it, or a block that it was made in, is returned.
func (p *Pool) grow(want *Block) (*Block, error) {
	if err := p.collect(); err != nil {
		return nil, err
	}
	b, err := p.more(want)
	if err != nil && p.set.MaxSplit > 0 {
		var freed bool
		if freed, err = p.makeRoom(want); err != nil {
			return nil, err
		}
		if err = errNoRoom; freed {
			b, err = p.more(want)
		}
	}
	if err != nil && want.of.pool == 0 { // while a graph is captured nothing is returned
		p.stats.Retries++
		if e := p.Trim(); e != nil {
			return nil, e
		}
		b, err = p.more(want)
	}
	if err != nil {
		return nil, fmt.Errorf("reserving a segment of %d bytes beside %d: %w", p.set.whole(want.Size), p.stats.Reserved, err)
	}
	return b, nil
}

// more asks the driver once.
func (p *Pool) more(want *Block) (*Block, error) {
	whole := p.set.whole(want.Size)
	if p.set.Allowed > 0 && p.stats.Reserved+whole > p.set.Allowed {
		return nil, errLimit
	}
	if p.set.Pages != nil {
		return p.expand(want)
	}
	if err := p.driver.Map(p.next, whole); err != nil {
		return nil, err //nolint:wrapcheck // grow says what was asked for
	}
	b := *want
	b.Segment, b.Offset, b.Size, b.whole = p.next, 0, whole, whole
	if a, ok := p.driver.(Addresser); ok {
		b.base = a.Base(b.Segment)
	}
	b.number = p.numbered()
	p.next++
	p.reserve(whole)
	return &b, nil
}

// numbered is the number of a new block.
func (p *Pool) numbered() uint64 {
	p.numbers++
	return p.numbers
}

// reserve counts a call that made memory.
func (p *Pool) reserve(bytes int64) {
	p.stats.DriverAllocs++
	p.stats.Reserved += bytes
	p.stats.PeakReserved = max(p.stats.PeakReserved, p.stats.Reserved)
}

// cut makes the rest of a block beyond size idle, where it is worth it. The rest keeps the
// block's number.
func (p *Pool) cut(b *Block, size int64) {
	if !p.set.worthCutting(b, size) {
		return
	}
	p.put(p.split(b, size))
	b.number = p.numbered()
}

// split cuts a block; the rest is linked behind it.
func (p *Pool) split(b *Block, size int64) (rest *Block) {
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

// put adds a block to the idle ones.
func (p *Pool) put(b *Block) {
	b.idle, b.tie, b.since = true, p.set.tie(b), b.of.searches
	b.of.idle.insert(b)
}

// Give makes a block idle and joins it with idle neighbours of its segment. It must
// have been taken and not been given since; afterwards it is the pool's and may be another.
func (p *Pool) Give(b *Block) {
	p.stats.InUse -= b.Size
	p.stats.Requested -= b.Requested
	p.put(p.join(b))
}

// join joins a block, which is in no list, with its neighbours that are idle, and a hole
// with those that are holes. What they become has the block's number.
func (p *Pool) join(b *Block) *Block {
	if n := b.next; taken(n, b.hole) {
		p.swallow(b)
	}
	if v := b.prev; taken(v, b.hole) {
		v.number = b.number
		p.swallow(v)
		b = v
	}
	return b
}

// taken removes a neighbour from its list, if it is a hole or idle as asked.
func taken(b *Block, hole bool) bool {
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

// swallow joins a block with the one behind it.
func (p *Pool) swallow(b *Block) {
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

// ResetPeak begins both peaks anew.
func (p *Pool) ResetPeak() {
	p.stats.PeakInUse, p.stats.PeakReserved = p.stats.InUse, p.stats.Reserved
}
