package cuda

import (
	"errors"
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// makePool makes the device's own memory pool, which keeps freed memory until TrimPool, like PyTorch's allocator. If
// the driver (before 11.2) or the device (some virtual GPUs) has no pools, memory comes from cuMemAlloc.
func (d *Device) makePool() {
	if !d.drv.hasPools() || d.drv.readAttribute(attrPools, d.is.handle) == 0 {
		return
	}
	props := &poolProps{allocType: allocationPinned, locationType: locationDevice, locationID: d.is.handle}
	var pool poolHandle
	if d.drv.PoolCreate(&pool, props) != success {
		return
	}
	keepAll := uint64(math.MaxUint64)
	if d.drv.PoolSet(pool, poolReleaseThreshold, &keepAll) != success {
		d.drv.PoolDestroy(pool)
		return
	}
	d.pool = pool
}

func (d *Device) releasePool() error {
	if d.pool == 0 {
		return nil
	}
	pool := d.pool
	d.pool = 0
	return errors.Join(
		d.checkRelease(d.drv.StreamSync(d.own), "waiting for freed memory"),
		d.checkRelease(d.drv.PoolDestroy(pool), "destroying the memory pool"))
}

// deviceAlloc allocates memory for use by every stream. It waits for the allocation, on the device's own stream, and
// for no other work.
func (d *Device) deviceAlloc(n uintptr) (devicePtr, Result) {
	var p devicePtr
	var r Result
	if d.pool == 0 {
		r = d.drv.MemAlloc(&p, n)
		return p, r
	}
	if r = d.drv.PoolAlloc(&p, n, d.pool, d.own); r != success {
		return 0, r
	}
	r = d.drv.StreamSync(d.own)
	return p, r
}

// deviceFree frees memory that no enqueued work uses.
func (d *Device) deviceFree(p devicePtr) Result {
	if d.pool == 0 || d.lost != nil { // the streams of a dead context run nothing
		return d.drv.MemFree(p)
	}
	return d.drv.PoolFree(p, d.own)
}

// Reserved implements device.Pool: the bytes that the pool holds, used or unused.
func (d *Device) Reserved() int64 {
	if d.pool == 0 || d.closed || d.lost != nil {
		return d.use.now
	}
	var v uint64
	if d.drv.PoolGet(d.pool, poolReservedNow, &v) != success {
		return d.use.now
	}
	return int64(v)
}

// TrimPool implements device.Pool. It waits only for frees that are under way, and does nothing without a pool.
func (d *Device) TrimPool() error {
	const doing = "trimming the memory pool"
	if err := d.enter(doing); err != nil {
		return err
	}
	defer d.leave()
	if d.pool == 0 {
		return nil
	}
	if err := d.check(d.drv.StreamSync(d.own), doing); err != nil {
		return err
	}
	return d.check(d.drv.PoolTrim(d.pool, 0), doing)
}

// ResetPeak implements device.Pool: Memory().Peak restarts at the bytes in use. Like PyTorch, it does not synchronise.
func (d *Device) ResetPeak() error {
	const doing = "resetting the peak of memory use"
	if err := d.enter(doing); err != nil {
		return err
	}
	defer d.leave()
	d.use.peak = d.use.now
	if d.pool == 0 {
		return nil
	}
	for _, attr := range []int32{poolReservedHigh, poolUsedHigh} {
		if err := d.check(d.drv.PoolSet(d.pool, attr, &d.zero), doing); err != nil {
			return err
		}
	}
	return nil
}

var _ device.Pool = (*Device)(nil)
