package advise

import (
	"maps"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// unsure are the warnings that say by themselves that figures of the run are
// not to be believed: its times, what probing them cost, or its telemetry.
var unsure = []string{"clock-mismatch", "foreign-process", "few-samples", "warm-up-only", "energy-invalid"}

// noisy are those that say why figures scatter. They are evidence, where they
// do: a busy machine whose figures are steady has done no harm.
var noisy = []string{"not-settled", "busy-machine", "uneven-steps", "time-budget", "warm-up-cut", "ladder-unmeasured"}

const (
	// wideInterval is the half-width of the step's interval, as a share, from
	// which on two such runs cannot be told apart at the default threshold.
	wideInterval = leastShare / 2
	// quarters are the parts of a process's samples that are held against each
	// other, and leastQuarter what each needs.
	quarters     = 4
	leastQuarter = 5
)

// noise: the run's figures are uncertain, by its own account: the interval of
// the step is wide, the step drifted while it was measured, or a warning says
// so. It claims nothing.
func (s *scene) noise() []gpuprof.Finding {
	evidence := map[string]any{}
	if r := s.run.Step; r.N() >= leastSamples && positive(r.Median) {
		switch half := stats.HalfWidth(r); {
		case !r.CI95.Known():
			evidence["step_interval"] = "none: too few independent samples"
		case half > wideInterval:
			evidence["step_interval_share"] = half
		}
		if d := drift(r); d > leastShare {
			evidence["step_drift_share"] = d
		}
	}
	also := map[string]any{}
	for _, w := range s.run.Warnings {
		switch {
		case slices.Contains(unsure, w.Code):
			evidence[w.Code] = w.Text
		case slices.Contains(noisy, w.Code):
			also[w.Code] = w.Text
		}
	}
	if len(evidence) == 0 {
		return nil
	}
	maps.Copy(evidence, also)
	return []gpuprof.Finding{s.finding(advice{
		evidence: evidence, command: s.sweep() + " --runs 6",
		pytorch: "measure several processes of the program, each past its warm-up, on an idle machine",
	}, 0)}
}

// drift is by how much the medians of the quarters of a process differ, as a
// share of the series' median; that of the worst process.
func drift(x *gpuprof.Series) float64 {
	worst := 0.0
	for _, run := range x.Runs {
		n := len(run) / quarters
		if n < leastQuarter {
			continue
		}
		lo, hi := math.Inf(1), math.Inf(-1)
		for q := range quarters {
			m := stats.Median(run[q*n : (q+1)*n])
			lo, hi = min(lo, m), max(hi, m)
		}
		if d := (hi - lo) / x.Median; !math.IsNaN(d) {
			worst = max(worst, d)
		}
	}
	return worst
}
