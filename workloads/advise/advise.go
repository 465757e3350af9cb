// Package advise turns the figures of a run into advice: the knob to change, the largest possible saving, the command
// that tests it, and the equivalent line of a PyTorch program.
//
// A finding rests on spans measured in its own run. Its bound is the most that it can save, and never exceeds the
// exposed time of its stages: the time that no other stage hides. Only one finding claims each exposed second, so all
// bounds of a run add up to no more than its step. If a sweep contains the setting that a rule would suggest, the
// measured difference replaces the bound, and a setting that measured no gain is not suggested.
package advise

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// Options complete a Run with facts of the command that made it.
type Options struct {
	// Workload is the workload of the runs; it describes their stages and knobs. When nil, only rules that need
	// neither can report.
	Workload workloads.Workload
	// Base are the knob values of the preset alone (workloads.Resolve without the user's own). A finding's command
	// repeats only the knobs that differ from them; without Base it repeats every knob.
	Base gpuprof.Settings
	// Flags are further flags to repeat, as typed: "--device", "host".
	Flags []string
}

// rule finds one kind of problem in one run.
type rule struct {
	id   string
	find func(s *runContext) []gpuprof.Finding
}

// ruleTable lists the rules in the order in which they claim time: measured gains first, then the most specific rules,
// the vaguest last.
func ruleTable() []rule {
	return []rule{
		{gpuprof.RuleMeasured, (*runContext).findMeasuredGains},
		{gpuprof.RulePinEveryBatch, (*runContext).findPinEveryBatch},
		{gpuprof.RuleItem, stallRule(workloads.ReadTogether)},       // the caller waits for each four-byte result
		{gpuprof.RuleResetStats, stallRule(workloads.LeavePeak)},    // the caller waits before it resets a host counter
		{gpuprof.RuleAllocatorChurn, stallRule(workloads.KeepPool)}, // the next step allocates again what was given back to the driver
		{gpuprof.RuleBlockingCopy, (*runContext).findBlockingCopies},
		{gpuprof.RuleExplicitSync, stallRule(workloads.SkipSync)}, // a wait in every step or every few steps, without launches meanwhile
		{gpuprof.RulePageableH2D, (*runContext).findPageableCopies},
		{gpuprof.RuleExposedCopy, (*runContext).findExposedCopies},
		{gpuprof.RuleCollateBound, (*runContext).findCollateBound},
		{gpuprof.RuleDataloaderStall, (*runContext).findStarvation},
		{gpuprof.RuleLaunchBound, (*runContext).findLaunchBound},
		{gpuprof.RuleDeterministic, (*runContext).findDeterministicSums},
		{gpuprof.RuleZeroGrad, fillRule(workloads.WriteFirst)},
		{gpuprof.RuleDeterministicFill, fillRule(workloads.SkipFill)}, // a deterministic mode fills each block before its use
		{gpuprof.RuleNoTF32, (*runContext).findLowerPrecision},
		{gpuprof.RuleNoAMP, (*runContext).findLowerPrecision},
		{gpuprof.RuleFarFromRoofline, (*runContext).findFarFromRoofline},
		{gpuprof.RuleFewThreads, (*runContext).findFewThreads},
		{gpuprof.RuleSmallBatch, (*runContext).findSmallBatch},
		{gpuprof.RuleFragmentation, (*runContext).findFragmentation},
		{gpuprof.RuleLeak, (*runContext).findLeak},
		{gpuprof.RuleThrottled, (*runContext).findThrottling},
		{gpuprof.RuleNoise, (*runContext).findNoise},
	}
}

func stallRule(remedy workloads.Remedy) func(*runContext) []gpuprof.Finding {
	return func(s *runContext) []gpuprof.Finding { return s.findStall(remedy) }
}

// Findings returns the findings of each run, or of each run of a sweep, in the order of runs, the largest bound first.
// Bounds are in seconds per step. Findings changes none of its arguments, and the same runs give the same findings.
func Findings(runs []*gpuprof.Run, o Options) [][]gpuprof.Finding {
	out := make([][]gpuprof.Finding, len(runs))
	for i, r := range runs {
		out[i] = []gpuprof.Finding{}
		if r == nil || r.Status == gpuprof.Invalid {
			continue
		}
		s := newRunContext(r, runs, o)
		for _, rule := range ruleTable() {
			s.rule = rule.id
			out[i] = append(out[i], rule.find(s)...)
		}
		sortByClaim(out[i])
	}
	return out
}

func sortByClaim(f []gpuprof.Finding) {
	slices.SortStableFunc(f, func(a, b gpuprof.Finding) int { return cmp.Compare(b.ClaimS, a.ClaimS) })
}
