//go:build linux || darwin

package cuda

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// takePages is n bytes outside the Go heap, so that their address is what the
// driver may keep, and freeing them gives them back at once.
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
