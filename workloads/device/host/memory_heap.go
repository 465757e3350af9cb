//go:build !(linux || darwin) || race

package host

import "unsafe"

// arena allocates from the Go heap: in race builds, because the detector sees only that memory, and on systems without
// mmap. The collector frees the memory some time after Free.
type arena struct{}

const alignment = 64

// allocate returns n >= 1 zeroed bytes, 64-byte aligned.
func (arena) allocate(n int) ([]byte, error) {
	mem := make([]byte, n+alignment)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) & (alignment - 1)
	return mem[skip : skip+n : skip+n], nil
}

func (arena) free([]byte) error { return nil }
func (arena) close() error      { return nil }
