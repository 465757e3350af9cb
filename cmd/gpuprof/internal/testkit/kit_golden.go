package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Golden fails the test if got differs from the content of a file. With update, it first writes got to the file.
func Golden(t *testing.T, update bool, file string, got []byte) {
	t.Helper()
	if update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (run the test with -update if that is right):\n%s", file, got)
	}
}
