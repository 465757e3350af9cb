package results

import (
	"testing"
)

// Figures of a program without a benchmark library: which texts have some, and what they are in base units.
func TestPlainFigures(t *testing.T) {
	type want struct {
		name, unit string
		higher     bool
		samples    []float64
	}
	for name, c := range map[string]struct {
		text string
		want []want
	}{
		"lines among words": {"loading 3 files\nload 12.5 ms\nload 13 ms\nrate: 410 items/s\ndone\n", []want{{"load", "s", false, []float64{0.0125, 0.013}}, {"rate", "items/s", true, []float64{410}}}},
		"no space":          {"peak = 2GiB\n", nil},
		"joined unit":       {"peak 2GiB\n", []want{{"peak", "B", false, []float64{2 << 30}}}},
		"two units":         {"load 1 s\nload 5 B\n", []want{{"load", "s", false, []float64{1}}, {"load B", "B", false, []float64{5}}}},
		"JSON":              {"{\"load_ms\": 12.5, \"items_per_s\": 410, \"loss\": 0.25}\n", []want{{"items_per_s", "", true, []float64{410}}, {"load_ms", "s", false, []float64{0.0125}}, {"loss", "", false, []float64{0.25}}}},
		"steps":             {"step 1\nstep 2\nepoch 3 loss 0.5\n", nil},
		"lines of JSON":     {"{\"step\": 1, \"loss\": 0.5}\n{\"step\": 2, \"loss\": 0.4}\n", nil},
		"other JSON":        {"{\"name\": \"x\", \"value\": 3}\n", nil},
		"null":              {"{\"value\": null}\n", nil},
		"unknown unit":      {"answer 42 apples\n", nil},
		"sentence":          {"it took 3 s\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Known([]byte(c.text)); got != (c.want != nil) {
				t.Fatalf("known is %v", got)
			}
			found, format, err := Parse([]byte(c.text), "x", OS)
			if c.want == nil {
				if err == nil {
					t.Fatalf("read as %s: %+v", format, found)
				}
				return
			}
			if err != nil || format != FormatPlain || len(found) != 1 || len(found[0].Metrics) != len(c.want) {
				t.Fatalf("%s, %v, %+v", format, err, found)
			}
			for i, w := range c.want {
				m := found[0].Metrics[i]
				if m.Name != w.name || m.Unit != w.unit || m.HigherIsBetter != w.higher || len(m.Runs) != 1 || len(m.Runs[0]) != len(w.samples) {
					t.Errorf("metric %+v, want %+v", m, w)
					continue
				}
				for k, v := range w.samples {
					if d := m.Runs[0][k]/v - 1; d > 1e-12 || d < -1e-12 { // of scaling by a power of ten
						t.Errorf("%s is %g, want %g", w.name, m.Runs[0][k], v)
					}
				}
			}
		})
	}
}
