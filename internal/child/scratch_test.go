package child

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/owner"
)

// ofDead renames what was made by this process to what a process that is gone would have made:
// this process's number with another start.
func ofDead(t *testing.T, path string) string {
	t.Helper()
	by, is := owner.Of(filepath.Base(path))
	if !is {
		t.Fatalf("%s has no owner in its name", path)
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	other := owner.Process{Pid: gone.Process.Pid, Start: by.Start}
	to := filepath.Join(filepath.Dir(path), other.Tagged(filepath.Base(path)))
	if err := os.Rename(path, to); err != nil {
		t.Fatal(err)
	}
	return to
}

// A sweep removes what has no living owner, and nothing else.
func TestSweep(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	fresh := func() *Scratch {
		s, err := NewScratch("test")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	live, bare, dead, shared, linked, busy := fresh(), fresh(), fresh(), fresh(), fresh(), fresh()
	defer live.Close()
	file := filepath.Join(t.TempDir(), "file")
	aside := filepath.Join(t.TempDir(), "aside")
	for _, path := range []string{file, aside} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := dead.Outlives("GPUPROF_TEST_MARK=none", file); err != nil {
		t.Fatal(err)
	}
	// The program has ended, one that it started lives: its environment tells.
	program := exec.Command("sh", "-c", "echo; exec cat")
	program.Env = append(os.Environ(), "GPUPROF_TEST_MARK="+busy.Dir)
	hold, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := busy.Outlives("GPUPROF_TEST_MARK=" + busy.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared.Dir, 0o777); err != nil { // anyone may have written what it says
		t.Fatal(err)
	}
	gone := map[string]string{"bare": ofDead(t, bare.Dir), "dead": ofDead(t, dead.Dir)}
	kept := map[string]string{"live": live.Dir, "shared": ofDead(t, shared.Dir), "busy": ofDead(t, busy.Dir), "aside": aside, "another's": filepath.Join(temp, "gpuprof-notes")}
	link := ofDead(t, linked.Dir)
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"link": os.Symlink(filepath.Dir(aside), link), "another's": os.Mkdir(kept["another's"], 0o700)} {
		if err != nil {
			t.Fatal(name, err)
		}
	}
	elsewhere := filepath.Join(temp, strings.Replace(filepath.Base(gone["dead"]), "gpuprof-test-", "gpuprof-test-x", 1))
	elsewhere = elsewhere[:len(elsewhere)-1] // as long, of another machine
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	kept["another machine's"] = elsewhere
	Sweep(t.Context(), temp)
	for what, dir := range kept {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s is gone: %v", what, err)
		}
	}
	gone["its file"] = file
	for what, dir := range gone {
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s is left: %s", what, dir)
		}
	}
	if err := hold.Close(); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err != nil {
		t.Fatal(err)
	}
	Sweep(t.Context(), temp)
	if _, err := os.Stat(kept["busy"]); err == nil {
		t.Error("the folder of an ended program is left")
	}
}
