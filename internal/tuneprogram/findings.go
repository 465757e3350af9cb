package tuneprogram

import (
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// Finding is a problem that gpuprof analyze found in a recording of the unchanged program.
type Finding struct {
	Rule  string
	Share float64 // share of the step that the finding could save, 0 to 1; 0 if it claims no time
}

// settingsAgainst returns the settings that remove the cause of a rule's finding.
func settingsAgainst(rule string) []string {
	switch rule {
	case gpuprof.RuleDataloaderStall, gpuprof.RuleCollateBound:
		return []string{"num_workers", "persistent_workers", "prefetch_factor"}
	case gpuprof.RuleOptimizerLoop:
		return []string{"fused", "foreach"}
	case gpuprof.RuleAnomalyMode:
		return []string{"anomaly_detection"}
	case gpuprof.RuleTooManyThreads:
		return []string{"threads"}
	case gpuprof.RuleDeterministic, gpuprof.RuleDeterministicFill:
		return []string{"deterministic"}
	case gpuprof.RuleZeroGrad:
		return []string{"set_to_none"}
	case gpuprof.RuleExplicitSync:
		return []string{"torch.cuda.synchronize"}
	case gpuprof.RuleResetStats:
		return []string{"torch.cuda.reset_peak_memory_stats"}
	case gpuprof.RuleAllocatorChurn:
		return []string{"torch.cuda.empty_cache"}
	case gpuprof.RulePageableH2D, gpuprof.RuleExposedCopy:
		return []string{"pin_memory"}
	case gpuprof.RuleNoTF32:
		return []string{"tf32"}
	case gpuprof.RuleNoAMP:
		return []string{"autocast"}
	case gpuprof.RuleLaunchBound, gpuprof.RuleHostBound, gpuprof.RuleElementwiseChain, gpuprof.RuleHostOperator:
		return []string{"compile"}
	case gpuprof.RuleOutsideOperators:
		return []string{"gc.collect"}
	}
	return nil
}

// leastRunsToRecord is the least budget at which the program is recorded, in durations of a plain run. A recording takes about
// three.
const leastRunsToRecord = 24

// shareOfRecording is the largest part of the budget that the recording takes.
const shareOfRecording = 0.25

// askFindings records the program once if the budget allows it. Settings that the findings name are tried first.
func (e *engine) askFindings() {
	if e.Findings != nil && e.found == nil && e.p.Metric == tune.PerStep && e.Budget >= leastRunsToRecord*e.times[""] {
		e.showProgress("recording", "")
		var err error
		if e.found, err = e.Findings(e.ctx, min(shareOf(e.Budget, shareOfRecording), e.Budget-e.timeNow())); err != nil {
			e.p.Left = append(e.p.Left, tune.LeftOut{Setting: "findings",
				Reason: "recording the program: " + interruptedText(err)})
		}
	}
	for _, r := range e.rows {
		for _, f := range e.found {
			if slices.Contains(settingsAgainst(f.Rule), r.Knob) {
				r.claim = max(r.claim, min(f.Share, mostClaim), leastClaim)
			}
		}
	}
	e.sortRows()
	e.p.Findings = e.findingGains()
}

// leastClaim and mostClaim bound row.claim, the share of the step's time that findings claim for a setting.
// A finding without a claimed time gives leastClaim. Its settings then still sort before those that no finding names.
// With mostClaim, the expected gain -log(1-claim) stays finite.
const leastClaim, mostClaim = 1e-6, 0.99

// earlierFindings restores the resumed search's findings. It never returns nil, which would start a new recording.
func earlierFindings(gains []tune.FindingGain) []Finding {
	out := []Finding{}
	for _, g := range gains {
		if !slices.ContainsFunc(out, func(f Finding) bool { return f.Rule == g.Rule }) {
			f := Finding{Rule: g.Rule}
			if g.Claim > 1 {
				f.Share = 1 - 1/g.Claim
			}
			out = append(out, f)
		}
	}
	return out
}

// findingGains pairs each finding with the measured gain of each setting that removes its cause.
func (e *engine) findingGains() (out []tune.FindingGain) {
	for _, f := range e.found {
		for _, r := range e.rows {
			if slices.Contains(settingsAgainst(f.Rule), r.Knob) {
				out = append(out, r.compareClaim(f))
			}
		}
	}
	return out
}

func (r *row) compareClaim(f Finding) tune.FindingGain {
	g := tune.FindingGain{Rule: f.Rule, Setting: r.Name(), Verdict: tune.NotMeasured}
	if f.Share > 0 && f.Share < 1 {
		g.Claim = 1 / (1 - f.Share)
	}
	if len(r.gains) >= leastForInterval {
		g.Gain, g.CI95 = estimateRatio(r.gains)
	}
	switch {
	case g.CI95 == [2]float64{}:
	case g.Claim == 0:
		g.Verdict = tune.NoTime
	case g.CI95[1] < g.Claim:
		g.Verdict = tune.OverClaimed
	case g.CI95[0] > g.Claim:
		g.Verdict = tune.UnderClaimed
	default:
		g.Verdict = tune.ClaimHeld
	}
	return g
}
