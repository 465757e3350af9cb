package e3nn

import (
	"fmt"

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

// upload allocates device memory and fills it. It waits, so that the staging
// memory can go.
func (a *arena) upload(s gpuprof.Stream, what string, v []float32) gpuprof.Buffer {
	dst := a.words(what, int64(len(v)), gpuprof.OnDevice)
	if a.err != nil || len(v) == 0 {
		return dst
	}
	src, err := a.dev.Alloc(len(v)*4, gpuprof.Pageable)
	if err == nil {
		copy(gpuprof.Floats(src), v)
		err = s.Copy(dst, 0, src, 0, len(v)*4)
		if err == nil {
			err = s.Sync()
		}
		if e := src.Free(); err == nil {
			err = e
		}
	}
	if err != nil {
		a.err = fmt.Errorf("uploading %s: %w", what, err)
	}
	return dst
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
