package baseline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// TestWritersAtTheSameTime: eight writers add to one file, each through a store of
// its own, giving way to the others between every two steps of a write, and a
// reader sees whole files only. Not one session is lost but those pruned.
func TestWritersAtTheSameTime(t *testing.T) {
	const writers, each = 8, 5
	for name, lock := range map[string]locker{"the system's lock": lockFolder, "a file system without locks": lockExclusively} {
		for _, keep := range []int{writers * each, 20} {
			t.Run(fmt.Sprintf("%s, %d kept", name, keep), func(t *testing.T) {
				dir := t.TempDir()
				open := func() *Store {
					return &Store{dir: dir, lock: lock, between: func() {
						for range 50 {
							runtime.Gosched()
						}
					}}
				}
				stop := make(chan struct{})
				var writing, reading sync.WaitGroup
				reading.Go(func() { readUntil(t, open(), stop) })
				for w := range writers {
					writing.Go(func() {
						for i := range each {
							if _, _, err := open().Add([]*gpuprof.Run{run(1, 1, w*each+i)}, from, keep); err != nil {
								t.Errorf("writer %d, add %d: %v", w, i, err)
							}
						}
					})
				}
				writing.Wait()
				close(stop)
				reading.Wait()
				b, err := open().Show("e3nn-small")
				if err != nil {
					t.Fatal(err)
				}
				if len(b.Sessions) != keep {
					t.Errorf("%d sessions after %d adds, of which %d are kept", len(b.Sessions), writers*each, keep)
				}
				onlyFiles(t, dir, "example-cpu-8-cores/e3nn-small.json")
			})
		}
	}
}

func readUntil(t *testing.T, s *Store, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if _, broken := s.List(); len(broken) > 0 {
			t.Error(errors.Join(broken...))
		}
	}
}

// onlyFiles: nothing stays behind, not a lock's file and not a temporary one.
func onlyFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	var got []string
	if err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, file)
			got = append(got, filepath.ToSlash(rel))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if runtime.GOOS != "windows" && fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the folder holds %v, not %v", got, want)
	}
}

// TestRemovingWhileAdding: a baseline that is removed again and again takes no
// writer's folder away, and is no broken file to a reader.
func TestRemovingWhileAdding(t *testing.T) {
	dir := t.TempDir()
	open := func() *Store {
		return &Store{dir: dir, lock: lockFolder, between: func() { runtime.Gosched() }}
	}
	stop := make(chan struct{})
	var writing, others sync.WaitGroup
	others.Go(func() { readUntil(t, open(), stop) })
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := open().Remove("example-cpu-8-cores/e3nn-small"); err != nil && !errors.Is(err, gpuprof.ErrUsage) {
				t.Error(err)
			}
		}
	})
	for w := range 4 {
		writing.Go(func() {
			for i := range 20 {
				if _, _, err := open().Add([]*gpuprof.Run{run(1, 1, w*20+i)}, from, 100); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	others.Wait()
}

// TestFolderReplacedWhileWaiting: the lock that counts is the one of the folder that is
// there when it is given.
func TestFolderReplacedWhileWaiting(t *testing.T) {
	// A link that is replaced at once: there is no moment without a folder.
	dir := filepath.Join(t.TempDir(), "store")
	if err := errors.Join(os.Mkdir(dir+".1", 0o755), os.Mkdir(dir+".2", 0o755), os.Symlink(dir+".1", dir), os.Symlink(dir+".2", dir+".next")); err != nil {
		t.Fatal(err)
	}
	first, err := lockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		unlock, err := lockFolder(dir)
		if err == nil {
			unlock()
		}
		got <- err
	}()
	if err := os.Rename(dir+".next", dir); err != nil {
		t.Fatal(err)
	}
	first()
	if err := <-got; err != nil {
		t.Error(err)
	}
}
