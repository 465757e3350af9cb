package collate

import (
	"os"

	"golang.org/x/sys/unix"
)

// anonymousFile returns memory with a file descriptor, which no file system limits.
func anonymousFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("gpuprof-collate", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "gpuprof-collate"), nil
}

func reserveFile(f *os.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	return os.NewSyscallError("fallocate", unix.Fallocate(int(f.Fd()), 0, 0, size))
}
