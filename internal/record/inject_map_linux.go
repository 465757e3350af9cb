package record

import (
	"os"

	"golang.org/x/sys/unix"
)

// mayMap returns an error if code cannot be executed from a file, as on a file system mounted noexec.
func mayMap(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	return unix.Munmap(b)
}
