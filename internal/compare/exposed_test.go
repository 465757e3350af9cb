package compare

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// Two runs of the same program, one recorded when the first stage owned a copy's
// overlap with a kernel: the rule moved 87 us between stages, the program none.
func TestExposedByAnotherRule(t *testing.T) {
	side := func(version string, h2d, radial float64) *Result {
		series := func(v float64) *gpuprof.Series {
			s := &gpuprof.Series{Unit: "s"}
			for i := range 6 {
				s.Runs = append(s.Runs, slices.Repeat([]float64{v * (1 + 1e-4*float64(i))}, 20))
			}
			return s
		}
		r, err := FromRun(&gpuprof.Run{
			Head: gpuprof.Head{Version: version}, Status: gpuprof.Complete, Workload: "e3nn", Preset: "mace-large", Step: series(h2d + radial),
			Stages: []gpuprof.StageResult{{Name: "h2d", Parent: "step", Exposed: series(h2d)}, {Name: "radial", Parent: "step", Exposed: series(radial)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	before, after := side("1.0.0", 287e-6, 900e-6), side("1.1.0", 0.1e-6, 1186.9e-6)
	for name, c := range map[string]func() (*Comparison, error){
		"files":    func() (*Comparison, error) { return Compare(before, after, Options{}) },
		"baseline": func() (*Comparison, error) { return CompareStored([]*Result{before}, after, Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c()
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Metrics) != 1 || got.Metrics[0].Name != "step" || got.Metrics[0].Verdict != Same {
				t.Errorf("compared %+v", got.Metrics)
			}
			if !slices.ContainsFunc(got.Warnings, func(w gpuprof.Warning) bool { return w.Code == "stages-not-compared" }) {
				t.Errorf("nothing says that stages were left out: %v", got.Warnings)
			}
		})
	}
	t.Run("same rule", func(t *testing.T) {
		got, err := Compare(after, side("1.1.0", 0.1e-6, 1500e-6), Options{})
		if err != nil || len(got.Metrics) != 3 {
			t.Errorf("compared %+v, %v", got, err)
		}
	})
	t.Run("sessions of both rules", func(t *testing.T) {
		got, err := CompareStored([]*Result{before, after}, after, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Metrics {
			if m.Name == "step/radial" && (m.Verdict != Same || m.Runs[0] != 6) {
				t.Errorf("%+v", m)
			}
		}
	})
}
