package pool

// Part is a part of a segment that a pool begins with: Size bytes, of which a block that
// is Taken asked for Requested.
type Part struct {
	Size, Requested int64
	Taken           bool
}

// Adopt makes a segment that is there before the first Take, as a recording that begins
// late finds it. Its parts cover it in the order of their offsets. The driver gives it no
// memory, and it counts as no call. The blocks that are taken are returned in order.
func (p *Pool) Adopt(base uint64, stream, pool int, parts []Part) (segment int, taken []*Block) {
	var whole int64
	for _, part := range parts {
		whole += part.Size
	}
	of := p.shelf(smallMost+1, pool)
	if whole == smallWhole {
		of = p.shelf(0, pool)
	}
	segment, p.next = p.next, p.next+1
	var last *Block
	at := int64(0)
	for _, part := range parts {
		b := &Block{Segment: segment, Offset: at, Size: part.Size, Stream: stream, of: of, whole: whole, base: base, number: p.numbered(), prev: last}
		if last != nil {
			last.next = b
		}
		last = b
		at += part.Size
		if !part.Taken {
			p.put(b)
			continue
		}
		b.Requested = part.Requested
		p.stats.InUse += b.Size
		p.stats.Requested += b.Requested
		taken = append(taken, b)
	}
	p.stats.Reserved += whole
	p.stats.PeakInUse, p.stats.PeakReserved = max(p.stats.PeakInUse, p.stats.InUse), max(p.stats.PeakReserved, p.stats.Reserved)
	return segment, taken
}
