package gpucheck

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A figure of the simulator loses everything that was measured; one of a GPU
// keeps it, and fails the test where it misses its limit.
func TestFiguresOfTheSimulatorAreEmpty(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures.jsonl")
	t.Setenv(figuresVariable, path)
	full := figure{Name: "a", Unit: "s", Value: ptr(2.0), Bound: ptr(1.0), Extra: map[string]float64{"x": 3}, Limit: "below 1", Pass: ptr(false)}
	recorder := &silent{TB: t}
	(&rig{t: recorder}).keep(full)
	if recorder.failed {
		t.Error("a time of the simulator was judged")
	}
	(&rig{t: recorder, real: true}).keep(full)
	if !recorder.failed {
		t.Error("a missed limit did not fail the test")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, expected 2", len(lines))
	}
	var dry, kept figure
	for i, to := range []*figure{&dry, &kept} {
		if err := json.Unmarshal([]byte(lines[i]), to); err != nil {
			t.Fatal(err)
		}
	}
	if !dry.Dry || dry.Value != nil || dry.Bound != nil || dry.Extra != nil || dry.Pass != nil || dry.Limit != "below 1" {
		t.Errorf("the simulator's figure is %+v", dry)
	}
	if kept.Dry || *kept.Value != 2 || *kept.Bound != 1 || kept.Extra["x"] != 3 || *kept.Pass {
		t.Errorf("the GPU's figure is %+v", kept)
	}
	if err := appendFigure(filepath.Join(path, "below a file"), full); err == nil {
		t.Error("an impossible path was written")
	}
}

// silent takes note of a failure instead of failing.
type silent struct {
	testing.TB
	failed bool
}

func (s *silent) Helper()               {}
func (s *silent) Errorf(string, ...any) { s.failed = true }

func TestTheilSen(t *testing.T) {
	x, y := []float64{5, 10, 20, 50, 100}, make([]float64, 5)
	for i := range x {
		y[i] = 3 + 1.25*x[i]
	}
	y[4] = 1000 // one wild point moves nothing much
	if s := theilSen(x, y); math.Abs(s-1.25) > 1e-12 {
		t.Errorf("slope %g, expected 1.25", s)
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median %g, expected 2.5", m)
	}
	if e := relative([2]float64{math.NaN(), 1}); e < 1 {
		t.Errorf("a NaN passes with %g", e)
	}
}
