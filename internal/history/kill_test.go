package history

import (
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// writeVariable makes this test binary a writer: the store's folder, the first session
// and the write that it is killed in.
const writeVariable = "GPUPROF_TEST_WRITER"

// TestKilledWriter: a writer that SIGKILL ends in the middle of a write leaves a store that
// is read whole, with every session that it had reported as stored.
func TestKilledWriter(t *testing.T) {
	if how := strings.Split(os.Getenv(writeVariable), "|"); len(how) == 3 {
		writeUntilKilled(t, how)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, stored := t.TempDir(), 0
	for _, in := range []int{1, 2, 3, 4, 5, 8, 13} {
		child := exec.CommandContext(t.Context(), program, "-test.run=^TestKilledWriter$")
		child.Env = append(os.Environ(), writeVariable+"="+strings.Join([]string{dir, strconv.Itoa(stored), strconv.Itoa(in)}, "|"))
		out, _ := child.Output() // what a killed program wrote is read all the same
		if child.ProcessState == nil || child.ProcessState.Exited() {
			t.Fatalf("the writer was not killed in write %d: %s", in, out)
		}
		stored += strings.Count(string(out), "stored\n")
		r := reported(t, NewStore(unflushed(dir), ""), Options{Margin: 0.02})
		n := 0
		for i := range r.Trends {
			n += len(r.Trends[i].Sessions)
		}
		if n != stored || len(r.Skipped) > 0 {
			t.Fatalf("killed in write %d: %d sessions, %d were reported as stored; skipped: %+v", in, n, stored, r.Skipped)
		}
		left := outside.Dir(dir)
		if err := fs.WalkDir(left, ".", func(name string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(name, atomicfile.Temporary) {
				t.Errorf("killed in write %d: reading the store leaves %s", in, name)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if stored < 10 {
		t.Errorf("%d sessions", stored)
	}
}

// writeUntilKilled adds sessions and reports each. In the write that is given only half
// of the file is left, and the process ends as by kill -9.
func writeUntilKilled(t *testing.T, how []string) {
	first, err := strconv.Atoi(how[1])
	if err != nil {
		t.Fatal(err)
	}
	folder, writes := unflushed(how[0]), 0
	folder.Flush = func(f *os.File) error {
		if writes++; strconv.Itoa(writes) != how[2] {
			return nil
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if err := f.Truncate(info.Size() / 2); err != nil {
			return err
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		if err := self.Kill(); err != nil {
			return err
		}
		select {}
	}
	for i := range 40 {
		if _, err := NewStore(folder, "").Add(t.Context(), madeSession(t, first+i, 0.01)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stdout.WriteString("stored\n"); err != nil {
			t.Fatal(err)
		}
	}
}
