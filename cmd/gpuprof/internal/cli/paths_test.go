package cli

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPathsInResults(t *testing.T) {
	home := filepath.Join(t.TempDir(), "alice")
	work := filepath.Join(home, "work")
	elsewhere := filepath.Join(t.TempDir(), "job")
	for _, dir := range []string{work, elsewhere} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	for _, c := range []struct{ here, path, stored, shown string }{
		{work, "runs/a.json", "runs/a.json", "runs/a.json"},
		{work, "../a.json", "../a.json", "../a.json"},
		{work, work + "/runs/a.json", "runs/a.json", "runs/a.json"},
		{work, home + "/runs/a.json", "../runs/a.json", "../runs/a.json"},
		{elsewhere, home + "/runs/a.json", "~/runs/a.json", "~/runs/a.json"},
		{elsewhere, "/home/bob/runs/a.json", "a.json", "a.json"},
		{elsewhere, "/data-of-a-lab/runs/a.json", "/data-of-a-lab/runs/a.json", "runs/a.json"},
		{elsewhere, "/a.json", "/a.json", "a.json"},
	} {
		t.Chdir(c.here)
		if got := StoredPath(c.path); got != c.stored {
			t.Errorf("in %s %s is stored as %s, want %s", c.here, c.path, got, c.stored)
		}
		if got := ShownPath(c.path); got != c.shown {
			t.Errorf("in %s %s is shown as %s, want %s", c.here, c.path, got, c.shown)
		}
	}
}
