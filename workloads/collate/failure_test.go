//go:build linux

package collate

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

var soak = flag.Int("soak", 30, "how many sessions TestSoak opens")

// A broken file fails the batch it belongs to, by name; every other batch comes.
func TestBrokenFileFailsItsBatchOnly(t *testing.T) {
	for _, v := range []string{"workers=0", "workers=1", "workers=3", "workers=2,worker_kind=process", "workers=2,persistent=off,epoch=2"} {
		t.Run(v, func(t *testing.T) {
			dir := writeStructures(t, 20)
			broken := filepath.Join(dir, "0013.xyz")
			if err := os.WriteFile(broken, []byte("2\nLattice=\"3 0 0 0 3 0 0 0 3\" Properties=species:S:1:pos:R:3\nH 0 0 0\nH 0 zero 0\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			s := openSession(t, "small", append([]string{"batch=4", "probes=3", "structures=" + dir}, strings.Split(v, ",")...)...)
			for i := range 10 {
				err := s.Step(i, loop.Silent{})
				if i%5 != 3 {
					if err != nil {
						t.Errorf("batch %d: %v", i, err)
					}
					continue
				}
				if !errors.Is(err, gpuprof.ErrInput) {
					t.Fatalf("batch %d: %v, want an input error", i, err)
				}
				for _, w := range []string{"0013.xyz", "line 4", fmt.Sprintf("batch %d", i), "sample 13"} {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("error %q lacks %q", err, w)
					}
				}
			}
		})
	}
}

// A worker that panics names the sample; it and the other workers go on.
func TestPanicNamesTheSample(t *testing.T) {
	for _, v := range []string{"workers=0", "workers=1", "workers=2"} {
		t.Run(v, func(t *testing.T) {
			hook := func(item int) {
				if item == 17 {
					panic("out of luck")
				}
			}
			s := openOn(t, openHost(t, 0), hook, "small", "batch=5", "probes=3", v)
			for i := range 6 {
				err := s.Step(i, loop.Silent{})
				if (err != nil) != (i == 3) {
					t.Fatalf("batch %d: %v", i, err)
				}
				if i == 3 && (!errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "sample 17 (HfO2)") || !strings.Contains(err.Error(), "out of luck")) {
					t.Errorf("error %v", err)
				}
			}
		})
	}
}

// A process that is killed costs the batch it was making; another one takes its
// place, and the batches before and after come.
func TestKilledProcessIsReplaced(t *testing.T) {
	s := openSession(t, "small", "batch=4", "probes=200", "workers=2", "worker_kind=process", "prefetch=1")
	want := hashes(t, openSession(t, "small", "batch=4", "probes=200", "workers=0"), 12)
	lost := 0
	for i := range 12 {
		if i == 4 {
			if err := s.pool.workers[0].(*process).kill(); err != nil {
				t.Fatal(err)
			}
		}
		err := s.Step(i, loop.Silent{})
		if err != nil {
			lost++
			if !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), fmt.Sprintf("batch %d", i)) || !strings.Contains(err.Error(), "killed") {
				t.Errorf("batch %d: %v", i, err)
			}
			continue
		}
		if got := digest(t, s, i); got != want[i] {
			t.Errorf("batch %d is %x, want %x", i, got, want[i])
		}
	}
	if lost != 1 {
		t.Errorf("%d batches were lost to one killed process", lost)
	}
}

// A worker process that is stopped, and not killed, is ended, and the next batch is
// another one's.
func TestStoppedWorkerIsLost(t *testing.T) {
	s := openSession(t, "small", "batch=4", "probes=3", "workers=1", "worker_kind=process", "prefetch=1")
	if err := s.Step(0, loop.Silent{}); err != nil {
		t.Fatal(err)
	}
	w := s.pool.workers[0].(*process)
	w.mu.Lock()
	err := w.child.cmd.Process.Signal(syscall.SIGSTOP)
	w.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; ; i++ { // what was asked for ahead comes first
		if err = s.Step(i, loop.Silent{}); err != nil {
			break
		}
	}
	if !strings.Contains(err.Error(), "it was stopped by a signal") {
		t.Errorf("%v, want that it was stopped", err)
	}
}

func (w *process) kill() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.child == nil {
		return nil
	}
	return w.child.cmd.Process.Kill()
}

// openFiles counts this process's file descriptors, children its child processes.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func children(t *testing.T) int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range tasks {
		b, err := os.ReadFile(f)
		if err == nil {
			n += len(strings.Fields(string(b)))
		}
	}
	return n
}

