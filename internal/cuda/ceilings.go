package cuda

import (
	"context"
	"fmt"

	"github.com/gpuprof/gpuprof"
)

const (
	ceilingTries   = 10
	largestCopy    = 1 << 30
	productTile    = 128
	largestProduct = 8192
	longEnough     = 5e6 // ns: past any launch cost and event tick
)

// Ceilings implements gpuprof.Device. Both rates are the best of ten runs
// between events and are kept for the device's life.
//
// CopyBytesPerS counts bytes read plus bytes written by copies between two
// regions of sixteen times the last-level cache, at most 1 GiB, by the driver or by a
// kernel, whichever is faster.
//
// FlopsPerS is a square float32 product, by cuBLAS without TF32 where it is
// there and else by a kernel of the device's own, at the first size of 256 and
// its doubles that runs for 5 ms, or 8192.
//
// Nothing of it is counted, and its memory is released before it returns.
func (d *Device) Ceilings(ctx context.Context) (gpuprof.Ceilings, error) {
	const doing = "measuring ceilings"
	if err := d.enter(doing); err != nil {
		return gpuprof.Ceilings{}, err
	}
	defer d.leave()
	if d.ceilings != nil {
		return *d.ceilings, nil
	}
	for _, s := range d.streams {
		if err := s.wait(); err != nil {
			return gpuprof.Ceilings{}, fmt.Errorf("%s: %w", doing, err)
		}
	}
	m := &meterless{d: d, ctx: ctx}
	defer m.close()
	var c gpuprof.Ceilings
	var err error
	if c.CopyBytesPerS, err = m.copyRate(); err == nil {
		c.FlopsPerS, err = m.productRate()
	}
	if err != nil {
		return gpuprof.Ceilings{}, fmt.Errorf("%s: %w", doing, err)
	}
	d.ceilings = &c
	return c, nil
}

// meterless times work on the device's own stream.
type meterless struct {
	d        *Device
	ctx      context.Context
	from, to eventHandle
	frees    []func() error
}

func (m *meterless) close() {
	for _, h := range []eventHandle{m.from, m.to} {
		if h != 0 {
			m.d.drv.EventDestroy(h)
		}
	}
	m.free()
}

// free gives back all scratch memory; the work that used it is done.
func (m *meterless) free() {
	for _, f := range m.frees {
		_ = f() // a failure here loses the device, and the next call tells
	}
	m.frees = nil
}

func (m *meterless) scratch(n uintptr) (devicePtr, error) {
	p, free, err := m.d.scratch(n, "allocating scratch memory")
	if err == nil {
		m.frees = append(m.frees, free)
	}
	return p, err
}

// best is the least time of work in ns, after one run that is not counted.
func (m *meterless) best(tries int, work func(streamHandle) Result) (float64, error) {
	d := m.d
	if m.from == 0 {
		if err := d.check(first(d.drv.EventCreate(&m.from, 0), d.drv.EventCreate(&m.to, 0)), "making an event"); err != nil {
			return 0, err
		}
	}
	best := 0.0
	for try := range tries + 1 {
		if err := m.ctx.Err(); err != nil {
			return 0, err
		}
		r := first(d.drv.EventRecord(m.from, d.own), work(d.own), d.drv.EventRecord(m.to, d.own), d.drv.StreamSync(d.own))
		if r == success {
			r = d.drv.EventElapsed(d.ms, m.from, m.to)
		}
		if err := d.check(r, "timing a run"); err != nil {
			return 0, err
		}
		if ns := max(float64(*d.ms)*1e6, 1); try == 1 || try > 1 && ns < best {
			best = ns
		}
	}
	return best, nil
}

func (m *meterless) copyRate() (float64, error) {
	d := m.d
	size := min(max(16*d.info.CacheBytes, 16<<20), largestCopy, d.Memory().Available/4) &^ 4095
	if size < 4096 {
		return 0, gpuprof.Errorf(gpuprof.ErrMemory, "%s of device memory available; free some", gpuprof.FormatBytes(float64(d.Memory().Available)))
	}
	x, err := m.scratch(uintptr(size))
	if err != nil {
		return 0, err
	}
	y, err := m.scratch(uintptr(size))
	if err != nil {
		return 0, err
	}
	if err := d.check(d.drv.Memset8(x, 1, uintptr(size), d.own), "filling memory"); err != nil {
		return 0, err
	}
	byDriver, err := m.best(ceilingTries, func(s streamHandle) Result { return d.drv.CopyOnDev(y, x, uintptr(size), s) })
	if err != nil {
		return 0, err
	}
	kernel, err := d.instrument("ceiling_copy")
	if err != nil {
		return 0, err
	}
	var a gpuprof.Args
	aim(&a, y, x)
	byKernel, err := m.best(ceilingTries, func(s streamHandle) Result { return kernel.enqueue(s, int(size/16), &a) })
	if err != nil {
		return 0, err
	}
	m.free()
	return 2 * float64(size) / min(byDriver, byKernel) * 1e9, nil
}

// productRate grows the product until it takes long enough, then times it.
func (m *meterless) productRate() (float64, error) {
	for size := 256; ; size *= 2 {
		work, err := m.product(size)
		if err != nil {
			return 0, err
		}
		ns, err := m.best(1, work)
		if err != nil {
			return 0, err
		}
		if ns < longEnough && size < largestProduct && m.d.Memory().Available > int64(16*4*size*size) {
			m.free()
			continue
		}
		if ns, err = m.best(ceilingTries, work); err != nil {
			return 0, err
		}
		n := float64(size)
		return 2 * n * n * n / ns * 1e9, nil
	}
}

// product prepares c = a b for square matrices of ones.
func (m *meterless) product(size int) (func(streamHandle) Result, error) {
	d := m.d
	bytes := uintptr(4 * size * size)
	var mats [3]devicePtr
	for i := range mats {
		p, err := m.scratch(bytes)
		if err != nil {
			return nil, err
		}
		// Bytes of 0x3f make floats of 0.747: ordinary numbers, no zeros.
		if err := d.check(d.drv.Memset8(p, 0x3f, bytes, d.own), "filling matrices"); err != nil {
			return nil, err
		}
		mats[i] = p
	}
	var a gpuprof.Args
	if lib, err := d.libRoutine(&gpuprof.Kernel{Name: "gemm", Sig: gemmSig, Lib: "gemm_fp32"}); err == nil {
		aim(&a, mats[1], mats[2], mats[0])
		a.SetInt(3, size)
		a.SetInt(4, size)
		a.SetF32(5, 1)
		return func(s streamHandle) Result { return lib.enqueue(s, size, &a) }, nil
	}
	kernel, err := d.instrument("ceiling_product")
	if err != nil {
		return nil, err
	}
	aim(&a, mats[0], mats[1], mats[2])
	a.SetInt(3, size)
	tiles := (size / productTile) * (size / productTile)
	return func(s streamHandle) Result { return kernel.enqueue(s, tiles, &a) }, nil
}
