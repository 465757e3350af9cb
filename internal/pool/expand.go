package pool

import "fmt"

// endless is the address space of an expandable segment, bytes: more than a device has.
// PyTorch's is 1 1/8 of the device's memory, so that it too never needs a second one.
const endless = 1 << 50

// reach is the size that an idle block can grow to where it stands.
func (b *Block) reach() int64 {
	if b.next != nil && b.next.hole {
		return b.Size + b.next.Size
	}
	return b.Size
}

// expand backs the first place of an expandable segment that has room for want: holes,
// with the idle block before them.
func (p *Pool) expand(want *Block) (*Block, error) {
	b := p.room(want)
	if b == nil {
		b = &Block{Segment: p.next, Size: endless, Stream: want.Stream, of: want.of, hole: true, number: p.numbered()}
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
	b.of.idle.drop(b)
	return b, nil
}

// room is the first block from which on there is free space for want.
func (p *Pool) room(want *Block) *Block {
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

// back gives the first pages of a hole memory for bytes; it returns the idle block that
// they are in.
func (p *Pool) back(b *Block, bytes int64) (*Block, error) {
	bytes = up(bytes, p.set.page(b.of.small))
	if err := p.set.Pages.Grow(b.Segment, b.Offset, bytes); err != nil {
		return nil, fmt.Errorf("growing a segment by %d bytes: %w", bytes, err)
	}
	b.of.holes.drop(b)
	if bytes < b.Size {
		rest := p.split(b, bytes)
		rest.number = p.numbered()
		p.dig(rest)
	}
	b.hole = false
	p.reserve(bytes)
	b = p.join(b)
	p.put(b)
	return b, nil
}

// dig adds a hole.
func (p *Pool) dig(b *Block) {
	b.hole, b.idle = true, false
	b.of.holes.insert(b)
}

// shrink returns the whole pages of an idle block of an expandable segment. The parts
// beside them are new blocks.
func (p *Pool) shrink(b *Block) error {
	page := p.set.page(b.of.small)
	lo, hi := up(b.Offset, page), (b.Offset+b.Size)/page*page
	if lo >= hi {
		return nil
	}
	if err := p.set.Pages.Shrink(b.Segment, lo, hi-lo); err != nil {
		return fmt.Errorf("returning %d bytes of a segment: %w", hi-lo, err)
	}
	b.of.idle.drop(b)
	number := b.number
	if before := lo - b.Offset; before > 0 {
		rest := p.split(b, before)
		b.number = p.numbered()
		p.put(b)
		b = rest
	}
	if b.Size > hi-lo {
		rest := p.split(b, hi-lo)
		rest.number = p.numbered()
		p.put(rest)
	}
	b.number = number
	p.stats.DriverFrees++
	p.stats.Reserved -= hi - lo
	p.bury(b)
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
