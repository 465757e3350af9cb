package atomicfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gpuprof/gpuprof/internal/atomicfile"
)

// TestWholeOrNot: a file holds what one of its writers wrote, a failure leaves what was
// there, and nothing else is left in the folder.
func TestWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := (atomicfile.Options{Mode: 0o644, Flush: (*os.File).Sync}).Write(path, fmt.Appendf(nil, "%[1]d%[1]d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(path)
	if err != nil || len(text) != 2 || text[0] != text[1] {
		t.Fatalf("%q, %v", text, err)
	}
	full := errors.New("no space")
	if err := (atomicfile.Options{Flush: func(*os.File) error { return full }}).Write(path, []byte("new")); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(text) {
		t.Errorf("%q after a failure, %v", now, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := (atomicfile.Options{}).Write(filepath.Join(dir, "none", "a"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
