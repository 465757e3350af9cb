// Package pool is a caching allocator of device memory with the rules of PyTorch's:
// freed blocks stay reserved and serve later requests, large ones are cut, free
// neighbours are joined, and whole segments are returned on request. It counts; the
// memory itself is the driver's. Places are numbers (segment, offset) and not
// addresses, so that counts do not depend on a device.
package pool

import (
	"fmt"
	"slices"
)

// The sizes of PyTorch's CUDACachingAllocator, in bytes.
const (
	grain       = 512      // sizes are rounded up to it
	smallMost   = 1 << 20  // the largest small request
	smallWhole  = 2 << 20  // a segment of small blocks
	mediumMost  = 10 << 20 // from here on a request has a segment of its own
	mediumWhole = 20 << 20 // a segment of requests below that
	largeGrain  = 2 << 20  // segments of one request are rounded up to it
	oversize    = 20 << 20 // with MaxSplit: by so much a block is too large for a large request
)

// Settings are the allocator's options.
type Settings struct {
	MaxSplit int64 // bytes: a block of at least so many is never cut; 0: none
}

// Driver has the memory. Map makes a segment of bytes bytes under a number, Unmap
// returns it; it waits for work in flight where the device does.
type Driver interface {
	Map(segment int, bytes int64) error
	Unmap(segment int) error
}

// Block is memory that was taken: Size bytes of a segment from Offset on, of which
// Requested were asked for.
type Block struct {
	Segment                 int
	Offset, Size, Requested int64
	Stream                  int

	small, idle bool
	whole       int64  // bytes of the segment
	prev, next  *Block // neighbours in the segment
}

// Stats are the allocator's counters, in bytes and calls of the driver.
type Stats struct {
	InUse, Requested, Reserved int64
	PeakInUse, PeakReserved    int64
	LargestIdle                int64
	DriverAllocs, DriverFrees  int
}

// Pool is one allocator. It is called by one goroutine.
type Pool struct {
	set    Settings
	driver Driver
	idle   []*Block // by list (large, small), stream, size, segment and offset
	next   int      // the number of the next segment
	stats  Stats
}

// New returns an empty pool.
func New(s Settings, d Driver) *Pool { return &Pool{set: s, driver: d} }

// Take returns a block of at least bytes that work of the stream may use. The block
// is the smallest idle one that fits, cut to size, or else of a new segment. Where the
// driver refuses one, idle segments are returned and it is asked once more; its second
// error is the caller's.
func (p *Pool) Take(bytes int64, stream int) (*Block, error) {
	size := (max(bytes, 1) + grain - 1) / grain * grain
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
	want := &Block{Size: size, Stream: stream, small: size <= smallMost, Segment: -1}
	at, _ := slices.BinarySearchFunc(p.idle, want, order)
	if at < len(p.idle) {
		if b := p.idle[at]; b.small == want.small && b.Stream == stream && p.fits(b.Size, size) {
			p.idle = slices.Delete(p.idle, at, at+1)
			return b, nil
		}
	}
	return p.grow(want)
}

// fits says that MaxSplit lets a request have a block.
func (p *Pool) fits(block, size int64) bool {
	switch {
	case p.set.MaxSplit == 0:
		return true
	case size < p.set.MaxSplit:
		return block < p.set.MaxSplit
	}
	return block < size+oversize
}

// grow makes a segment for want, which becomes its block.
func (p *Pool) grow(want *Block) (*Block, error) {
	switch {
	case want.small:
		want.whole = smallWhole
	case want.Size < mediumMost:
		want.whole = mediumWhole
	default:
		want.whole = (want.Size + largeGrain - 1) / largeGrain * largeGrain
	}
	err := p.driver.Map(p.next, want.whole)
	if err != nil {
		if e := p.Trim(); e != nil {
			return nil, e
		}
		if err = p.driver.Map(p.next, want.whole); err != nil {
			return nil, fmt.Errorf("reserving a segment of %d bytes beside %d: %w", want.whole, p.stats.Reserved, err)
		}
	}
	want.Segment, want.Size = p.next, want.whole
	p.next++
	p.stats.DriverAllocs++
	p.stats.Reserved += want.whole
	p.stats.PeakReserved = max(p.stats.PeakReserved, p.stats.Reserved)
	return want, nil
}

// cut makes the rest of a block beyond size idle, where it is worth it.
func (p *Pool) cut(b *Block, size int64) {
	rest := b.Size - size
	if b.small && rest < grain || !b.small && (rest <= smallMost || p.set.MaxSplit > 0 && size >= p.set.MaxSplit) {
		return
	}
	r := &Block{Segment: b.Segment, Offset: b.Offset + size, Size: rest, Stream: b.Stream, small: b.small, whole: b.whole, prev: b, next: b.next}
	if r.next != nil {
		r.next.prev = r
	}
	b.next, b.Size = r, size
	p.put(r)
}

// put adds a block to the idle ones.
func (p *Pool) put(b *Block) {
	b.idle = true
	at, _ := slices.BinarySearchFunc(p.idle, b, order)
	p.idle = slices.Insert(p.idle, at, b)
}

// drop removes a block from the idle ones.
func (p *Pool) drop(b *Block) {
	at, _ := slices.BinarySearchFunc(p.idle, b, order)
	p.idle = slices.Delete(p.idle, at, at+1)
}

// order sorts idle blocks: best fit is the first that is large enough.
func order(a, b *Block) int {
	switch {
	case a.small != b.small && a.small:
		return 1
	case a.small != b.small:
		return -1
	case a.Stream != b.Stream:
		return a.Stream - b.Stream
	case a.Size != b.Size:
		return sign(a.Size - b.Size)
	case a.Segment != b.Segment:
		return a.Segment - b.Segment
	}
	return sign(a.Offset - b.Offset)
}

func sign(d int64) int {
	switch {
	case d < 0:
		return -1
	case d > 0:
		return 1
	}
	return 0
}

// Give makes a block idle and joins it with idle neighbours of its segment. It must
// have been taken and not been given since.
func (p *Pool) Give(b *Block) {
	p.stats.InUse -= b.Size
	p.stats.Requested -= b.Requested
	if n := b.next; n != nil && n.idle {
		p.drop(n)
		b.Size += n.Size
		if b.next = n.next; b.next != nil {
			b.next.prev = b
		}
	}
	if v := b.prev; v != nil && v.idle {
		p.drop(v)
		v.Size += b.Size
		if v.next = b.next; v.next != nil {
			v.next.prev = v
		}
		b = v
	}
	p.put(b)
}

// Trim returns every segment that is one idle block to the driver.
func (p *Pool) Trim() error {
	kept := p.idle[:0]
	var failed error
	for _, b := range p.idle {
		if b.Size != b.whole || failed != nil {
			kept = append(kept, b)
			continue
		}
		if err := p.driver.Unmap(b.Segment); err != nil {
			failed = fmt.Errorf("returning a segment of %d bytes: %w", b.whole, err)
			kept = append(kept, b)
			continue
		}
		p.stats.DriverFrees++
		p.stats.Reserved -= b.whole
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	return failed
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
