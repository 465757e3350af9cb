package host

import (
	"fmt"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Buffer is memory of a host device, 64-byte aligned. Its place decides only how copies are counted.
type Buffer struct {
	dev   *Device
	id    int
	place device.Place
	size  int
	mem   []byte // nil once freed
	whole []byte // the arena's memory, at least one byte
}

// Place implements device.Buffer.
func (b *Buffer) Place() device.Place { return b.place }

// Len implements device.Buffer.
func (b *Buffer) Len() int { return b.size }

// Bytes returns the buffer's memory, nil after Free. A view from before Free must not be used later.
func (b *Buffer) Bytes() []byte { return b.mem }

// Addr returns the address of the first byte; 0 after Free.
func (b *Buffer) Addr() uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b.mem))))
}

func (b *Buffer) String() string {
	return fmt.Sprintf("buffer %d (%s, %s)", b.id, b.place, gpuprof.FormatBytes(float64(b.size)))
}

// Free returns the memory. Like cuMemFree, it first waits for all work enqueued so far, which may use the buffer.
func (b *Buffer) Free() error {
	if b.mem == nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "freeing %s on host: it is already freed", b).WithFix("free each buffer once")
	}
	b.dev.drain()
	return b.dev.releaseBuffer(b)
}

// Alloc implements device.Device. Memory counts device memory, HostMemory pinned and pageable memory; all share one
// limit, because they share one memory.
func (d *Device) Alloc(bytes int, p device.Place) (device.Buffer, error) {
	if d.closed {
		return nil, errClosed("allocating")
	}
	if bytes < 0 || p > device.Pageable {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage,
			"allocating %d bytes of %s memory on host: ask for 0 or more bytes of device, pinned or pageable memory", bytes, p)
	}
	if free := d.availableBytes(); int64(bytes) > free {
		return nil, gpuprof.Errorf(gpuprof.ErrMemory,
			"allocating %s of %s memory on host: %s available", gpuprof.FormatBytes(float64(bytes)), p, gpuprof.FormatBytes(float64(free))).WithFix("reduce batch, edges or flows")
	}
	whole, err := d.arena.allocate(max(bytes, 1))
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrMemory, "allocating %s of %s memory on host: %w", gpuprof.FormatBytes(float64(bytes)), p, err).WithFix("reduce batch, edges or flows")
	}
	d.lastBuffer++
	b := &Buffer{dev: d, id: d.lastBuffer, place: p, size: bytes, mem: whole[:bytes:bytes], whole: whole}
	d.buffers[b] = struct{}{}
	d.usageOf(p).add(int64(bytes))
	d.meter.Allocations++
	return b, nil
}

func (d *Device) releaseBuffer(b *Buffer) error {
	delete(d.buffers, b)
	d.usageOf(b.place).add(-int64(b.size))
	whole := b.whole
	b.mem, b.whole = nil, nil
	if err := d.arena.free(whole); err != nil {
		return gpuprof.Errorf(gpuprof.ErrDevice, "freeing %s on host: %w", b, err)
	}
	return nil
}

type usage struct{ now, peak int64 }

func (u *usage) add(bytes int64) {
	u.now += bytes
	u.peak = max(u.peak, u.now)
}

func (d *Device) usageOf(p device.Place) *usage {
	if p == device.OnDevice {
		return &d.deviceUse
	}
	return &d.hostUse
}

func (d *Device) availableBytes() int64 {
	if d.closed {
		return 0
	}
	return max(0, d.limit-d.deviceUse.now-d.hostUse.now)
}

// Memory implements device.Device for device memory.
func (d *Device) Memory() device.Memory {
	return device.Memory{InUse: d.deviceUse.now, Peak: d.deviceUse.peak, Available: d.availableBytes()}
}

// HostMemory counts pinned and pageable buffers.
func (d *Device) HostMemory() device.Memory {
	return device.Memory{InUse: d.hostUse.now, Peak: d.hostUse.peak, Available: d.availableBytes()}
}

// checkBuffer returns b as a live buffer of d, or the reason why d cannot use it.
func (d *Device) checkBuffer(b device.Buffer) (*Buffer, gpuprof.Unfit) {
	mine, ok := b.(*Buffer)
	switch {
	case b == nil || ok && mine == nil:
		return nil, gpuprof.Unfit{Why: "is not set", Fix: "give it a buffer"}
	case !ok || mine.dev != d:
		return nil, gpuprof.Unfit{Why: "belongs to another device", Fix: "allocate it on this one"}
	case mine.mem == nil:
		return nil, gpuprof.Unfit{Why: "is " + mine.String() + ", which is freed", Fix: "free it after its last use"}
	}
	return mine, gpuprof.Unfit{}
}
