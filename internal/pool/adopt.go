package pool

// Part is a block of a segment that exists before the first Take. If it is Taken, its request asked for Requested
// bytes.
type Part struct {
	Size, Requested int64
	Taken           bool
}

// Adopt adds a segment that exists before the first Take, for a recording that starts late. It counts no driver call.
// The parts cover the segment, in order of their offsets. taken has the blocks of Taken parts, in order.
func (p *Pool) Adopt(base uint64, stream, pool int, parts []Part) (segment int, taken []*Block) {
	var whole int64
	for _, part := range parts {
		whole += part.Size
	}
	of := p.shelfFor(smallMost+1, pool)
	if whole == smallWhole {
		of = p.shelfFor(0, pool)
	}
	segment, p.next = p.next, p.next+1
	var last *Block
	at := int64(0)
	for _, part := range parts {
		b := &Block{Segment: segment, Offset: at, Size: part.Size, Stream: stream, of: of, whole: whole, base: base, number: p.nextNumber(), prev: last}
		if last != nil {
			last.next = b
		}
		last = b
		at += part.Size
		if !part.Taken {
			p.addIdle(b)
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
