package pool

import (
	"cmp"
	"fmt"
	"slices"
)

// endless is the address space of an expandable segment, bytes: more than a device has.
// PyTorch's is 1 1/8 of the device's memory, so that it too never needs a second one.
const endless = 1 << 50

// page is what an expandable segment grows by, bytes.
func (b *Block) page() int64 {
	if b.small {
		return smallWhole
	}
	return mediumWhole
}

// reach is the size that an idle block can grow to where it stands.
func (b *Block) reach() int64 {
	if b.next != nil && b.next.hole {
		return b.Size + b.next.Size
	}
	return b.Size
}

// byPlace sorts holes.
func byPlace(a, b *Block) int {
	if c := lists(a, b); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Offset, b.Offset))
}

// expand backs the first place of an expandable segment that has room for want: holes,
// with the idle block before them.
func (p *Pool) expand(want *Block) (*Block, error) {
	b := p.room(want)
	if b == nil {
		b = &Block{Segment: p.next, Size: endless, Stream: want.Stream, small: want.small, hole: true}
		p.next++
		p.dig(b)
	}
	for b.hole || b.Size < want.Size {
		hole, need := b, want.Size
		if !b.hole {
			hole, need = b.next, want.Size-b.Size
		}
		var err error
		if b, err = p.back(hole, min(need, hole.Size)); err != nil {
			return nil, err
		}
	}
	p.drop(b)
	return b, nil
}

// room is the first block from which on there is free space for want.
func (p *Pool) room(want *Block) *Block {
	first := *want
	first.Segment, first.Offset = -1, -1
	at, _ := slices.BinarySearchFunc(p.holes, &first, byPlace)
	for ; at < len(p.holes) && lists(p.holes[at], want) == 0; at++ {
		p.work++
		from := p.holes[at]
		if from.prev != nil && from.prev.idle {
			from = from.prev
		}
		free := int64(0)
		for b := from; b != nil && (b.idle || b.hole) && free < want.Size; b = b.next {
			free += b.Size
			p.work++
		}
		if free >= want.Size {
			return from
		}
	}
	return nil
}

// back gives the first pages of a hole memory for bytes; it returns the idle block that
// they are in.
func (p *Pool) back(b *Block, bytes int64) (*Block, error) {
	bytes = up(bytes, b.page())
	if err := p.set.Pages.Grow(b.Segment, b.Offset, bytes); err != nil {
		return nil, fmt.Errorf("growing a segment by %d bytes: %w", bytes, err)
	}
	p.fill(b)
	if bytes < b.Size {
		p.dig(b.split(bytes))
	}
	b.hole = false
	p.reserve(bytes)
	b = p.join(b)
	p.put(b)
	return b, nil
}

// dig adds a hole, and fill removes one.
func (p *Pool) dig(b *Block) {
	b.hole, b.idle = true, false
	at, _ := slices.BinarySearchFunc(p.holes, b, byPlace)
	p.insert(&p.holes, at, b)
}

func (p *Pool) fill(b *Block) {
	at, _ := slices.BinarySearchFunc(p.holes, b, byPlace)
	p.remove(&p.holes, at)
}

// trimPages returns the idle pages of expandable segments.
func (p *Pool) trimPages() error {
	p.work += int64(len(p.idle))
	for _, b := range slices.Clone(p.idle) {
		lo, hi := up(b.Offset, b.page()), (b.Offset+b.Size)/b.page()*b.page()
		if lo >= hi {
			continue
		}
		if err := p.set.Pages.Shrink(b.Segment, lo, hi-lo); err != nil {
			return fmt.Errorf("returning %d bytes of a segment: %w", hi-lo, err)
		}
		p.drop(b)
		if before := lo - b.Offset; before > 0 {
			rest := b.split(before)
			p.put(b)
			b = rest
		}
		if b.Size > hi-lo {
			p.put(b.split(hi - lo))
		}
		p.stats.DriverFrees++
		p.stats.Reserved -= hi - lo
		p.bury(b)
	}
	return nil
}

// bury makes a block a hole and joins it with holes beside it; a segment that is one hole
// is given up.
func (p *Pool) bury(b *Block) {
	b.idle, b.hole = false, true
	b = p.join(b)
	if b.prev != nil || b.next != nil {
		p.dig(b)
	}
}

// makeRoom returns idle segments of at least MaxSplit, so that a request of that size
// gets memory: the smallest that is large enough, else the largest ones until they are.
func (p *Pool) makeRoom(want *Block) (freed bool, err error) {
	key := &Block{Size: max(want.Size, p.set.MaxSplit), Stream: want.Stream, small: want.small, Segment: p.set.before()}
	at, _ := slices.BinarySearchFunc(p.idle, key, p.set.order)
	if at < len(p.idle) && lists(p.idle[at], key) == 0 {
		return true, p.returned(at)
	}
	sum := int64(0)
	for at--; at >= 0 && sum < key.Size && lists(p.idle[at], key) == 0 && p.idle[at].Size >= p.set.MaxSplit; at-- {
		sum += p.idle[at].Size
		if err := p.returned(at); err != nil {
			return false, err
		}
	}
	return sum >= key.Size, nil
}

// returned releases an idle block, which is never cut: it is a whole segment.
func (p *Pool) returned(at int) error {
	b := p.idle[at]
	if b.Size != b.whole {
		return nil
	}
	p.remove(&p.idle, at)
	return p.release(b)
}
