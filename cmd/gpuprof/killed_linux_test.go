//go:build !race

// Processes are started, and the race detector sees nothing of them.

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
)

// changes reports the changes below folders, one at a time, until it is closed.
type changes struct {
	file  *os.File
	paths map[int32]string
}

func watchChanges(t *testing.T, roots ...string) *changes {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	c := &changes{file: os.NewFile(uintptr(fd), "inotify"), paths: map[int32]string{}}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) { // what a killed gpuprof had started ends just now
				return nil
			}
			if err == nil && d.IsDir() {
				c.add(fd, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *changes) add(fd int, path string) {
	if wd, err := unix.InotifyAddWatch(fd, path, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE|unix.IN_DELETE); err == nil {
		c.paths[int32(wd)] = path // a folder that is gone already has no changes
	}
}

// next waits for some changes and returns how many; an error once it is closed.
func (c *changes) next() (n int, err error) {
	buf := make([]byte, 64<<10)
	size, err := c.file.Read(buf)
	if err != nil {
		return 0, err
	}
	for at := 0; at+unix.SizeofInotifyEvent <= size; n++ {
		wd, mask := int32(binary.NativeEndian.Uint32(buf[at:])), binary.NativeEndian.Uint32(buf[at+4:])
		long := int(binary.NativeEndian.Uint32(buf[at+12:]))
		name := string(bytes.TrimRight(buf[at+unix.SizeofInotifyEvent:at+unix.SizeofInotifyEvent+long], "\x00"))
		if mask&unix.IN_ISDIR != 0 && mask&unix.IN_CREATE != 0 {
			raw, err := c.file.SyscallConn()
			if err == nil {
				_ = raw.Control(func(fd uintptr) { c.add(int(fd), filepath.Join(c.paths[wd], name)) }) // it is open
			}
		}
		at += unix.SizeofInotifyEvent + long
	}
	return n, nil
}

// killedAt starts a command and kills it at its n-th change of the folders; false where it ended
// before that.
func killedAt(t *testing.T, cmd *exec.Cmd, n int, roots ...string) (killed bool, said string) {
	t.Helper()
	c := watchChanges(t, roots...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = testkit.GiveUp
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()     // of a killed program this is an error
		_ = c.file.Close() // it ends the wait for changes
	}()
	go func() {
		for seen := 0; ; {
			some, err := c.next()
			if err != nil {
				return
			}
			if seen += some; seen >= n {
				_ = cmd.Process.Kill() // it may have ended just now
				return
			}
		}
	}()
	<-ended
	return !cmd.ProcessState.Exited(), out.String()
}

// temporary are the names of what gpuprof makes for a while.
var temporary = regexp.MustCompile(`-[0-9a-z]{6}-[0-9a-z]{5}-[0-9a-z]{8}-|\.tmp$|gpuprof-cuda\.so$|cuda\.(config|control)$`)

// leftIn are the temporary files and folders below a folder.
func leftIn(t *testing.T, dir string) (left []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // what a killed gpuprof had started ends just now
			return nil
		case err == nil && temporary.MatchString(d.Name()):
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// Whatever gpuprof was doing when SIGKILL ended it, the next one leaves nothing of it behind:
// ten points of each verb, told by the changes that it has made to the file system.
func TestKilled(t *testing.T) {
	t.Setenv("GPUPROF_TEST_WORKLOAD", "1")
	t.Setenv("GPUPROF_TEST_CLOCK", "50ms")
	program, err := builtCUDAProgram()
	if err != nil {
		t.Fatal(err)
	}
	cupti := sim.CUPTI(t, "12.9")
	var kills, left atomic.Int64
	t.Cleanup(func() { // a verb may have ended before it could be killed
		if kills.Load() < 30 || left.Load() == 0 {
			t.Errorf("%d kills left %d files and folders", kills.Load(), left.Load())
		}
	})
	for _, v := range []struct {
		name, args string
		env        []string
		next       string // the start after the kills; "" the same
	}{
		{name: "run", args: "run -o rec --force -- sh -c true"},
		{name: "run --cuda", args: "run --cuda --cupti " + cupti + " -o rec --force -- " + program[0] + " 20 20",
			env: []string{"TEST_PTX=" + program[1], "TEST_KERNEL=null", "LD_LIBRARY_PATH=" + filepath.Dir(sim.Library(t)), "GPUPROF_TEST_RECORDER=flush_ms=1,"}},
		{name: "history", args: "history add run.json --store store --commit aaaaaaaaaaaNUMBER", next: "history --store store"},
		{name: "gate", args: "gate --against HEAD --budget 1ms --threshold 900% -- ./bench"},
		{name: "bisect", args: "bisect HEAD~1..HEAD --metric Step --build true --state search.json --artifact level -- ./bench", next: "gate --against HEAD --budget 1ms --threshold 900% -- ./bench"},
		{name: "tune", args: "tune squares --device host --knob halt --budget 2s -o tune.json --force"},
		{name: "fleet", args: "run -o job/ -- sh -c true", env: []string{"GPUPROF_WORLD=1", "GPUPROF_RANK=0", "GPUPROF_NODE=n1"}, next: "fleet job --missing pass"},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			command := func(args string) *exec.Cmd {
				cmd := selfCommand(t, filepath.Join(dir, "work"), strings.Fields(args)...)
				cmd.Env = append(append(cmd.Env, "TMPDIR="+filepath.Join(dir, "tmp"), "COUNT="+filepath.Join(dir, "count")), v.env...)
				return cmd
			}
			if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
				t.Fatal(err)
			}
			var stream strings.Builder
			for i, subject := range []string{"one", "two"} {
				stream.WriteString("commit refs/heads/main\ncommitter t <t@t.invalid> 100000000" + string(rune('0'+i)) + " +0000\ndata 3\n" + subject + "\n")
				level := "M 644 inline level\ndata 7\n10000" + string(rune('0'+i)) + "\n\n"
				stream.WriteString(level + strings.Replace(level, "level", "built", 1))
				if i == 0 {
					stream.WriteString("M 755 inline bench\ndata " + strconv.Itoa(len(noisySteps)) + "\n" + noisySteps + "\n")
				}
			}
			fastImport(t, filepath.Join(dir, "work"), stream.String())
			if v.name == "history" {
				if out, err := command("run squares --device host --warmup 2 --samples 30 -o run.json").CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			for i, n := range []int{1, 2, 3, 4, 5, 6, 8, 10, 13, 3} {
				if killed, said := killedAt(t, command(strings.ReplaceAll(v.args, "NUMBER", strconv.Itoa(i))), n, dir); killed {
					kills.Add(1)
					left.Add(int64(len(leftIn(t, dir))))
				} else if strings.Contains(said, "reading the command line") {
					t.Fatalf("gpuprof %s: %s", v.args, said)
				}
			}
			next := v.next
			if next == "" {
				next = v.args
			}
			out, err := command(next).CombinedOutput()
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if still := leftIn(t, dir); len(still) > 0 {
				t.Errorf("left after gpuprof %s: %q\n%s", next, still, out)
			}
			list, err := exec.CommandContext(t.Context(), "git", "-C", filepath.Join(dir, "work"), "worktree", "list").Output()
			if err != nil || strings.Count(string(list), "\n") != 1 {
				t.Errorf("checkouts are left: %s, %v", list, err)
			}
		})
	}
}

