//go:build !race

// Under the race detector reading takes ten times as long: TestCut reads one recording.

package kineto_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/outside"
)

func TestEveryCut(t *testing.T) {
	t.Parallel()
	tried := 0
	err := filepath.WalkDir(filepath.Join("..", "..", "..", "..", "testdata", "traces"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".json.gz") && (!strings.HasSuffix(path, ".json") || strings.HasSuffix(path, "analysis.json") || strings.HasSuffix(path, "index.json")) {
			return err
		}
		text, err := outside.ReadFound(path)
		if err != nil {
			t.Fatal(err)
		}
		x := index(t, text)
		if len(x.Steps) < 4 {
			return nil
		}
		if tried++; !nightly && tried%3 != 0 {
			return nil // by day every third trace
		}
		t.Run(filepath.Base(path), func(t *testing.T) { testCut(t, text, x) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if tried < 10 {
		t.Fatalf("%d traces were cut", tried)
	}
}
