// Package advise turns the figures of a run into advice: which knob to turn,
// what that can save at most, which command tests it and which line of a
// PyTorch program it stands for.
//
// A finding rests on spans measured in the run it is about. Its bound is never
// more than the exposed time it accounts for, and an exposed second is claimed
// by one finding only, so that all bounds of a run add up to no more than its
// step. Where a sweep holds the setting that a rule would suggest, the measured
// difference replaces the bound, and a setting that was seen not to help is not
// suggested.
package advise

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// Options are what a Run does not say about the command that made it.
type Options struct {
	// Workload is the runs' own, looked up by Run.Workload: its stages and knobs
	// say what they do. Without it only rules that need neither find something.
	Workload workloads.Workload
	// Base are the knob values of the preset alone (workloads.Resolve without the
	// user's own): what differs from them is repeated in a finding's command.
	// Without them every knob is.
	Base gpuprof.Settings
	// Flags are further flags to repeat, as typed: "--device", "host".
	Flags []string
}

// rule looks for one thing in one run.
type rule struct {
	id   string
	find func(s *scene) []gpuprof.Finding
}

// ruleTable lists the rules in the order in which they claim time: what was
// measured first, then what says most about a second, the vaguest last.
func ruleTable() []rule {
	return []rule{
		{gpuprof.RuleMeasured, (*scene).measured},
		{gpuprof.RulePinEveryBatch, (*scene).repinned},
		{gpuprof.RuleItem, waits(workloads.ReadTogether)},       // results are read four bytes at a time, and the caller waits for each
		{gpuprof.RuleResetStats, waits(workloads.LeavePeak)},    // before it resets a counter that is the host's own
		{gpuprof.RuleAllocatorChurn, waits(workloads.KeepPool)}, // cached memory goes back to the driver, and the next step asks for it anew
		{gpuprof.RuleBlockingCopy, (*scene).blockingCopies},
		{gpuprof.RuleExplicitSync, waits(workloads.SkipSync)}, // every step or every few, and nothing is launched meanwhile
		{gpuprof.RulePageableH2D, (*scene).pageable},
		{gpuprof.RuleExposedCopy, (*scene).exposedCopies},
		{gpuprof.RuleCollateBound, (*scene).collateBound},
		{gpuprof.RuleDataloaderStall, (*scene).starved},
		{gpuprof.RuleLaunchBound, (*scene).launchBound},
		{gpuprof.RuleDeterministic, (*scene).deterministic},
		{gpuprof.RuleZeroGrad, fills(workloads.WriteFirst)},
		{gpuprof.RuleDeterministicFill, fills(workloads.SkipFill)}, // a deterministic mode writes every block of memory before it is used
		{gpuprof.RuleNoTF32, (*scene).precision},
		{gpuprof.RuleNoAMP, (*scene).precision},
		{gpuprof.RuleFarFromRoofline, (*scene).farFromRoofline},
		{gpuprof.RuleFewThreads, (*scene).threads},
		{gpuprof.RuleSmallBatch, (*scene).smallBatch},
		{gpuprof.RuleFragmentation, (*scene).fragmented},
		{gpuprof.RuleLeak, (*scene).leaked},
		{gpuprof.RuleThrottled, (*scene).throttled},
		{gpuprof.RuleNoise, (*scene).noise},
	}
}

// waits is the rule about a knob that makes the caller wait for the device.
func waits(remedy workloads.Remedy) func(*scene) []gpuprof.Finding {
	return func(s *scene) []gpuprof.Finding { return s.stalled(remedy) }
}

// Findings looks at one run or the runs of a sweep and returns the findings of
// each, in the order of runs, those with the largest bound first. Bounds are in
// seconds a step. It changes nothing, and the same runs give the same findings.
func Findings(runs []*gpuprof.Run, o Options) [][]gpuprof.Finding {
	out := make([][]gpuprof.Finding, len(runs))
	for i, r := range runs {
		out[i] = []gpuprof.Finding{}
		if r == nil || r.Status == gpuprof.Invalid {
			continue
		}
		s := newScene(r, runs, o)
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
