package cuda

import (
	"context"
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

const (
	ceilingTries   = 4
	largestCopy    = 1 << 30
	leastRegion    = 4 // smallest region, in multiples of the last-level cache; a smaller one would measure the cache
	cacheRow       = 16
	productTile    = 128
	largestProduct = 8192
	longEnough     = 5e6 // ns: much longer than a launch or an event tick
	longChain      = 5e5 // ns: likewise, for a kernel of multiply-adds alone
	launchRow      = 200
)

// Ceilings implements device.Device. A call takes the best of four runs for each rate, timed by events, and returns the
// best of all calls. The data are random. Meter counts none of this work.
//
// Memory rates use regions of sixteen times the last-level cache, at most 1 GiB and a quarter of the free memory.
// Kernels copy, read and write them; for copies the faster of kernel and driver counts. These rates stay unmeasured if
// a region is smaller than four times the cache. The cache rate is the fastest of the three kernels, launched
// repeatedly within a half and an eighth of the cache.
//
// Matrix products are square: fp32 by cuBLAS without TF32, or else by the device's own kernel; tf32, bf16 and fp16 by
// cuBLAS or not at all. The side doubles from 256 until a product takes 5 ms, up to 8192. FP64FlopsPerS is the rate of
// multiply-adds in registers.
func (d *Device) Ceilings(ctx context.Context) (gpuprof.Ceilings, error) {
	const doing = "measuring peak rates"
	if err := d.enter(doing); err != nil {
		return gpuprof.Ceilings{}, err
	}
	defer d.leave()
	for _, s := range d.streams {
		if err := s.wait(); err != nil {
			return gpuprof.Ceilings{}, fmt.Errorf("%s: %w", doing, err)
		}
	}
	m := &streamTimer{d: d, ctx: ctx}
	defer m.close()
	var c gpuprof.Ceilings
	for _, measure := range []func(*gpuprof.Ceilings) error{m.memoryRates, m.productRates, m.doubleRate, m.launchTime} {
		if err := measure(&c); err != nil {
			return gpuprof.Ceilings{}, fmt.Errorf("%s: %w", doing, err)
		}
	}
	if d.ceilings != nil {
		c = c.Best(*d.ceilings)
	}
	d.ceilings = &c
	return c, nil
}

// streamTimer times work on the device's own stream, which Meter does not count.
type streamTimer struct {
	d        *Device
	ctx      context.Context
	from, to eventHandle
	frees    []func() error
}

func (m *streamTimer) close() {
	for _, h := range []eventHandle{m.from, m.to} {
		if h != 0 {
			m.d.drv.EventDestroy(h)
		}
	}
	m.freeScratch()
}

// freeScratch frees all scratch memory. The work that used it must be done.
func (m *streamTimer) freeScratch() {
	for _, f := range m.frees {
		_ = f() // a failure loses the device; the next call returns it
	}
	m.frees = nil
}

func (m *streamTimer) allocateScratch(n uintptr) (devicePtr, error) {
	p, free, err := m.d.allocateScratch(n, "allocating scratch memory")
	if err == nil {
		m.frees = append(m.frees, free)
	}
	return p, err
}

// timeBest returns the shortest time of work in ns, after one warm-up run.
func (m *streamTimer) timeBest(tries int, work func(streamHandle) Result) (float64, error) {
	d := m.d
	if m.from == 0 {
		if err := d.check(firstFailure(d.drv.EventCreate(&m.from, 0), d.drv.EventCreate(&m.to, 0)), "making an event"); err != nil {
			return 0, err
		}
	}
	best := 0.0
	for try := range tries + 1 {
		if err := m.ctx.Err(); err != nil {
			return 0, err
		}
		r := firstFailure(d.drv.EventRecord(m.from, d.own), work(d.own), d.drv.EventRecord(m.to, d.own), d.drv.StreamSync(d.own))
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

// fillRandom fills memory with random numbers and waits, so that freeing is safe. bytes is a multiple of 4.
func (m *streamTimer) fillRandom(to devicePtr, bytes int64, seed int) error {
	kernel, err := m.d.loadInstrument("ceiling_random")
	if err != nil {
		return err
	}
	var a device.Args
	setPointers(&a, to)
	a.SetInt(1, seed)
	return m.d.check(firstFailure(kernel.enqueue(m.d.own, int(bytes/4), &a), m.d.drv.StreamSync(m.d.own)), "filling memory")
}

func (m *streamTimer) allocatePair(size int64) (x, y devicePtr, err error) {
	if x, err = m.allocateScratch(uintptr(size)); err != nil {
		return 0, 0, err
	}
	if y, err = m.allocateScratch(uintptr(size)); err != nil {
		return 0, 0, err
	}
	if err = m.fillRandom(x, size, 1); err == nil {
		err = m.fillRandom(y, size, 2)
	}
	return x, y, err
}

// memoryRates measures reads, writes and copies in memory and in the cache.
func (m *streamTimer) memoryRates(c *gpuprof.Ceilings) error {
	d := m.d
	defer m.freeScratch()
	cache := d.info.CacheBytes
	free, err := d.freeBytes("asking for free memory")
	if err != nil {
		return err
	}
	size := min(max(16*cache, 16<<20), largestCopy, free/4) &^ 4095
	if size < 4096 {
		return gpuprof.Errorf(gpuprof.ErrMemory, "%s of device memory available", gpuprof.FormatBytes(float64(free))).WithFix("free some")
	}
	x, y, err := m.allocatePair(size)
	if err != nil {
		return err
	}
	if size >= leastRegion*cache {
		byDriver, err := m.timeBest(ceilingTries, func(s streamHandle) Result { return d.drv.CopyOnDev(y, x, uintptr(size), s) })
		if err != nil {
			return err
		}
		copied, read, written, err := m.measureKernelRates(y, x, size, 1)
		if err != nil {
			return err
		}
		c.CopyBytesPerS, c.ReadBytesPerS, c.WriteBytesPerS = max(copied, 2*float64(size)/byDriver*1e9), read, written
	}
	for _, part := range []int64{2, 8} {
		within := min(size, max(cache/part, 4096)) &^ 4095
		copied, read, written, err := m.measureKernelRates(y, x, within/2&^15, cacheRow)
		if err != nil {
			return err
		}
		c.CacheBytesPerS = max(c.CacheBytesPerS, copied, read, written)
	}
	return nil
}

// measureKernelRates measures how fast kernels copy, read and write size bytes, in bytes/s. The argument row is the
// number of launches in a timed run.
func (m *streamTimer) measureKernelRates(to, from devicePtr, size int64, row int) (copied, read, written float64, err error) {
	d := m.d
	sink, err := m.allocateScratch(16)
	if err != nil {
		return 0, 0, 0, err
	}
	var args device.Args
	for _, k := range []struct {
		name  string
		bytes float64
		rate  *float64
		aim   func()
	}{
		{"ceiling_copy", 2, &copied, func() { setPointers(&args, to, from) }},
		// The kernel stores its result only if the result is 1. It never is: all words of ceiling_random have more bits set.
		{"flush_read", 1, &read, func() { setPointers(&args, from, sink); args.SetInt(2, 1) }},
		{"flush_write", 1, &written, func() { setPointers(&args, to); args.SetInt(1, 0x3f5a3fa5) }},
	} {
		kernel, err := d.loadInstrument(k.name)
		if err != nil {
			return 0, 0, 0, err
		}
		k.aim()
		ns, err := m.timeBest(ceilingTries, func(s streamHandle) Result {
			for range row {
				if r := kernel.enqueue(s, int(size/16), &args); r != success {
					return r
				}
			}
			return success
		})
		if err != nil {
			return 0, 0, 0, err
		}
		*k.rate = k.bytes * float64(size) * float64(row) / ns * 1e9
	}
	return copied, read, written, nil
}

// launchTime measures the seconds per launch of empty kernels, launched one after the other on a stream.
func (m *streamTimer) launchTime(c *gpuprof.Ceilings) error {
	kernel, err := m.d.loadInstrument("null")
	if err != nil {
		return err
	}
	var args device.Args
	ns, err := m.timeBest(ceilingTries, func(s streamHandle) Result {
		for range launchRow {
			if r := kernel.enqueue(s, 1, &args); r != success {
				return r
			}
		}
		return success
	})
	c.LaunchS = ns / launchRow * 1e-9
	return err
}

// doubleRate measures float64 multiply-adds, in chains long enough for the timer.
func (m *streamTimer) doubleRate(c *gpuprof.Ceilings) error {
	defer m.freeScratch()
	kernel, err := m.d.loadInstrument("ceiling_fma64")
	if err != nil {
		return err
	}
	sink, err := m.allocateScratch(16)
	if err != nil {
		return err
	}
	var args device.Args
	setPointers(&args, sink)
	threads := 2048 * m.d.info.Cores
	for steps := 4; ; steps *= 4 {
		args.SetInt(1, steps)
		ns, err := m.timeBest(1, func(s streamHandle) Result { return kernel.enqueue(s, threads, &args) })
		if err != nil {
			return err
		}
		if ns < longChain && steps < 1<<20 {
			continue
		}
		if ns, err = m.timeBest(ceilingTries, func(s streamHandle) Result { return kernel.enqueue(s, threads, &args) }); err != nil {
			return err
		}
		c.FP64FlopsPerS = 16 * float64(steps) * float64(threads) / ns * 1e9
		return nil
	}
}

// productRates measures the rate of a matrix product in each precision that the device offers. A precision that the
// library refuses stays unmeasured; a device failure is an error.
func (m *streamTimer) productRates(c *gpuprof.Ceilings) (err error) {
	if c.FlopsPerS, err = m.productRate("gemm_fp32", 4); err != nil {
		return err
	}
	for _, p := range []struct {
		lib   string
		bytes int64
		rate  *float64
	}{{"gemm_tf32", 4, &c.TF32FlopsPerS}, {"gemm_bf16", 2, &c.BF16FlopsPerS}, {"gemm_fp16", 2, &c.FP16FlopsPerS}} {
		if *p.rate, err = m.productRate(p.lib, p.bytes); err != nil {
			if m.ctx.Err() != nil || m.d.lost != nil {
				return err
			}
			*p.rate = 0
		}
		m.freeScratch()
	}
	return nil
}

// productRate doubles the side of a product until it takes long enough, then times it. element is the number of bytes
// per operand value.
func (m *streamTimer) productRate(lib string, element int64) (float64, error) {
	defer m.freeScratch()
	for size := int64(256); ; size *= 2 {
		work, err := m.prepareProduct(lib, size, element)
		if err != nil {
			return 0, err
		}
		ns, err := m.timeBest(1, work)
		if err != nil {
			return 0, err
		}
		if ns < longEnough && size < largestProduct && m.d.Memory().Available > 16*4*size*size {
			m.freeScratch()
			continue
		}
		if ns, err = m.timeBest(ceilingTries, work); err != nil {
			return 0, err
		}
		n := float64(size)
		return 2 * n * n * n / ns * 1e9, nil
	}
}

// prepareProduct prepares c = a b for random square matrices, by the library or, for fp32, the device's own kernel.
func (m *streamTimer) prepareProduct(lib string, size, element int64) (func(streamHandle) Result, error) {
	d := m.d
	var mats [3]devicePtr
	for i := range mats {
		p, err := m.allocateScratch(uintptr(4 * size * size))
		if err != nil {
			return nil, err
		}
		if i < 2 {
			if err := m.fillRandom(p, element*size*size, i+1); err != nil {
				return nil, err
			}
		}
		mats[i] = p
	}
	var a device.Args
	routine, err := d.libRoutine(&device.Kernel{Name: "gemm", Sig: gemmSig, Lib: lib})
	if err == nil {
		setPointers(&a, mats[0], mats[1], mats[2])
		a.SetInt(3, int(size))
		a.SetInt(4, int(size))
		a.SetF32(5, 1)
		return func(s streamHandle) Result { return routine.enqueue(s, int(size), &a) }, nil
	}
	if lib != "gemm_fp32" {
		return nil, err
	}
	kernel, err := d.loadInstrument("ceiling_product")
	if err != nil {
		return nil, err
	}
	setPointers(&a, mats[2], mats[0], mats[1])
	a.SetInt(3, int(size))
	tiles := int(size/productTile) * int(size/productTile)
	return func(s streamHandle) Result { return kernel.enqueue(s, tiles, &a) }, nil
}
