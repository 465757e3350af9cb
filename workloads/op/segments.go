package op

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/pool"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Segments implements pool.Driver: it provides device memory to a caching allocator.
type Segments struct {
	dev   device.Device
	below device.Pool
	bufs  map[int]device.Buffer
}

// NewSegments returns an empty Segments. The argument below is the driver's own memory pool, nil if it has none.
func NewSegments(dev device.Device, below device.Pool) *Segments {
	return &Segments{dev: dev, below: below, bufs: map[int]device.Buffer{}}
}

// Map implements pool.Driver.
func (s *Segments) Map(segment int, bytes int64) error {
	if bytes > math.MaxInt {
		return gpuprof.Errorf(gpuprof.ErrMemory, "allocating %d bytes: beyond the address space", bytes).WithFix("use a smaller model or batch")
	}
	b, err := s.dev.Alloc(int(bytes), device.OnDevice)
	if err == nil {
		s.bufs[segment] = b
	}
	return err //nolint:wrapcheck // the device says what it was asked for
}

// Unmap implements pool.Driver. It also trims the driver's own pool, which otherwise would keep the freed memory.
func (s *Segments) Unmap(segment int) error {
	err := s.bufs[segment].Free()
	delete(s.bufs, segment)
	if s.below != nil && err == nil {
		err = s.below.TrimPool()
	}
	return err //nolint:wrapcheck // the device says what it freed
}

// Of returns the buffer that contains a block of the allocator; the block starts at its Offset in the buffer.
func (s *Segments) Of(b *pool.Block) device.Buffer { return s.bufs[b.Segment] }

// Free frees every segment, in use or not.
func (s *Segments) Free() error {
	var errs []error
	for _, k := range slices.Sorted(maps.Keys(s.bufs)) {
		errs = append(errs, s.bufs[k].Free())
	}
	clear(s.bufs)
	return errors.Join(errs...)
}
