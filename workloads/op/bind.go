package op

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// binder collects the launches of a Bound; the first error stays and the rest
// of the binding becomes a no-op, so that Bind methods read as a list.
type binder struct {
	dev device.Device
	b   *Bound
	err error
}

func newBinder(dev device.Device, name string, capacity int) *binder {
	k := &binder{dev: dev, b: &Bound{name: name, capacity: capacity, edges: capacity}}
	if capacity < 0 {
		k.usage("use 0 or more", "the edge capacity %d is negative", capacity)
	}
	return k
}

// usage notes a request that could never work, and what to do about it; fix is empty where the cause has one.
func (k *binder) usage(fix, format string, args ...any) {
	if k.err == nil {
		k.err = gpuprof.Errorf(gpuprof.ErrUsage, "binding %s: %w", k.b.name, fmt.Errorf(format, args...)).WithFix("%s", fix)
	}
}

func (k *binder) fail(doing string, err error) {
	if k.err == nil && err != nil {
		k.err = fmt.Errorf("binding %s: %s: %w", k.b.name, doing, err)
	}
}

// positive checks that a size that must be at least 1 is.
func (k *binder) positive(name string, v int) {
	if v < 1 {
		k.usage("use 1 or more", "%s is %d", name, v)
	}
}

// want checks that a buffer holds at least n elements of four bytes. Indices
// inside a kernel's row are 32 bits wide, rows times width may be more.
func (k *binder) want(name string, buf device.Buffer, n int64) {
	switch {
	case k.err != nil:
	case buf == nil:
		if n > 0 {
			k.usage("give one", "buffer %s is missing, it needs %d bytes", name, n*floatBytes)
		}
	case int64(buf.Len()) < n*floatBytes:
		k.usage("allocate it for the capacity", "buffer %s has %d bytes, it needs %d", name, buf.Len(), n*floatBytes)
	}
}

// scratch allocates n elements of device memory owned by the Bound.
func (k *binder) scratch(n int64) device.Buffer {
	if k.err != nil {
		return nil
	}
	if n > math.MaxInt/floatBytes {
		k.usage("use fewer edges per batch", "scratch of %d elements is beyond the address space", n)
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
	return k.upload(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*4))
}

func (k *binder) uploadFloats(v []float32) device.Buffer {
	return k.upload(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*4))
}

// upload copies a table to device memory owned by the Bound, through pinned
// memory so that it works on every device.
func (k *binder) upload(v []byte) device.Buffer {
	dst := k.scratch(int64(len(v) / floatBytes))
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

// itemCount and edgeCount stand for arguments that SetEdges fills in.
type (
	itemCount struct{}
	edgeCount struct{}
)

// launch appends a launch of kern. The arguments are checked against kern.Sig:
// Buffer is b, int (or itemCount, edgeCount) is i, float32 is f.
func (k *binder) launch(kern *device.Kernel, it items, cost rate, args ...any) {
	if k.err != nil {
		return
	}
	fn, err := k.dev.Load(kern)
	if err != nil {
		k.err = fmt.Errorf("binding %s: %w", k.b.name, err)
		return
	}
	l := launch{fn: fn, kernel: kern.Name, items: it, nArg: -1, edgeArg: -1, cost: cost}
	sig := make([]byte, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case device.Buffer:
			l.args.SetBuf(i, v)
			sig[i] = 'b'
		case int:
			if v > math.MaxInt32 || v < math.MinInt32 {
				k.usage("use a smaller batch", "argument %d of kernel %s, %d, does not fit 32 bits", i, kern.Name, v)
				return
			}
			l.args.SetInt(i, v)
			sig[i] = 'i'
		case float32:
			l.args.SetF32(i, v)
			sig[i] = 'f'
		case itemCount:
			l.nArg = i
			sig[i] = 'i'
		case edgeCount:
			l.edgeArg = i
			sig[i] = 'i'
		default:
			sig[i] = '?'
		}
	}
	if string(sig) != kern.Sig {
		k.fail("loading kernel "+kern.Name, gpuprof.Errorf(gpuprof.ErrDevice, "its signature is %q but the arguments are %q", kern.Sig, sig).WithFix("report it as a defect in the operation"))
		return
	}
	if it.at(k.b.capacity) > math.MaxInt32 {
		k.usage("use a smaller batch", "kernel %s would have %d items, more than 32 bits hold", kern.Name, it.at(k.b.capacity))
		return
	}
	k.b.launches = append(k.b.launches, l)
}

// done returns the Bound, or frees what was allocated for it.
func (k *binder) done() (*Bound, error) {
	if k.err != nil {
		// The binding error is the one to report; the buffers were never used.
		_ = k.b.Close()
		return nil, k.err
	}
	for _, l := range k.b.launches {
		k.b.overEdges = k.b.overEdges || l.items.perEdge != 0 || l.edgeArg >= 0
	}
	k.b.setEdges(k.b.capacity)
	return k.b, nil
}

// move is the cost of reading r and writing w elements of four bytes.
func move(flops, r, w int) gpuprof.Cost {
	return gpuprof.Cost{Flops: int64(flops), BytesRead: int64(r) * floatBytes, BytesWritten: int64(w) * floatBytes}
}
