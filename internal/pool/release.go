package pool

import "fmt"

// Trim returns every segment of pool 0, and of those that a Releaser names, that is one
// idle block to the driver; of expandable ones every idle page.
func (p *Pool) Trim() error {
	p.shelf(0, 0)
	for _, of := range p.shelves[0] {
		if err := p.empty(of); err != nil {
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

// Return returns what is idle in a pool other than 0, small requests first, which is not
// Trim's order for pool 0.
func (p *Pool) Return(pool int) error {
	p.shelf(0, pool)
	for _, of := range []*shelf{p.shelves[pool][1], p.shelves[pool][0]} {
		if err := p.empty(of); err != nil {
			return err
		}
	}
	return nil
}

// empty returns what is idle on a shelf.
func (p *Pool) empty(of *shelf) error {
	for _, b := range of.idle.all() {
		var err error
		if p.set.Pages != nil {
			err = p.shrink(b)
		} else {
			err = p.returned(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// returned releases an idle block, if it is a whole segment.
func (p *Pool) returned(b *Block) error {
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

// collect returns whole idle segments of large requests in pool 0, where more is reserved
// than Collect allows: those that were not used for at least the average time, counted in
// searches, again and again until the excess is gone
// (garbage_collect_cached_blocks of c10/cuda/CUDACachingAllocator.cpp).
func (p *Pool) collect() error {
	most := int64(p.set.Collect * float64(p.set.Allowed))
	excess := p.stats.Reserved - most
	if p.set.Allowed == 0 || p.set.Collect <= 0 || excess <= 0 || p.set.Pages != nil {
		return nil
	}
	of := p.shelf(mediumWhole, 0)
	var whole []*Block
	ages := 0
	for _, b := range of.idle.all() {
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
			if err := p.returned(b); err != nil {
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

// makeRoom returns idle segments of at least MaxSplit, so that a request of that size
// gets memory: the smallest that is large enough, else the largest ones until they are.
func (p *Pool) makeRoom(want *Block) (freed bool, err error) {
	if p.set.Pages != nil {
		return false, nil
	}
	idle := &want.of.idle
	key := &Block{Size: max(want.Size, p.set.MaxSplit), Stream: want.Stream, Offset: -1}
	at := idle.find(key)
	if b := p.serves(idle, at, want); b != nil {
		return true, p.returned(b)
	}
	var large []*Block
	sum := int64(0)
	for sum < key.Size {
		var ok bool
		if at, ok = idle.before(at); !ok {
			break
		}
		b := p.serves(idle, at, want)
		if b == nil || b.Size < p.set.MaxSplit {
			break
		}
		large = append(large, b)
		sum += b.Size
		p.work++
	}
	for _, b := range large {
		if err := p.returned(b); err != nil {
			return false, err
		}
	}
	return sum >= key.Size, nil
}
