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
	// lockWait limits the wait for the lock: a change takes milliseconds, so only a stopped process holds it longer.
	lockWait = 2 * time.Minute
	// lockPoll is the pause between two attempts to create the lock file, on a file system without locks.
	lockPoll = 5 * time.Millisecond
	// exclusiveName is the lock file on a file system without locks.
	exclusiveName = ".locked"
)

// locker locks a store's existing folder and returns the function that releases the lock.
type locker func(dir string) (unlock func(), err error)

// lockFolder takes the operating system's lock, which a process loses when it ends. On a file system without locks it
// creates a lock file exclusively.
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
		case <-given: // the caller stopped waiting
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
		return func() { _ = r.f.Close() }, nil // closing the file releases the lock
	case <-limit.C:
		close(given)
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "changing the baselines in %s: another process has been changing them for %v", dir, lockWait).WithFix("end that process, or choose a folder with --dir")
	}
}

// lockExclusively locks by creating a file. A killed process leaves the file behind, and no other process removes
// it: another machine cannot see whether the owner still runs.
func lockExclusively(dir string) (func(), error) {
	file := filepath.Join(dir, exclusiveName)
	for range int(lockWait / lockPoll) {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			return func() { _ = errors.Join(f.Close(), os.Remove(file)) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, wrapError("locking", file, err)
		}
		time.Sleep(lockPoll)
	}
	return nil, gpuprof.Errorf(gpuprof.ErrInput, "changing the baselines in %s: %s is there, so another process is changing them", dir, file).WithFix("if none is running, remove that file")
}

// holdLock runs a change of the store under the lock, so that concurrent changes neither miss nor overwrite each
// other.
func (s *Store) holdLock(change func() error) error {
	unlock, err := s.lock(s.dir)
	if err != nil {
		return err
	}
	defer unlock()
	return change()
}
