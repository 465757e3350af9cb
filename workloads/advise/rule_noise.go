package advise

import (
	"maps"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// unsure lists warnings, each of which makes the run's times, the cost of its probes or its telemetry unreliable.
var unsure = []string{"clock-mismatch", "foreign-process", "few-samples", "warm-up-only", "energy-invalid"}

// noisy lists the warnings that explain scattered figures; without scatter a busy machine does no harm.
var noisy = []string{"not-settled", "busy-machine", "uneven-steps", "time-budget", "warm-up-cut", "ladder-unmeasured"}

const (
	// wideInterval is the half-width of the step's interval, relative to the step, above which two such runs cannot
	// be distinguished at the default threshold.
	wideInterval = leastShare / 2
	// quarters is the number of parts into which a process's samples are divided to find drift. leastQuarter is the
	// least number of samples in each.
	quarters     = 4
	leastQuarter = 5
)

// findNoise reports that the run's own figures are uncertain: the step's interval is wide, the step drifted during
// the measurement, or a warning reports it. It claims nothing.
func (s *runContext) findNoise() []gpuprof.Finding {
	evidence := map[string]any{}
	if r := s.run.Step; r.N() >= leastSamples && positive(r.Median) {
		switch half := stats.HalfWidth(r); {
		case !r.CI95.Known():
			evidence["step_interval"] = "none: too few independent samples"
		case half > wideInterval:
			evidence["step_interval_share"] = half
		}
		if d := relativeDrift(r); d > leastShare {
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
		evidence: evidence, command: s.sweepCommand() + " --runs 6",
		pytorch: "measure several processes of the program, each past its warm-up, on an idle machine",
	}, 0)}
}

// relativeDrift divides each process's samples into quarters. It returns the range of the quarters' medians, divided
// by the median of the series, for the process with the largest range.
func relativeDrift(x *gpuprof.Series) float64 {
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
