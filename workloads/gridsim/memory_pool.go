package gridsim

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/pool"
)

// pooled is a caching allocator over the device's own, with the rules of
// PyTorch's.
type pooled struct {
	pool  *pool.Pool
	asked requests
	segments
}

// segments are the pool's memory on the device.
type segments struct {
	dev   gpuprof.Device
	below gpuprof.Pool // the device's own, nil for none
	bufs  map[int]gpuprof.Buffer
}

// Map implements pool.Driver.
func (s *segments) Map(segment int, bytes int64) error {
	b, err := allocate(s.dev, bytes/4)
	if err == nil {
		s.bufs[segment] = b
	}
	return err
}

// Unmap implements pool.Driver. Memory that is freed waits in the driver's own
// pool, where it has one: it is trimmed as well, or the device would not get it back.
func (s *segments) Unmap(segment int) error {
	err := s.bufs[segment].Free()
	delete(s.bufs, segment)
	if s.below != nil && err == nil {
		err = s.below.TrimPool()
	}
	return err
}

func newPooled(dev gpuprof.Device, below gpuprof.Pool, maxSplit int64) *pooled {
	p := &pooled{asked: newRequests(), segments: segments{dev: dev, below: below, bufs: map[int]gpuprof.Buffer{}}}
	p.pool = pool.New(pool.Settings{MaxSplit: maxSplit}, &p.segments)
	return p
}

func (p *pooled) take(id blockID, words int64) (block, error) {
	b, err := p.pool.Take(4*words, 0, 0)
	if err != nil {
		return block{}, fmt.Errorf("%s: %w", blockNames[id], err)
	}
	return block{buf: p.bufs[b.Segment], at: int(b.Offset / 4), words: words, id: id, lent: b, number: p.asked.take(4 * words)}, nil
}

func (p *pooled) give(b block) error {
	p.asked.give(b.number)
	p.pool.Give(b.lent.(*pool.Block))
	return nil
}

func (p *pooled) trim() error {
	p.asked.trim()
	return p.pool.Trim()
}

func (p *pooled) counts() counts {
	s := p.pool.Stats()
	return counts{inUse: s.InUse, reserved: s.Reserved, largestIdle: s.LargestIdle, peakInUse: s.PeakInUse, peakReserved: s.PeakReserved,
		allocs: s.DriverAllocs, frees: s.DriverFrees}
}

func (p *pooled) resetPeak() { p.pool.ResetPeak() }

// close frees every segment, in use or not.
func (p *pooled) close() error {
	var errs []error
	for _, k := range slices.Sorted(maps.Keys(p.bufs)) {
		errs = append(errs, p.bufs[k].Free())
	}
	clear(p.bufs)
	return errors.Join(errs...)
}
