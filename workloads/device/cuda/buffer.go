package cuda

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

type bufferState uint8

const (
	freed    bufferState = iota
	onHost               // live, not visible to kernels
	onDevice             // live and visible to kernels
)

// Buffer is memory of a CUDA device. Device memory is 256-byte aligned and from the device's own pool. Pinned memory
// has one address on host and device (unified addressing). Pageable memory is outside the Go heap.
type Buffer struct {
	dev   *Device
	id    int
	place device.Place
	state bufferState
	size  int
	ptr   devicePtr      // address for kernels; 0 for pageable memory
	mem   unsafe.Pointer // address for the host; nil for device memory
	whole []byte         // pageable memory as allocated by the system
	// view is a copy of mem for goroutines that access the bytes while the device's goroutine frees the buffer.
	view atomic.Pointer[byte]
}

// Place implements device.Buffer.
func (b *Buffer) Place() device.Place { return b.place }

// Len implements device.Buffer.
func (b *Buffer) Len() int { return b.size }

// Bytes returns the host's view, nil for device memory and after Free. A view from before Free must not be used later.
func (b *Buffer) Bytes() []byte {
	p := b.view.Load()
	if p == nil {
		return nil
	}
	return unsafe.Slice(p, b.size)
}

// Addr returns the address that a kernel receives, for pageable memory the host address, and 0 after Free.
func (b *Buffer) Addr() uint64 {
	if b.state == onHost {
		return uint64(uintptr(b.mem))
	}
	return uint64(b.ptr)
}

func (b *Buffer) String() string {
	return fmt.Sprintf("buffer %d (%s, %s)", b.id, b.place, gpuprof.FormatBytes(float64(b.size)))
}

// Free returns the memory. Like cuMemFree, it first waits for all work enqueued so far on every stream.
func (b *Buffer) Free() error {
	d := b.dev
	if b.state == freed {
		return gpuprof.Errorf(gpuprof.ErrUsage, "freeing %s on CUDA: it is already freed", b).WithFix("free each buffer once")
	}
	if d.lost != nil {
		return d.releaseBuffer(b) // the context is dead and its memory with it
	}
	if err := d.enter("freeing " + b.String()); err != nil {
		return err
	}
	defer d.leave()
	for _, s := range d.streams {
		if err := s.wait(); err != nil {
			return fmt.Errorf("freeing %s on CUDA: %w", b, err)
		}
	}
	return d.releaseBuffer(b)
}

// Alloc implements device.Device. Memory counts and limits device memory only; host memory may take all that the
// system has left.
func (d *Device) Alloc(bytes int, p device.Place) (device.Buffer, error) {
	if err := d.enter("allocating"); err != nil {
		return nil, err
	}
	defer d.leave()
	if bytes < 0 || p > device.Pageable {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage,
			"allocating %d bytes of %s memory on CUDA: ask for 0 or more bytes of device, pinned or pageable memory", bytes, p)
	}
	left, err := d.availableBytes(int64(bytes), p)
	if err != nil {
		return nil, err
	}
	if int64(bytes) > left {
		return nil, newMemoryError(bytes, p, left)
	}
	b := &Buffer{dev: d, id: d.lastBuffer + 1, place: p, size: bytes}
	if err := d.allocateBuffer(b); err != nil {
		return nil, err
	}
	d.lastBuffer++
	d.buffers[b] = struct{}{}
	if p == device.OnDevice {
		d.use.add(int64(bytes))
	}
	d.meter.Allocations++
	return b, nil
}

func newMemoryError(bytes int, p device.Place, left int64) error {
	return gpuprof.Errorf(gpuprof.ErrMemory,
		"allocating %s of %s memory on CUDA: %s available", gpuprof.FormatBytes(float64(bytes)), p, gpuprof.FormatBytes(float64(left))).WithFix("%s", askLess)
}

func (d *Device) allocateBuffer(b *Buffer) error {
	n := max(b.size, 1)
	doing := fmt.Sprintf("allocating %s of %s memory on CUDA", gpuprof.FormatBytes(float64(b.size)), b.place)
	switch b.place {
	case device.OnDevice:
		ptr, r := d.deviceAlloc(uintptr(n))
		if r == errOutOfMemory { // another process took the memory after the check
			left, err := d.freeBytes(doing)
			if err != nil {
				return err
			}
			return newMemoryError(b.size, b.place, left)
		}
		if err := d.check(r, doing); err != nil {
			return err
		}
		b.ptr, b.state = ptr, onDevice
	case device.Pinned:
		if err := d.check(d.drv.HostAlloc(&b.mem, uintptr(n), hostAllocPortable|hostAllocDeviceMap), doing); err != nil {
			return err
		}
		b.ptr, b.state = devicePtr(uintptr(b.mem)), onDevice
	default:
		mem, err := takePages(n)
		if err != nil {
			return gpuprof.Errorf(gpuprof.ErrMemory, "%s: %w", doing, err).WithFix("%s", askLess)
		}
		b.whole, b.mem, b.state = mem, unsafe.Pointer(unsafe.SliceData(mem)), onHost
	}
	b.view.Store((*byte)(b.mem))
	return nil
}

