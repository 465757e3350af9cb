package op

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// binder collects the launches of a Bound. After the first error, kept in err, its methods do nothing, so that Bind
// methods need no error check between calls.
type binder struct {
	dev device.Device
	b   *Bound
	err error
}

func newBinder(dev device.Device, name string, capacity int) *binder {
	k := &binder{dev: dev, b: &Bound{name: name, capacity: capacity, edges: capacity}}
	if capacity < 0 {
		k.failUsage("use 0 or more", "the edge capacity %d is negative", capacity)
	}
	return k
}

// failUsage records an ErrUsage for parameters or buffers that can never be bound. The argument fix is the advice to
// the user; it is empty if args contains an error with its own fix.
func (k *binder) failUsage(fix, format string, args ...any) {
	if k.err == nil {
		k.err = gpuprof.Errorf(gpuprof.ErrUsage, "binding %s: %w", k.b.name, fmt.Errorf(format, args...)).WithFix("%s", fix)
	}
}

func (k *binder) failOn(err error) {
	if err != nil {
		k.failUsage("", "%w", err)
	}
}

func (k *binder) fail(doing string, err error) {
	if k.err == nil && err != nil {
		k.err = fmt.Errorf("binding %s: %s: %w", k.b.name, doing, err)
	}
}

func (k *binder) checkPositive(name string, v int) {
	if v < 1 {
		k.failUsage("use 1 or more", "%s is %d", name, v)
	}
}

func (k *binder) checkRows(rows int) {
	if rows < 0 {
		k.failUsage("use 0 or more", "the number of rows %d is negative", rows)
	}
}

// checkBuffer checks that a buffer holds at least n elements of four bytes. n has 64 bits, because rows times width may
// exceed 32 bits.
func (k *binder) checkBuffer(name string, buf device.Buffer, n int64) {
	switch {
	case k.err != nil:
	case buf == nil:
		if n > 0 {
			k.failUsage("give one", "buffer %s is missing, it needs %d bytes", name, n*floatBytes)
		}
	case int64(buf.Len()) < n*floatBytes:
		k.failUsage("allocate it for the capacity", "buffer %s has %d bytes, it needs %d", name, buf.Len(), n*floatBytes)
	}
}

func (k *binder) allocateScratch(n int64) device.Buffer {
	if k.err != nil {
		return nil
	}
	if n > math.MaxInt/floatBytes {
		k.failUsage("use fewer edges per batch", "scratch of %d elements is beyond the address space", n)
		return nil
	}
	buf, err := k.dev.Alloc(int(max(n, 1))*floatBytes, device.OnDevice)
	if err != nil {
		k.fail("allocating scratch memory", err)
		return nil
	}
	k.b.owned = append(k.b.owned, buf)
	return buf
}

func (k *binder) uploadInts(v []int32) device.Buffer {
	return k.uploadBytes(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*4))
}

func (k *binder) uploadFloats(v []float32) device.Buffer {
	return k.uploadBytes(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*4))
}

// uploadBytes copies a table to device memory owned by the Bound, through pinned memory, which every device has.
func (k *binder) uploadBytes(v []byte) device.Buffer {
	dst := k.allocateScratch(int64(len(v) / floatBytes))
	if k.err != nil || len(v) == 0 {
		return dst
	}
	k.fail("uploading a table", copyTo(k.dev, dst, v))
	return dst
}

func copyTo(dev device.Device, dst device.Buffer, v []byte) (err error) {
	staging, err := dev.Alloc(len(v), device.Pinned)
	if err != nil {
		return err
	}
	defer func() {
		if e := staging.Free(); err == nil {
			err = e
		}
	}()
	copy(staging.Bytes(), v)
	s, err := dev.NewStream("upload")
	if err != nil {
		return err
	}
	defer func() {
		if e := s.Close(); err == nil {
			err = e
		}
	}()
	if err := s.Copy(dst, 0, staging, 0, len(v)); err != nil {
		return err
	}
	return s.Sync()
}

// addLaunch appends a launch of kern; see Binder.Bind for args.
func (k *binder) addLaunch(kern *device.Kernel, it items, cost rate, args any) {
	if k.err != nil {
		return
	}
	b := Binder{Dev: k.dev}
	call := b.Bind(kern, 0, gpuprof.Cost{}, args)
	if b.Err != nil {
		k.err = fmt.Errorf("binding %s: %w", k.b.name, b.Err)
		return
	}
	if it.countFor(k.b.capacity) > math.MaxInt32 {
		k.failUsage("use a smaller batch", "kernel %s would have %d items, more than 32 bits hold", kern.Name, it.countFor(k.b.capacity))
		return
	}
	k.b.launches = append(k.b.launches, launch{Call: call, items: it, cost: cost})
}

// finishBinding returns the Bound. If binding failed, it frees the Bound's memory and returns the error.
func (k *binder) finishBinding() (*Bound, error) {
	if k.err != nil {
		// Report the binding error, not an error of freeing buffers that were never used.
		_ = k.b.Close()
		return nil, k.err
	}
	for i := range k.b.launches {
		l := &k.b.launches[i]
		k.b.overEdges = k.b.overEdges || l.items.perEdge != 0 || slices.ContainsFunc(l.nums, func(n lateNum) bool { return n.Count == Batch })
	}
	k.b.setEdges(k.b.capacity)
	return k.b, nil
}

// Moved returns the cost of an operation with the given number of flops that reads r values and writes w, of four bytes
// each.
func Moved(flops, r, w int) gpuprof.Cost {
	return gpuprof.Cost{Flops: int64(flops), BytesRead: int64(r) * floatBytes, BytesWritten: int64(w) * floatBytes}
}
