package cuda

import (
	"cmp"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Copy implements device.Stream. Ranges may overlap. A copy of pageable memory may block while the driver stages it.
func (s *Stream) Copy(dst device.Buffer, dstOff int, src device.Buffer, srcOff, n int) error {
	to, from, err := s.checkCopy(dst, dstOff, src, srcOff, n)
	if err != nil {
		return err
	}
	if s.rec != nil {
		s.rec.items = append(s.rec.items, item{kind: itemCopy, dst: to, dstOff: dstOff, src: from, srcOff: srcOff, n: n})
		return nil
	}
	if n > 0 {
		if r := s.dev.copyOn(s.h, to, dstOff, from, srcOff, n); r != success {
			again := func() Result { return s.dev.copyOn(s.h, to, dstOff, from, srcOff, n) }
			if err := s.dev.retryWithContext(r, again, "copying on stream "+s.name); err != nil {
				return err
			}
		}
	}
	s.dev.meter.CountCopy(to.place, from.place, int64(n))
	return nil
}

func (d *Device) copyOn(h streamHandle, to *Buffer, dstOff int, from *Buffer, srcOff, n int) Result {
	switch {
	case from.place != device.OnDevice:
		return d.drv.CopyToDev(to.ptr+devicePtr(dstOff), unsafe.Add(from.mem, srcOff), uintptr(n), h)
	case to.place != device.OnDevice:
		return d.drv.CopyFromDev(unsafe.Add(to.mem, dstOff), from.ptr+devicePtr(srcOff), uintptr(n), h)
	case to == from && dstOff < srcOff+n && srcOff < dstOff+n && dstOff != srcOff:
		return d.copyOverlapping(h, to.ptr+devicePtr(dstOff), from.ptr+devicePtr(srcOff), uintptr(n))
	}
	return d.drv.CopyOnDev(to.ptr+devicePtr(dstOff), from.ptr+devicePtr(srcOff), uintptr(n), h)
}

// copyOverlapping copies through temporary memory, because the driver does not document the order in which it copies.
func (d *Device) copyOverlapping(h streamHandle, dst, src devicePtr, n uintptr) Result {
	var tmp devicePtr
	if d.pool == 0 {
		r := d.drv.MemAlloc(&tmp, n)
		if r == success {
			r = firstFailure(d.drv.CopyOnDev(tmp, src, n, h), d.drv.CopyOnDev(dst, tmp, n, h))
			r = firstFailure(r, d.drv.StreamSync(h), d.drv.MemFree(tmp))
		}
		return r
	}
	r := d.drv.PoolAlloc(&tmp, n, d.pool, h)
	if r == success {
		r = firstFailure(d.drv.CopyOnDev(tmp, src, n, h), d.drv.CopyOnDev(dst, tmp, n, h), d.drv.PoolFree(tmp, h))
	}
	return r
}

func firstFailure(results ...Result) Result { return cmp.Or(results...) } // success is 0

func (s *Stream) checkCopy(dst device.Buffer, dstOff int, src device.Buffer, srcOff, n int) (to, from *Buffer, err error) {
	if s.closed || s.dev.lost != nil {
		return nil, nil, s.checkUsable("copying on stream " + s.name)
	}
	to, fault := s.dev.checkBuffer(dst)
	if fault != (gpuprof.Unfit{}) {
		return nil, nil, fault.Of("copying %d bytes on stream %s: the destination", n, s.name)
	}
	from, fault = s.dev.checkBuffer(src)
	if fault != (gpuprof.Unfit{}) {
		return nil, nil, fault.Of("copying %d bytes on stream %s: the source", n, s.name)
	}
	return to, from, device.CheckCopy(s.name, to, dstOff, from, srcOff, n)
}
