//go:build !(linux || darwin) || race

package host

import "unsafe"

// arena allocates from the Go heap: in race builds so that the detector sees unsynchronised accesses to buffers, and
// on systems without mmap. The collector frees the memory some time after Free.
type arena struct{}

const alignment = 64

// allocate returns n zeroed bytes, 64-byte aligned, with n >= 1.
func (arena) allocate(n int) ([]byte, error) {
	mem := make([]byte, n+alignment)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) & (alignment - 1)
	return mem[skip : skip+n : skip+n], nil
}

func (arena) free([]byte) error { return nil }
func (arena) close() error      { return nil }
