package owner

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// A name shows its owner, whatever surrounds it, and is equally long for every process.
func TestNames(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := Process{rapid.IntRange(1, 1<<22).Draw(r, "pid"), rapid.Uint64Range(0, 1<<40).Draw(r, "start")}
		name := p.Tagged(TempName(Prefix, ".tmp"))
		got, is := Of(name)
		if !is || got != p || len(name) != len(TempName(Prefix, ".tmp")) {
			r.Fatalf("%s is of %+v, %t", name, got, is)
		}
	})
	if by, is := Of(TempName("gpuprof-kind", "")); !is || by != Self() || !by.Alive() {
		t.Errorf("%+v, %t", by, is)
	}
	for _, name := range []string{"", ".gpuprof-", ".gpuprof-0123456789ab.tmp", "gpuprof-20260102-150405", "gpuprof-gate-1234567890"} {
		if by, is := Of(name); is {
			t.Errorf("%s is of %+v", name, by)
		}
	}
}

// What a process that is gone has left is removed, and nothing else: not what a living one is
// at work on, nor another's with the same number, nor what a link leads to.
func TestSweep(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dead := Process{Pid: gone.Process.Pid, Start: Self().Start}
	before := Process{Pid: os.Getpid(), Start: Self().Start - 1} // an earlier process of this number
	dir, aside := t.TempDir(), t.TempDir()
	file := func(p Process) string { return p.Tagged(TempName(Prefix, ".tmp")) }
	left := []string{file(dead), file(dead) + "x", file(before)}
	kept := []string{file(Self()), "gpuprof-20260102-150405", ".gpuprof-notes", dead.Tagged(TempName("other", "")), "run.json"}
	for _, name := range append(left, kept...) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder := file(dead)
	if err := os.MkdirAll(filepath.Join(dir, folder, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := file(dead)
	if err := os.Symlink(aside, filepath.Join(dir, link)); err != nil {
		t.Fatal(err)
	}
	Sweep(dir)
	for _, name := range append(left, folder) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	for _, path := range append(kept, link) {
		if _, err := os.Lstat(filepath.Join(dir, path)); err != nil {
			t.Errorf("%s is gone", path)
		}
	}
	if _, err := os.Stat(aside); err != nil {
		t.Error("a link was followed")
	}
}
