//go:build unix

package program

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gpuprof/gpuprof"
)

// lockDir locks a folder until this process ends. A second gpuprof that records into the folder gets an error.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, cannotMake(dir, err)
	}
	// A file system without locks lets a second gpuprof record into the folder.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(gpuprof.Errorf(gpuprof.ErrUsage,
			"writing into the folder %s: another gpuprof run is recording into it", dir).WithFix("the program was not started: name another folder with -o"), f.Close())
	}
	return f, nil
}
