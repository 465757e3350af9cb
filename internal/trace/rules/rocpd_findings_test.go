//go:build !race

// Under the race detector this takes ten times as long; it runs in one goroutine, where the detector finds nothing.

package rules_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRocpdFindings gives every trace of the rules to the analysis a second time, as
// rocprofv3 would have recorded it. Its findings and their claims are the same.
func TestRocpdFindings(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "testdata", "traces", "*.json"))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			in := recorded(t, file)
			want, _ := analyse(t, in)
			got, _ := analyse(t, asRocpd(t, in))
			d := cmp.Diff(claimed(want), claimed(got))
			why := rocpdLacks[name]
			if d != "" && why == "" {
				t.Errorf("findings (-Kineto +rocpd):\n%s", d)
			}
			if d == "" && why != "" {
				t.Errorf("the findings are the same, so the list is wrong: %s", why)
			}
			if len(want.Steps) == 0 && name != "not-steady-fires" || len(want.Steps) != len(got.Steps) {
				t.Errorf("%d steps, from Kineto %d", len(got.Steps), len(want.Steps))
			}
		})
	}
}
