//go:build !(linux || darwin) || race

package host

import "unsafe"

// arena hands out memory from the Go heap: in race builds so that the
// detector sees unsynchronised accesses to buffers, and on systems without
// mmap. The collector takes it back some time after Free.
type arena struct{}

const alignment = 64

// take returns n zeroed bytes, 64-byte aligned, with n >= 1.
func (arena) take(n int) ([]byte, error) {
	mem := make([]byte, n+alignment)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) & (alignment - 1)
	return mem[skip : skip+n : skip+n], nil
}

func (arena) give([]byte) error { return nil }
func (arena) close() error      { return nil }
