//go:build unix

package testkit

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// Pipe makes a named pipe at path. It opens both ends, so that a program that opens one does not wait.
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

// GiveUp limits the wait of a test that would hang otherwise. No result of a test depends on it.
const GiveUp = 4 * time.Minute
