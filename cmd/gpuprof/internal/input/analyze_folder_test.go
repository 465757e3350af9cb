package input

import (
	"os"
	"path/filepath"
	"testing"
)

// The folder that was given to jax.profiler.trace is its newest recording, read once
// though it holds two forms of it.
func TestFolderOfJAX(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"2026_01_01/h.xplane.pb", "2026_01_02/h.xplane.pb", "2026_01_02/h.trace.json.gz", "2026_01_02/h.memory_profile.pb"} {
		path := filepath.Join(dir, "plugins", "profile", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := filepath.Join(dir, "plugins", "profile", "2026_01_02", "h.xplane.pb")
	got, err := TracesIn(dir)
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%v, %v, want %s", got, err, want)
	}
}