// releaseBuffer frees the memory of b, which no work may use any more.
func (d *Device) releaseBuffer(b *Buffer) error {
	delete(d.buffers, b)
	d.frees++
	ptr, mem, whole := b.ptr, b.mem, b.whole
	b.view.Store(nil)
	b.state, b.ptr, b.mem, b.whole = freed, 0, nil, nil
	doing := "freeing " + b.String() + " on CUDA"
	if b.place == device.OnDevice {
		d.use.add(-int64(b.size))
	}
	if whole != nil {
		if err := givePages(whole); err != nil {
			return gpuprof.Errorf(gpuprof.ErrDevice, "%s: %w", doing, err)
		}
		return nil
	}
	free := func() error { return d.checkRelease(d.drv.HostFree(mem), doing) }
	if b.place == device.OnDevice {
		free = func() error { return d.checkRelease(d.deviceFree(ptr), doing) }
	}
	err := free()
	if err != nil && d.lost == nil {
		d.closers = append(d.closers, free) // Close tries again
	}
	return err
}

// checkBuffer returns b as a live buffer of d, or the reason why d cannot use it.
func (d *Device) checkBuffer(b device.Buffer) (*Buffer, gpuprof.Unfit) {
	mine, ok := b.(*Buffer)
	switch {
	case b == nil || ok && mine == nil:
		return nil, gpuprof.Unfit{Why: "is not set", Fix: "give it a buffer"}
	case !ok || mine.dev != d:
		return nil, gpuprof.Unfit{Why: "belongs to another device", Fix: "allocate it on this one"}
	case mine.state == freed:
		return nil, gpuprof.Unfit{Why: "is " + mine.String() + ", which is freed", Fix: "free it after its last use"}
	}
	return mine, gpuprof.Unfit{}
}

type usage struct{ now, peak int64 }

func (u *usage) add(bytes int64) {
	u.now += bytes
	u.peak = max(u.peak, u.now)
}

// availableBytes returns the number of bytes that Alloc would grant. It queries driver or system only for large
// requests.
func (d *Device) availableBytes(want int64, p device.Place) (int64, error) {
	if p != device.OnDevice {
		if want < 1<<20 {
			return math.MaxInt64, nil
		}
		return availableHostMemory(), nil
	}
	if want < 1<<20 && want <= d.limit-d.use.now {
		return d.limit - d.use.now, nil
	}
	return d.freeBytes(fmt.Sprintf("allocating %s of %s memory on CUDA", gpuprof.FormatBytes(float64(want)), p))
}

// freeBytes returns the number of bytes that the driver has free plus those unused in the pool, but no more than the
// limit allows. An error means that the query failed, not that memory is short.
func (d *Device) freeBytes(doing string) (int64, error) {
	var free uintptr
	if r := d.memInfo(&free); r != success {
		return 0, d.check(r, doing)
	}
	unused := max(0, d.Reserved()-d.use.now)
	return max(0, min(int64(free)+unused, d.limit-d.use.now)), nil
}

// memInfo queries the driver's free memory; it works in any thread.
func (d *Device) memInfo(free *uintptr) Result {
	var total uintptr
	r := d.drv.MemInfo(free, &total)
	if r == errInvalidContext {
		runtime.LockOSThread() // see enter
		defer runtime.UnlockOSThread()
		if r = d.drv.CtxSet(d.ctx); r == success {
			r = d.drv.MemInfo(free, &total)
		}
	}
	return r
}

// Memory implements device.Device for device memory. Available is 0 on a broken device; see device.Short.
func (d *Device) Memory() device.Memory {
	m := device.Memory{InUse: d.use.now, Peak: d.use.peak}
	if d.closed || d.lost != nil {
		return m
	}
	told := d.lostReported
	m.Available, _ = d.freeBytes("asking for free memory") // the next call returns the error
	d.lostReported = told
	return m
}
