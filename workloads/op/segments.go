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

// Segments are the memory of a caching allocator on a device; they implement pool.Driver.
type Segments struct {
	dev   device.Device
	below device.Pool
	bufs  map[int]device.Buffer
}

// NewSegments returns no segments yet. below is the device's own pool, nil for none.
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

// Unmap implements pool.Driver. Memory that is freed waits in the driver's own
// pool, where it has one: it is trimmed as well, or the device would not get it back.
func (s *Segments) Unmap(segment int) error {
	err := s.bufs[segment].Free()
	delete(s.bufs, segment)
	if s.below != nil && err == nil {
		err = s.below.TrimPool()
	}
	return err //nolint:wrapcheck // the device says what it freed
}

// Of is the buffer in which a block lies, from its Offset on.
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