// The user's program lives on where gpuprof is killed, and so does the folder of the hook that it
// may import yet; the first start after its end removes the folder.
func TestProgramOutlivesGpuprof(t *testing.T) {
	dir := t.TempDir()
	temp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"started", "go"} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Its child is a new Python, which finds the hook on its path, and Python tells of any failure.
	script := `echo >started; read line <go; python3 -c 'import sys, os; print(os.path.isfile(os.environ["GPUPROF_HOOK"] + "/config.json"))' >out 2>&1`
	command := func(args ...string) *exec.Cmd {
		cmd := selfCommand(t, dir, args...)
		cmd.Env = append(cmd.Env, "TMPDIR="+temp)
		return cmd
	}
	first := command("run", "--no-cuda", "--no-analyze", "-o", "rec", "--", "sh", "-c", script)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	open := func(name string, flag int) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	started := open("started", os.O_RDONLY) // waits for the program
	if _, err := started.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(started.Close(), first.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	if out, err := command("version").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left := leftIn(t, temp); len(left) == 0 {
		t.Error("the hook of a program that runs was removed")
	}
	// The program has the file out open until its end.
	release := open("go", os.O_WRONLY)
	out := filepath.Join(dir, "out")
	done := watchChanges(t, dir)
	if _, err := release.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	if err := release.Close(); err != nil {
		t.Fatal(err)
	}
	text := []byte{}
	for len(text) == 0 {
		if _, err := done.next(); err != nil {
			t.Fatal(err)
		}
		text, _ = os.ReadFile(out) // not there yet
	}
	if string(text) != "True\n" {
		t.Errorf("a Python that the program started said %q", text)
	}
	// Its processes end just now: what is left goes with the first start after that.
	for len(leftIn(t, temp)) > 0 {
		if out, err := command("version").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}
