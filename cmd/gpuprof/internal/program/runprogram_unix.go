//go:build unix

package program

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gpuprof/gpuprof"
)

// lockDir holds a folder for this process: of two gpuprof that are given the
// same one at once, the second is told.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, cannotMake(dir, err)
	}
	// Where the file system has no locks there is none to respect.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(gpuprof.Errorf(gpuprof.ErrUsage,
			"writing into the folder %s: another gpuprof run is recording into it", dir).WithFix("the program was not started: name another folder with -o"), f.Close())
	}
	return f, nil
}
