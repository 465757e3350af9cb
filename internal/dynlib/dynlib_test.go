package dynlib

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestFirst(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "libbroken.so.1")
	if err := os.WriteFile(broken, []byte("no ELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere := filepath.Join(t.TempDir(), "libno.so.1")
	_, _, err := First([]string{"libnosuchthing.so.7", nowhere})
	if !errors.Is(err, ErrAbsent) || !strings.HasPrefix(err.Error(), "libnosuchthing.so.7 was not found") {
		t.Errorf("two missing libraries: %v", err)
	}
	if _, _, err := First([]string{nowhere}); !errors.Is(err, ErrAbsent) || !strings.Contains(err.Error(), nowhere) {
		t.Errorf("a missing library: %v", err)
	}
	h, path, err := First([]string{nowhere, broken})
	if Unable != "" {
		if !errors.Is(err, ErrAbsent) || Symbol(0, "labs") != 0 {
			t.Errorf("a build without libraries: %v", err)
		}
		return
	}
	if h != 0 || path != broken || err == nil || errors.Is(err, ErrAbsent) {
		t.Errorf("a broken library is %d, %q, %v", h, path, err)
	}
}

// Folders that sentences about a missing driver name (probes/machine): they are looked in.
func TestPlaces(t *testing.T) {
	if runtime.GOOS != "linux" || Unable != "" {
		return
	}
	if places := Places("libcuda.so.1"); places[0] != "libcuda.so.1" || !slices.Contains(places, "/usr/lib/wsl/lib/libcuda.so.1") {
		t.Errorf("the driver is looked for in %q", places)
	}
}

// The loader reports a missing dependency in the words of a missing library.
func TestAbsent(t *testing.T) {
	there := func(string) (fs.FileInfo, error) { return nil, nil }
	gone := func(string) (fs.FileInfo, error) { return nil, fs.ErrNotExist }
	for _, c := range []struct {
		path, complaint string
		stat            func(string) (fs.FileInfo, error)
		want            bool
	}{
		{"libx.so.1", "libx.so.1: cannot open shared object file: No such file or directory", nil, true},
		{"libx.so.1", "liby.so.2: cannot open shared object file: No such file or directory", nil, false},
		{"libx.so.1", "libx.so.1: file too short", nil, false},
		{"/a/libx.so.1", "/a/libx.so.1: cannot open shared object file: No such file or directory", gone, true},
		{"/a/libx.so.1", "liby.so.2: cannot open shared object file: No such file or directory", there, false},
	} {
		if got := isAbsent(c.path, c.complaint, c.stat); got != c.want {
			t.Errorf("absent(%q, %q) = %t", c.path, c.complaint, got)
		}
	}
}

// The C library is loaded by every dynamic program on Linux: a function of it answers
// through both ways to call it.
func TestCall(t *testing.T) {
	if Unable != "" || runtime.GOOS != "linux" {
		return // nothing can be called
	}
	h, err := Open("libc.so.6")
	if err != nil {
		t.Fatal(err)
	}
	labs := Symbol(h, "labs")
	var bound func(int64) int64
	Bind(&bound, labs)
	if got := bound(-7); got != 7 {
		t.Errorf("bound: %d", got)
	}
	if got := Call(labs, []uintptr{^uintptr(6)}); got != 7 {
		t.Errorf("called: %d", got)
	}
	if Symbol(h, "no such function") != 0 {
		t.Error("a function that is not there has an address")
	}
	if file := LoadedFrom("libc.so.6"); !filepath.IsAbs(file) {
		t.Errorf("loaded from %q", file)
	}
}
