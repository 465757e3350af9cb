package child

import (
	"os"
	"path/filepath"
	"testing"
)

// A sweep removes what has no living owner, and nothing else.
func TestSweep(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	live, err := NewScratch(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	dead, foreign, shared := filepath.Join(temp, "gpuprof-test-dead"), filepath.Join(temp, "gpuprof-notes"), filepath.Join(temp, "gpuprof-shared")
	for _, dir := range []string{dead, foreign, shared} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{dead, shared} {
		if err := os.WriteFile(filepath.Join(dir, ownerFile), []byte(`{"pid":1,"start":1,"trees":["/","/etc"]}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(shared, 0o777); err != nil { // anyone may have written what it says
		t.Fatal(err)
	}
	Sweep(t.Context(), temp)
	for dir, want := range map[string]bool{live.Dir: true, dead: false, foreign: true, shared: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %t", dir, err, want)
		}
	}
}
