//go:build linux || darwin

package cuda

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// takePages returns n bytes outside the Go heap: the driver may keep their address, and freeing is immediate.
func takePages(n int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("the system refused: %w", err)
	}
	return mem, nil
}

func givePages(mem []byte) error {
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("returning memory to the system: %w", err)
	}
	return nil
}
