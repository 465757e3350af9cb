package gridsim

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/pool"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// pooled is a caching allocator over the device's allocator, with the rules of PyTorch's allocator.
type pooled struct {
	pool  *pool.Pool
	asked requests
	at    *op.Segments
}

func newPooled(dev device.Device, below device.Pool, maxSplit int64) *pooled {
	at := op.NewSegments(dev, below)
	return &pooled{asked: newRequests(), at: at, pool: pool.New(pool.Settings{MaxSplit: maxSplit}, at)}
}

func (p *pooled) take(id blockID, words int64) (block, error) {
	b, err := p.pool.Take(4*words, 0, 0)
	if err != nil {
		return block{}, fmt.Errorf("%s: %w", blockNames[id], err)
	}
	return block{buf: p.at.Of(b), at: int(b.Offset / 4), words: words, id: id, handle: b, number: p.asked.recordTake(4 * words)}, nil
}

func (p *pooled) give(b block) error {
	p.asked.recordGive(b.number)
	p.pool.Give(b.handle.(*pool.Block))
	return nil
}

func (p *pooled) trim() error {
	p.asked.recordTrim()
	return p.pool.Trim()
}

func (p *pooled) counts() counts {
	s := p.pool.Stats()
	return counts{inUse: s.InUse, reserved: s.Reserved, largestIdle: s.LargestIdle, peakInUse: s.PeakInUse, peakReserved: s.PeakReserved,
		allocs: s.DriverAllocs, frees: s.DriverFrees}
}

func (p *pooled) resetPeak() { p.pool.ResetPeak() }

// close frees every segment, even those in use.
func (p *pooled) close() error { return p.at.Free() }