// Sessions of every kind with files that break, workers that panic and
// processes that are killed leave nothing behind and lose no batch but those.
// go test ./workloads/collate -run TestSoak -soak 5000 -timeout 60m takes it
// further: the package comes before the flag.
func TestSoak(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	dir := writeStructures(t, 30)
	round := func() {
		d := openHost(t, 0)
		defer d.Close()
		set := []string{"batch=3", "probes=5", fmt.Sprintf("workers=%d", 1+rng.IntN(3)), "sync=never"}
		processes := rng.IntN(2) == 0
		if processes {
			set = append(set, "worker_kind=process")
		}
		if rng.IntN(2) == 0 {
			set = append(set, "structures="+dir)
		}
		if rng.IntN(2) == 0 {
			set = append(set, "persistent=off", "epoch=7")
		}
		set = append(set, []string{"pinned=on", "pinned=off", "pinned=batch"}[rng.IntN(3)])
		bad := rng.IntN(60)
		hook := func(item int) {
			if item == bad {
				panic("soak")
			}
		}
		s, err := openHooked(context.Background(), d, resolve(t, "small", set...), hook)
		if err != nil {
			t.Fatal(err)
		}
		killed, lost := 0, 0
		for i := range 25 {
			if processes && rng.IntN(12) == 0 && s.pool.workers != nil {
				w := s.pool.workers[rng.IntN(len(s.pool.workers))].(*process)
				if err := w.kill(); err == nil {
					killed++
				}
			}
			if err := s.Step(i, loop.Silent{}); err != nil {
				lost++
				if !errors.Is(err, gpuprof.ErrInput) {
					t.Fatalf("%v, batch %d: %v", set, i, err)
				}
			}
		}
		expected := killed
		if !processes { // batches that hold the bad sample
			for i := range 25 {
				for k := range 3 {
					if s.r.itemAt(i, k) == bad {
						expected++
					}
				}
			}
		}
		if lost > expected || !processes && lost != expected {
			t.Errorf("%v: %d batches lost, %d expected", set, lost, expected)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%v: closing: %v", set, err)
		}
	}
	round() // what the runtime opens once is open now
	runtime.GC()
	files, routines := openFiles(t), runtime.NumGoroutine()
	for range *soak {
		round()
	}
	for wait := time.Now().Add(4 * time.Minute); time.Now().Before(wait) && (runtime.NumGoroutine() > routines || children(t) > 0); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > routines {
		t.Errorf("%d goroutines, %d before", n, routines)
	}
	runtime.GC()
	if n := openFiles(t); n > files {
		t.Errorf("%d open files, %d before", n, files)
	}
	if n := children(t); n > 0 {
		t.Errorf("%d child processes are left", n)
	}
}

// A structure far denser than the first one's estimate does not fill the memory:
// its batch fails before it is made, by name, each time, and the others come.
func TestBatchPastMemory(t *testing.T) {
	for _, v := range []string{"workers=0", "workers=1,impl=bulk", "workers=1,worker_kind=process", "workers=0,padded=on"} {
		t.Run(v, func(t *testing.T) {
			dir := writeStructures(t, 8)
			dense := "1\nLattice=\"0.2 0 0 0 0.2 0 0 0 0.2\" Properties=species:S:1:pos:R:3\nH 0 0 0\n"
			if err := os.WriteFile(filepath.Join(dir, "0004.xyz"), []byte(dense), 0o644); err != nil {
				t.Fatal(err)
			}
			d := openHost(t, 16<<20)
			s := openOn(t, d, nil, "small", append([]string{"batch=2", "probes=64", "structures=" + dir}, strings.Split(v, ",")...)...)
			for i := range 8 {
				err := s.Step(i, loop.Silent{})
				if i%4 != 2 {
					if err != nil {
						t.Errorf("batch %d: %v", i, err)
					}
					continue
				}
				if !errors.Is(err, gpuprof.ErrInput) {
					t.Fatalf("batch %d: %v, want an input error", i, err)
				}
				for _, w := range []string{"0004.xyz", fmt.Sprintf("batch %d", i), "sample 4", "memory leaves", "smaller --set cutoff"} {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("error %q lacks %q", err, w)
					}
				}
			}
		})
	}
}

// Told to stop while a worker is stuck, a step returns.
func TestCancelledWait(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	release := make(chan struct{})
	s, err := openHooked(ctx, openHost(t, 0), resolve(t, "small", "batch=2", "probes=2", "workers=1"), func(item int) {
		if item == 4 {
			<-release
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := s.Step(2, loop.Silent{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want cancelled", err)
	}
	close(release)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Without its parent a worker ends.
func TestWorkerEndsWithItsParent(t *testing.T) {
	s := openSession(t, "small", "batch=2", "probes=2", "workers=1", "worker_kind=process")
	if err := s.Step(0, loop.Silent{}); err != nil {
		t.Fatal(err)
	}
	w := s.pool.workers[0].(*process)
	c := w.child
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil { // as Ctrl-C in a terminal: not its business
		t.Fatal(err)
	}
	for i := 1; i < 5; i++ {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	if w.child != c {
		t.Error("the worker ended at an interrupt")
	}
}

// A folder may be a link and so may its files; what is no file is no structure,
// so that nobody waits for what a pipe might say.
func TestFolderOfLinksAndPipes(t *testing.T) {
	dir := writeStructures(t, 6)
	for _, err := range []error{
		syscall.Mkfifo(filepath.Join(dir, "0100.xyz"), 0o600),
		os.Symlink(filepath.Join(dir, "0000.xyz"), filepath.Join(dir, "0101.xyz")),
		os.Symlink(filepath.Join(dir, "0100.xyz"), filepath.Join(dir, "0102.xyz")),
		os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "0103.xyz")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	s := openSession(t, "small", "batch=4", "probes=3", "workers=1", "structures="+link)
	if n, ignored := len(s.r.Files), s.ignored; n != 8 || ignored != 3 { // two pipes and the README
		t.Errorf("%d files and %d ignored, want 8 and 3: %v", n, ignored, s.r.Files)
	}
	if err := s.Step(0, loop.Silent{}); err != nil {
		t.Error(err)
	}
	if err := s.Step(1, loop.Silent{}); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), filepath.Join(link, "0103.xyz")) {
		t.Errorf("a link that leads nowhere: %v", err)
	}
}
