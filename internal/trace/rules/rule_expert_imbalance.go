package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// leastImbalance: for a finding, the experts of one rank must take at least this many times the mean over the ranks.
	leastImbalance = 1.2
	// leastExperts is the least share of the step that the matrix products of experts must take for a finding.
	leastExperts = 0.05
)

// Job returns the findings that compare the ranks of a job: stragglers, and experts with unequal load. job is nil if
// the collectives of the ranks are unknown.
func Job(a *analyze.Analysis, indexes []*analyze.Index, job *analyze.JobWaits) (found []analyze.Found) {
	if job != nil {
		found = findStragglers(a, indexes, job)
	}
	return append(found, findExpertImbalance(indexes)...)
}

type expertTime struct {
	input, device int
	rank          int
	ns, step      int64 // time of the experts' matrix products per step, and length of the mean step
}

// findExpertImbalance reports that the router of a mixture-of-experts model sends more tokens to the experts of one
// rank than of the other ranks, which then wait. The finding claims no time, because the wait is part of the
// communication of the waiting ranks.
func findExpertImbalance(indexes []*analyze.Index) []analyze.Found {
	ranks := sumExperts(indexes)
	if len(ranks) < 2 {
		return nil
	}
	most, sum := ranks[0], int64(0)
	for _, r := range ranks {
		sum += r.ns
		if r.ns > most.ns {
			most = r
		}
	}
	mean := sum / int64(len(ranks))
	if float64(most.ns) < leastImbalance*float64(mean) || float64(most.ns) < leastExperts*float64(most.step) {
		return nil
	}
	change := adviseParallelism(indexes[most.input], gpuprof.RuleExpertImbalance)
	f := analyze.Found{Finding: gpuprof.Finding{
		Rule: gpuprof.RuleExpertImbalance, Input: most.input, Severity: gpuprof.Note, PyTorch: change,
		Title: fmt.Sprintf("products of experts take %s per step on rank %d, %.1f times the mean of %d ranks (%s)",
			gpuprof.FormatNS(most.ns), most.rank, float64(most.ns)/float64(max(1, mean)), len(ranks), gpuprof.FormatNS(mean)),
		Evidence: map[string]any{"rank": most.rank, "ranks": len(ranks), "most_ns": most.ns, "mean_ns": mean},
		Caveats:  []string{"no time claimed: the other ranks wait in their communication, which straggler and exposed-comm claim"},
	}, Device: -1}
	return []analyze.Found{f}
}

func sumExperts(indexes []*analyze.Index) (out []expertTime) {
	for i, x := range indexes {
		steps := int64(max(1, x.SteadySteps()))
		for _, d := range x.Devices {
			var ns int64
			for _, g := range d.Ops {
				if op := &x.T.GPU[g]; x.Class(g) == model.MoEGEMM && x.Steady.Contains(op.Start) {
					ns += op.Dur()
				}
			}
			if ns == 0 {
				continue
			}
			rank := x.T.Rank
			if len(x.Devices) > 1 || rank < 0 {
				rank = len(out)
			}
			out = append(out, expertTime{i, d.Device, rank, ns / steps, x.Steady.Total() / steps})
		}
	}
	return out
}
