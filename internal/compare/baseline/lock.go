package baseline

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuprof/gpuprof"
)

const (
	// lockWait is how long a writer waits for the others before it gives up: a change
	// takes milliseconds, so only a stopped process holds the lock as long.
	lockWait = 2 * time.Minute
	// lockPoll is how often a writer looks whether the lock's file is gone, where the
	// file system has no locks.
	lockPoll = 5 * time.Millisecond
	// exclusiveName is the lock's file where the file system has no locks.
	exclusiveName = ".locked"
)

// locker takes the lock of a store's folder, which is there, and returns what gives it back.
type locker func(dir string) (unlock func(), err error)

// lockFolder is the system's lock, which ends with its process however that ends;
// where the file system has none, a file that only one process can create.
func lockFolder(dir string) (func(), error) {
	type result struct {
		f   *os.File
		err error
	}
	got := make(chan result)
	given := make(chan struct{})
	go func() {
		f, err := systemLock(dir)
		select {
		case got <- result{f, err}:
		case <-given: // the wait was given up
			if err == nil {
				_ = f.Close()
			}
		}
	}()
	limit := time.NewTimer(lockWait)
	defer limit.Stop()
	select {
	case r := <-got:
		if r.err != nil {
			return lockExclusively(dir)
		}
		return func() { _ = r.f.Close() }, nil // closing gives the lock back
	case <-limit.C:
		close(given)
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "changing the baselines in %s: another process has been changing them for %v", dir, lockWait).WithFix("end that process, or choose a folder with --dir")
	}
}

// lockExclusively is the lock by a file. A process that is killed leaves the file
// behind, and it is not taken over: which process is gone is not known from another machine.
func lockExclusively(dir string) (func(), error) {
	file := filepath.Join(dir, exclusiveName)
	for range int(lockWait / lockPoll) {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			return func() { _ = errors.Join(f.Close(), os.Remove(file)) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, cannot("locking", file, err)
		}
		time.Sleep(lockPoll)
	}
	return nil, gpuprof.Errorf(gpuprof.ErrInput, "changing the baselines in %s: %s is there, so another process is changing them", dir, file).WithFix("if none is running, remove that file")
}

// locked does what changes the store while no other process can, so that it
// reads what the others wrote and none of it is lost.
func (s *Store) locked(change func() error) error {
	unlock, err := s.lock(s.dir)
	if err != nil {
		return err
	}
	defer unlock()
	return change()
}
