package gruflow

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// pool is a caching allocator over a device's own, as deep-learning frameworks
// have one: a block that is given back stays reserved and serves the next
// request of its size, so that a warm step allocates nothing. All blocks are
// used in the order of one stream, so a block may be taken again as soon as
// the launches that use it are enqueued.
type pool struct {
	dev  gpuprof.Device
	idle []gpuprof.Buffer // by size
	busy []gpuprof.Buffer

	reserved, inUse int64 // bytes of all blocks, of those taken
	peak            int64 // most bytes in use since the last reset
	mostReserved    int64
}

// poolGrain rounds sizes up, so that nearly equal requests share blocks.
const poolGrain = 512

func poolSize(bytes int64) int64 { return (max(bytes, 1) + poolGrain - 1) / poolGrain * poolGrain }

// take returns a block of at least bytes: the smallest idle one that is not
// more than twice too large, else a new one.
func (p *pool) take(bytes int64) (gpuprof.Buffer, error) {
	size := poolSize(bytes)
	var b gpuprof.Buffer
	for i, idle := range p.idle {
		if n := int64(idle.Len()); n >= size {
			if n <= 2*size {
				b = idle
				p.idle = slices.Delete(p.idle, i, i+1)
			}
			break
		}
	}
	if b == nil {
		var err error
		if b, err = p.dev.Alloc(int(size), gpuprof.OnDevice); err != nil {
			return nil, fmt.Errorf("allocating scratch memory: %w", err)
		}
		p.reserved += size
		p.mostReserved = max(p.mostReserved, p.reserved)
	}
	p.busy = append(p.busy, b)
	p.inUse += int64(b.Len())
	p.peak = max(p.peak, p.inUse)
	return b, nil
}

// give makes a block idle.
func (p *pool) give(b gpuprof.Buffer) {
	i := slices.Index(p.busy, b)
	p.busy = slices.Delete(p.busy, i, i+1)
	p.inUse -= int64(b.Len())
	at := 0
	for at < len(p.idle) && p.idle[at].Len() < b.Len() {
		at++
	}
	p.idle = slices.Insert(p.idle, at, b)
}

// trim gives the idle blocks back to the device, which waits for work in
// flight first.
func (p *pool) trim() error {
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		size := int64(p.idle[last].Len())
		if err := p.idle[last].Free(); err != nil {
			return fmt.Errorf("freeing scratch memory: %w", err)
		}
		p.reserved -= size
		p.idle = p.idle[:last]
	}
	return nil
}

// resetPeak begins a new measurement of the peak.
func (p *pool) resetPeak() { p.peak = p.inUse }

// close frees every block.
func (p *pool) close() error {
	p.idle = append(p.idle, p.busy...)
	p.busy, p.inUse = nil, 0
	return p.trim()
}
