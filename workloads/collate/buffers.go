package collate

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// arena allocates a session's buffers; the first error stays.
type arena struct {
	dev  gpuprof.Device
	bufs []gpuprof.Buffer
	err  error
}

// bytes allocates n bytes, at least four: an empty batch still has an address.
func (a *arena) bytes(what string, n int, p gpuprof.Place) gpuprof.Buffer {
	if a.err != nil {
		return nil
	}
	b, err := a.dev.Alloc(max(n, 4), p)
	if err != nil {
		a.err = fmt.Errorf("allocating %s: %w", what, err)
		return nil
	}
	a.bufs = append(a.bufs, b)
	return b
}

// drop frees one buffer early; nil is none.
func (a *arena) drop(b gpuprof.Buffer) error {
	if b == nil {
		return nil
	}
	i := slices.Index(a.bufs, b)
	a.bufs[i] = a.bufs[len(a.bufs)-1]
	a.bufs = a.bufs[:len(a.bufs)-1]
	return b.Free()
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
