// Package pool is a caching allocator of device memory with the rules of PyTorch's:
// freed blocks stay reserved and serve later requests, large ones are cut, free
// neighbours are joined, and whole segments are returned on request. It counts; the
// memory itself is the driver's. Places are numbers (segment, offset) and not
// addresses, so that counts do not depend on a device.
package pool

import (
	"cmp"
	"fmt"
	"slices"
)

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

// Block is memory that was taken: Size bytes of a segment from Offset on, of which
// Requested were asked for.
type Block struct {
	Segment                 int
	Offset, Size, Requested int64
	Stream                  int

	small, idle bool
	hole        bool   // of an expandable segment: address space without memory
	whole       int64  // bytes of the segment; 0: it is expandable
	prev, next  *Block // neighbours in the segment
}

// Stats are the allocator's counters, in bytes and calls of the driver.
type Stats struct {
	InUse, Requested, Reserved int64
	PeakInUse, PeakReserved    int64
	LargestIdle                int64
	DriverAllocs, DriverFrees  int
	Retries                    int // requests for which cached memory was returned first
}

// Pool is one allocator. It is called by one goroutine.
type Pool struct {
	set    Settings
	driver Driver
	idle   []*Block // by list (large, small), stream, size, segment and offset
	holes  []*Block // by list, stream, segment and offset
	next   int      // the number of the next segment
	stats  Stats
	work   int64
}

// Work is how many entries of its lists the pool has looked at or moved: a list of n
// blocks costs up to n for each change of it.
func (p *Pool) Work() int64 { return p.work }

// insert and remove change a list at a place.
func (p *Pool) insert(list *[]*Block, at int, b *Block) {
	p.work += int64(len(*list) - at)
	*list = slices.Insert(*list, at, b)
}

func (p *Pool) remove(list *[]*Block, at int) {
	p.work += int64(len(*list) - at)
	*list = slices.Delete(*list, at, at+1)
}

// New returns an empty pool.
func New(s Settings, d Driver) *Pool { return &Pool{set: s, driver: d} }

