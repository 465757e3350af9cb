package pool

import "fmt"

// Trim returns memory to the driver: whole idle segments, and idle pages of expandable segments, of pool 0 and of the
// Releaser's pools.
func (p *Pool) Trim() error {
	p.shelfFor(0, 0)
	for _, of := range p.shelves[0] {
		if err := p.emptyShelf(of); err != nil {
			return err
		}
	}
	r, ok := p.driver.(Releaser)
	for ok {
		var pool int
		if pool, ok = r.Released(); !ok {
			break
		}
		if err := p.Return(pool); err != nil {
			return err
		}
	}
	return nil
}

// Return returns the idle memory of a pool other than 0 to the driver, first the segments of small requests. Trim
// returns pool 0 in another order.
func (p *Pool) Return(pool int) error {
	p.shelfFor(0, pool)
	for _, of := range []*shelf{p.shelves[pool][1], p.shelves[pool][0]} {
		if err := p.emptyShelf(of); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pool) emptyShelf(of *shelf) error {
	for _, b := range of.idle.blocks() {
		var err error
		if p.set.Pages != nil {
			err = p.shrinkBlock(b)
		} else {
			err = p.returnSegment(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// returnSegment returns an idle block to the driver if it is a whole segment.
func (p *Pool) returnSegment(b *Block) error {
	if b.Size != b.whole {
		return nil
	}
	if err := p.driver.Unmap(b.Segment); err != nil {
		return fmt.Errorf("returning a segment of %d bytes: %w", b.whole, err)
	}
	b.of.idle.drop(b)
	p.stats.DriverFrees++
	p.stats.Reserved -= b.whole
	return nil
}

// collectUnused returns idle segments of large requests in pool 0 while the reserved memory exceeds the fraction
// Collect of Allowed. Each round returns the segments that were idle for at least the mean age, counted in searches
// (garbage_collect_cached_blocks of c10/cuda/CUDACachingAllocator.cpp).
func (p *Pool) collectUnused() error {
	most := int64(p.set.Collect * float64(p.set.Allowed))
	excess := p.stats.Reserved - most
	if p.set.Allowed == 0 || p.set.Collect <= 0 || excess <= 0 || p.set.Pages != nil {
		return nil
	}
	of := p.shelfFor(mediumWhole, 0)
	var whole []*Block
	ages := 0
	for _, b := range of.idle.blocks() {
		if b.Size == b.whole {
			whole = append(whole, b)
			ages += of.searches - b.since
		}
	}
	for freed := true; excess > 0 && freed && len(whole) > 0; {
		least := float64(ages) / float64(len(whole))
		freed = false
		kept := whole[:0]
		p.work += int64(len(whole))
		for _, b := range whole {
			age := of.searches - b.since
			if float64(age) < least {
				kept = append(kept, b)
				continue
			}
			if err := p.returnSegment(b); err != nil {
				return err
			}
			freed = true
			excess -= b.whole
			ages -= age
		}
		whole = kept
	}
	return nil
}

// makeRoom returns idle segments of at least MaxSplit to the driver, to make room for want: the smallest sufficient
// segment, or else the largest ones until they suffice.
func (p *Pool) makeRoom(want *Block) (freed bool, err error) {
	if p.set.Pages != nil {
		return false, nil
	}
	idle := &want.of.idle
	key := &Block{Size: max(want.Size, p.set.MaxSplit), Stream: want.Stream, Offset: -1}
	at := idle.find(key)
	if b := p.usableAt(idle, at, want); b != nil {
		return true, p.returnSegment(b)
	}
	var large []*Block
	sum := int64(0)
	for sum < key.Size {
		var ok bool
		if at, ok = idle.previous(at); !ok {
			break
		}
		b := p.usableAt(idle, at, want)
		if b == nil || b.Size < p.set.MaxSplit {
			break
		}
		large = append(large, b)
		sum += b.Size
		p.work++
	}
	for _, b := range large {
		if err := p.returnSegment(b); err != nil {
			return false, err
		}
	}
	return sum >= key.Size, nil
}
