//go:build unix

package testkit

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// Pipe is a named one, with both ends held so that no opening of it waits.
func Pipe(t *testing.T, path string) *os.File {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.SetReadDeadline(time.Now().Add(GiveUp)); err != nil {
		t.Fatal(err)
	}
	return f
}

// GiveUp bounds only what would hang; no test passes or fails by it.
const GiveUp = 4 * time.Minute
