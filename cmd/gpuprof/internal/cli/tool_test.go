package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// A build has one hash; a file without the linker's note, or with an empty build ID, has no build ID.
func TestBuildHash(t *testing.T) {
	if a := BuildHash(); len(a) != 64 || a != BuildHash() {
		t.Errorf("hash %q, and then %q", a, BuildHash())
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	id := buildID(exe)
	if runtime.GOOS == "linux" && bytes.Count(id, []byte("/")) != 3 {
		t.Errorf("build ID %q, want the four parts that `go tool buildid` prints", id)
	}
	text, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, bytes.Replace(text, id, bytes.Repeat([]byte{1}, len(id)), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := buildID(other); runtime.GOOS == "linux" && bytes.Equal(got, id) {
		t.Errorf("a program with another note has the same build ID %q", got)
	}
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := buildID(other); got != nil {
		t.Errorf("a script has the build ID %q", got)
	}
}
