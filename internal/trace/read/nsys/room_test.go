package nsys

import (
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// An export in WAL mode whose tables are in its log is called that, with what to do.
func TestWAL(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open.sqlite")
	db, err := sql.Open("sqlite", open)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, s := range append([]string{"PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0"}, schema2021()...) {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	copied := filepath.Join(t.TempDir(), "trace.sqlite")
	for _, c := range []struct{ ext, want string }{{"", "trace.sqlite-wal, which is missing"}, {"-wal", "trace.sqlite-wal beside it"}} {
		copyFile(t, open+c.ext, copied+c.ext)
		_, err := Read(t.Context(), copied, copied, 0)
		if !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "WAL mode") || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "journal_mode=DELETE") {
			t.Errorf("%q: %v", c.ext, err)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