// Take returns a block of at least bytes that work of the stream may use. The block
// is the smallest idle one that fits, cut to size, or else of a new segment. Where the
// driver refuses one, idle segments are returned and it is asked once more; its second
// error is the caller's.
func (p *Pool) Take(bytes int64, stream int) (*Block, error) {
	size := p.set.Round(bytes)
	b, err := p.find(size, stream)
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

// find takes a block of at least size from the idle ones or of a new segment.
func (p *Pool) find(size int64, stream int) (*Block, error) {
	want := &Block{Size: size, Stream: stream, small: size <= smallMost, Segment: p.set.before()}
	at, _ := slices.BinarySearchFunc(p.idle, want, p.set.order)
	if same := func(at int) bool {
		return at < len(p.idle) && p.idle[at].small == want.small && p.idle[at].Stream == stream
	}; same(at) {
		for p.set.Pages != nil && same(at+1) && p.idle[at+1].reach() < p.idle[at].reach() {
			at++
			p.work++
		}
		if b := p.idle[at]; p.set.fits(b.Size, size) {
			p.remove(&p.idle, at)
			return b, nil
		}
	}
	return p.grow(want)
}

// grow makes memory for want: it, or a block that it was made in, is returned.
func (p *Pool) grow(want *Block) (*Block, error) {
	whole := segmentFor(want.Size)
	b, err := p.more(want, whole)
	if err != nil && p.set.MaxSplit > 0 {
		var freed bool
		if freed, err = p.makeRoom(want); err != nil {
			return nil, err
		}
		if err = errNoRoom; freed {
			b, err = p.more(want, whole)
		}
	}
	if err != nil {
		p.stats.Retries++
		if e := p.Trim(); e != nil {
			return nil, e
		}
		b, err = p.more(want, whole)
	}
	if err != nil {
		return nil, fmt.Errorf("reserving a segment of %d bytes beside %d: %w", whole, p.stats.Reserved, err)
	}
	return b, nil
}

// more asks the driver once.
func (p *Pool) more(want *Block, whole int64) (*Block, error) {
	if p.set.Pages != nil {
		return p.expand(want)
	}
	if err := p.driver.Map(p.next, whole); err != nil {
		return nil, err //nolint:wrapcheck // grow says what was asked for
	}
	b := *want
	b.Segment, b.Size, b.whole = p.next, whole, whole
	p.next++
	p.reserve(whole)
	return &b, nil
}

// reserve counts a call that made memory.
func (p *Pool) reserve(bytes int64) {
	p.stats.DriverAllocs++
	p.stats.Reserved += bytes
	p.stats.PeakReserved = max(p.stats.PeakReserved, p.stats.Reserved)
}

// cut makes the rest of a block beyond size idle, where it is worth it.
func (p *Pool) cut(b *Block, size int64) {
	if !p.set.worthCutting(b, size) {
		return
	}
	p.put(b.split(size))
}

// split cuts a block; the rest is linked behind it.
func (b *Block) split(size int64) (rest *Block) {
	r := *b
	r.Offset, r.Size, r.prev = b.Offset+size, b.Size-size, b
	if r.next != nil {
		r.next.prev = &r
	}
	b.next, b.Size = &r, size
	return &r
}

// put adds a block to the idle ones.
func (p *Pool) put(b *Block) {
	b.idle = true
	at, _ := slices.BinarySearchFunc(p.idle, b, p.set.order)
	p.insert(&p.idle, at, b)
}

// drop removes a block from the idle ones.
func (p *Pool) drop(b *Block) {
	at, _ := slices.BinarySearchFunc(p.idle, b, p.set.order)
	p.remove(&p.idle, at)
}

// lists sorts by list and stream.
func lists(a, b *Block) int {
	switch {
	case a.small != b.small && a.small:
		return 1
	case a.small != b.small:
		return -1
	}
	return cmp.Compare(a.Stream, b.Stream)
}

// Give makes a block idle and joins it with idle neighbours of its segment. It must
// have been taken and not been given since.
func (p *Pool) Give(b *Block) {
	p.stats.InUse -= b.Size
	p.stats.Requested -= b.Requested
	p.put(p.join(b))
}

// join joins a block, which is in no list, with its neighbours that are idle, and a hole
// with those that are holes.
func (p *Pool) join(b *Block) *Block {
	if n := b.next; p.taken(n, b.hole) {
		b.swallow()
	}
	if v := b.prev; p.taken(v, b.hole) {
		v.swallow()
		b = v
	}
	return b
}

// taken removes a neighbour from its list, if it is a hole or idle as asked.
func (p *Pool) taken(b *Block, hole bool) bool {
	switch {
	case b == nil || b.hole != hole:
		return false
	case hole:
		p.fill(b)
	case b.idle:
		p.drop(b)
	default:
		return false
	}
	return true
}

// swallow joins a block with the one behind it.
func (b *Block) swallow() {
	b.Size += b.next.Size
	if b.next = b.next.next; b.next != nil {
		b.next.prev = b
	}
}

// Trim returns every segment that is one idle block to the driver, and of expandable
// ones every idle page.
func (p *Pool) Trim() error {
	if p.set.Pages != nil {
		return p.trimPages()
	}
	p.work += int64(len(p.idle))
	kept := p.idle[:0]
	var failed error
	for _, b := range p.idle {
		if b.Size != b.whole || failed != nil {
			kept = append(kept, b)
			continue
		}
		if failed = p.release(b); failed != nil {
			kept = append(kept, b)
		}
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	return failed
}

// release returns the segment of a block, which is whole.
func (p *Pool) release(b *Block) error {
	if err := p.driver.Unmap(b.Segment); err != nil {
		return fmt.Errorf("returning a segment of %d bytes: %w", b.whole, err)
	}
	p.stats.DriverFrees++
	p.stats.Reserved -= b.whole
	return nil
}

// Stats returns the counters.
func (p *Pool) Stats() Stats {
	s := p.stats
	for _, b := range p.idle {
		s.LargestIdle = max(s.LargestIdle, b.Size)
	}
	return s
}

// ResetPeak begins both peaks anew.
func (p *Pool) ResetPeak() {
	p.stats.PeakInUse, p.stats.PeakReserved = p.stats.InUse, p.stats.Reserved
}
