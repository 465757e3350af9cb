package gruflow

import (
	"fmt"
	"unsafe"

	"github.com/gpuprof/gpuprof"
)

// arena allocates a session's buffers; the first error stays.
type arena struct {
	dev  gpuprof.Device
	bufs []gpuprof.Buffer
	err  error
}

// words allocates n four-byte elements (at least one: an empty layer still
// has an address).
func (a *arena) words(what string, n int64, p gpuprof.Place) gpuprof.Buffer {
	if a.err != nil {
		return nil
	}
	b, err := a.dev.Alloc(int(max(n, 1))*4, p)
	if err != nil {
		a.err = fmt.Errorf("allocating %s: %w", what, err)
		return nil
	}
	a.bufs = append(a.bufs, b)
	return b
}

// upload allocates device memory and fills it.
func (a *arena) upload(s gpuprof.Stream, what string, v []float32) gpuprof.Buffer {
	dst := a.words(what, int64(len(v)), gpuprof.OnDevice)
	if a.err != nil {
		return dst
	}
	if err := send(a.dev, s, dst, v); err != nil {
		a.err = fmt.Errorf("uploading %s: %w", what, err)
	}
	return dst
}

// send copies v to dst. It waits, so that the staging memory can go.
func send(dev gpuprof.Device, s gpuprof.Stream, dst gpuprof.Buffer, v []float32) error {
	if len(v) == 0 {
		return nil
	}
	src, err := dev.Alloc(len(v)*4, gpuprof.Pageable)
	if err != nil {
		return err
	}
	copy(gpuprof.Floats(src), v)
	err = s.Copy(dst, 0, src, 0, len(v)*4)
	if err == nil {
		err = s.Sync()
	}
	if e := src.Free(); err == nil {
		err = e
	}
	return err
}

// receive copies n elements from element at of a device buffer. It waits.
func receive(dev gpuprof.Device, s gpuprof.Stream, src gpuprof.Buffer, at, n int) ([]float32, error) {
	out := make([]float32, n)
	if n == 0 {
		return out, nil
	}
	dst, err := dev.Alloc(4*n, gpuprof.Pageable)
	if err != nil {
		return nil, err
	}
	err = s.Copy(dst, 0, src, 4*at, 4*n)
	if err == nil {
		err = s.Sync()
	}
	copy(out, gpuprof.Floats(dst))
	if e := dst.Free(); err == nil {
		err = e
	}
	return out, err
}

// asFloats views integers as the floats of the same bits, for copying.
func asFloats(v []int32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}

// asInts is the other way round.
func asInts(v []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}

func (a *arena) free() error {
	var first error
	for _, b := range a.bufs {
		if err := b.Free(); err != nil && first == nil {
			first = err
		}
	}
	a.bufs = nil
	return first
}
