package pool

import "fmt"

// endless is the address space of an expandable segment, bytes: larger than any device's memory, so that there is never
// a second segment. PyTorch reserves 1 1/8 of the device's memory, with the same effect.
const endless = 1 << 50

// reachableSize returns the size that an idle block can grow to in place.
func (b *Block) reachableSize() int64 {
	if b.next != nil && b.next.hole {
		return b.Size + b.next.Size
	}
	return b.Size
}

// expandSegment gets memory for the holes in the first range of adjacent holes and idle blocks that is large enough for
// want. It returns the idle block of that range.
func (p *Pool) expandSegment(want *Block) (*Block, error) {
	b := p.findRoom(want)
	if b == nil {
		b = &Block{Segment: p.next, Size: endless, Stream: want.Stream, of: want.of, hole: true, number: p.nextNumber()}
		p.next++
		p.addHole(b)
	}
	for b.hole || b.Size < want.Size {
		hole, need := b, want.Size
		if !b.hole {
			hole, need = b.next, want.Size-b.Size
		}
		var err error
		if b, err = p.mapHole(hole, min(need, hole.Size)); err != nil {
			return nil, err
		}
	}
	b.of.idle.drop(b)
	return b, nil
}

// findRoom returns the first block of the first range of adjacent holes and idle blocks that is large enough for want.
func (p *Pool) findRoom(want *Block) *Block {
	holes := &want.of.holes
	first := *want
	first.Segment, first.Offset = -1, -1
	for at := holes.find(&first); ; at = holes.next(at) {
		p.work++
		from := holes.get(at)
		if from == nil || from.Stream != want.Stream {
			return nil
		}
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
}

// mapHole gets memory for the first bytes of a hole, in whole pages, and returns the idle block that contains them.
func (p *Pool) mapHole(b *Block, bytes int64) (*Block, error) {
	bytes = roundUp(bytes, p.set.pageSize(b.of.small))
	if err := p.set.Pages.Grow(b.Segment, b.Offset, bytes); err != nil {
		return nil, fmt.Errorf("growing a segment by %d bytes: %w", bytes, err)
	}
	b.of.holes.drop(b)
	if bytes < b.Size {
		rest := p.splitBlock(b, bytes)
		rest.number = p.nextNumber()
		p.addHole(rest)
	}
	b.hole = false
	p.countReserved(bytes)
	b = p.joinNeighbours(b)
	p.addIdle(b)
	return b, nil
}

func (p *Pool) addHole(b *Block) {
	b.hole, b.idle = true, false
	b.of.holes.insert(b)
}

// shrinkBlock returns the whole pages of an idle block to the driver, and makes blocks of the parts before and after
// them.
func (p *Pool) shrinkBlock(b *Block) error {
	page := p.set.pageSize(b.of.small)
	lo, hi := roundUp(b.Offset, page), (b.Offset+b.Size)/page*page
	if lo >= hi {
		return nil
	}
	if err := p.set.Pages.Shrink(b.Segment, lo, hi-lo); err != nil {
		return fmt.Errorf("returning %d bytes of a segment: %w", hi-lo, err)
	}
	b.of.idle.drop(b)
	number := b.number
	if before := lo - b.Offset; before > 0 {
		rest := p.splitBlock(b, before)
		b.number = p.nextNumber()
		p.addIdle(b)
		b = rest
	}
	if b.Size > hi-lo {
		rest := p.splitBlock(b, hi-lo)
		rest.number = p.nextNumber()
		p.addIdle(rest)
	}
	b.number = number
	p.stats.DriverFrees++
	p.stats.Reserved -= hi - lo
	p.makeHole(b)
	return nil
}

// makeHole converts a block to a hole and joins it with neighbouring holes. A segment that is one hole is released.
func (p *Pool) makeHole(b *Block) {
	b.idle, b.hole = false, true
	b = p.joinNeighbours(b)
	if b.prev != nil || b.next != nil {
		p.addHole(b)
	}
}
