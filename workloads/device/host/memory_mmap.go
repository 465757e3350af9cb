//go:build (linux || darwin) && !race

package host

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// quarantineLen is the maximum number of address ranges kept inaccessible after Free.
const quarantineLen = 256

// arena allocates outside the Go heap: Free returns memory to the system at once, the resident size is exact, and
// gigabytes of buffers do not postpone garbage collections. Race builds use memory_heap.go.
//
// arena keeps freed address ranges reserved without access for a while. A kernel that uses an old view then faults,
// and the stream reports it as the kernel's failure; a reused address would corrupt other data.
type arena struct {
	freed [][]byte // oldest first
}

// allocate returns n >= 1 zeroed bytes, page aligned.
func (a *arena) allocate(n int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("the system refused: %w", err)
	}
	return mem, nil
}

func (a *arena) free(mem []byte) error {
	// One call gives the pages back and closes the range: an empty mapping takes its place.
	first := unsafe.Pointer(unsafe.SliceData(mem))
	if _, err := unix.MmapPtr(-1, 0, first, uintptr(len(mem)), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED); err != nil {
		return fmt.Errorf("returning memory to the system: %w", err)
	}
	a.freed = append(a.freed, mem)
	if len(a.freed) <= quarantineLen {
		return nil
	}
	oldest := a.freed[0]
	a.freed = a.freed[:copy(a.freed, a.freed[1:])]
	return unmap(oldest)
}

// close releases the reserved ranges. Memory that is not yet freed stays valid.
func (a *arena) close() error {
	var first error
	for _, mem := range a.freed {
		if err := unmap(mem); err != nil && first == nil {
			first = err
		}
	}
	a.freed = nil
	return first
}

func unmap(mem []byte) error {
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("unmapping freed memory: %w", err)
	}
	return nil
}
