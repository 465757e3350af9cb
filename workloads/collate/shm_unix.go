//go:build unix

package collate

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gpuprof/gpuprof"
)

// region is memory that a worker process shares with its parent: a file without a name that both map. It only grows.
type region struct {
	file *os.File
	mem  []byte
}

func newRegion(bytes int) (*region, error) {
	f, err := anonymousFile()
	if err != nil {
		return nil, sharedMemoryError(bytes, err)
	}
	r := &region{file: f}
	if err := r.grow(bytes); err != nil {
		_ = f.Close() // err is the error to report: the file was never used
		return nil, err
	}
	return r, nil
}

func openRegion(f *os.File) (*region, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("opening shared memory: %w", err)
	}
	r := &region{file: f}
	if err := r.grow(int(st.Size())); err != nil {
		return nil, err
	}
	return r, nil
}

// grow makes at least the given number of bytes usable. If the file has to grow, it gets a quarter more; the other
// process maps the same file. grow reserves the memory, because the system kills a process that touches memory when
// none is left.
func (r *region) grow(bytes int) error {
	if bytes <= len(r.mem) {
		return nil
	}
	st, err := r.file.Stat()
	if err != nil {
		return sharedMemoryError(bytes, err)
	}
	size := int(st.Size())
	if size < bytes {
		if size > 0 {
			bytes += bytes / 4
		}
		size = (bytes + 4095) &^ 4095
		if err := reserveFile(r.file, int64(size)); err != nil {
			return sharedMemoryError(size, err)
		}
	}
	if err := r.unmap(); err != nil {
		return sharedMemoryError(size, err)
	}
	if r.mem, err = unix.Mmap(int(r.file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return sharedMemoryError(size, err)
	}
	return nil
}

func (r *region) unmap() error {
	if r.mem == nil {
		return nil
	}
	mem := r.mem
	r.mem = nil
	return unix.Munmap(mem)
}

func (r *region) close() error {
	err := r.unmap()
	if e := r.file.Close(); err == nil {
		err = e
	}
	return err
}

func sharedMemoryError(bytes int, err error) error {
	return gpuprof.Errorf(gpuprof.ErrMemory, "sharing %s with a worker process: %w", gpuprof.FormatBytes(float64(bytes)), err).WithFix("use a smaller --set batch, fewer workers or less prefetch")
}
