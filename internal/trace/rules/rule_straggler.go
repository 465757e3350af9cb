package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// firstWait: the finding about a straggler precedes findings with larger claims if the other ranks wait for the
// straggler for at least this share of the step.
const firstWait = 0.1

// subtractWaits removes the waits for other ranks from exposed, the communication time by device, because the finding
// about the straggler claims the waits. known reports whether the waits are known, from recordings of the other ranks.
func (c *ruleContext) subtractWaits(exposed map[int]model.Spans) (known bool) {
	for device, spans := range exposed {
		if waits, ok := c.x.Waits(device); ok {
			exposed[device], known = spans.Minus(waits), true
		}
	}
	return known
}

// findStragglers makes a finding for each straggler, a rank for which the other ranks wait.
func findStragglers(a *analyze.Analysis, indexes []*analyze.Index, job *analyze.JobWaits) (found []analyze.Found) {
	for _, by := range job.Stragglers {
		late := &job.Ranks[by]
		device := indexes[late.Input].DeviceID(late.Device)
		at := slices.IndexFunc(a.Ranks, func(r analyze.RankTime) bool { return r.Straggler && r.Input == late.Input && r.Device == device })
		if at >= 0 {
			found = append(found, newStragglerFinding(&a.Ranks[at], indexes, job, by)...)
		}
	}
	return found
}

// newStragglerFinding makes the finding about the straggler job.Ranks[by], described by rank. The finding claims the
// straggler's extra time between collectives, but at most the median of the other ranks' waits for the straggler.
func newStragglerFinding(rank *analyze.RankTime, indexes []*analyze.Index, job *analyze.JobWaits, by int) []analyze.Found {
	late := &job.Ranks[by]
	var waiters []*analyze.RankWaits
	for i := range job.Ranks {
		if i != by {
			waiters = append(waiters, &job.Ranks[i])
		}
	}
	slices.SortStableFunc(waiters, func(a, b *analyze.RankWaits) int { return cmp.Compare(a.AloneNS[by], b.AloneNS[by]) })
	w := waiters[(len(waiters)-1)/2]
	x := indexes[w.Input]
	spans := w.For[by].First(late.MoreNS * int64(x.SteadySteps()))
	if spans.Total() == 0 {
		return nil
	}
	step := spans.Total() / int64(x.SteadySteps())
	f := analyze.Found{Finding: gpuprof.Finding{Rule: gpuprof.RuleStraggler, ClaimNS: spans.Total(), Input: w.Input}, Spans: spans,
		Device: w.Device, ByInput: late.Input, ByDevice: late.Device,
		First: float64(rank.WaitedNS) >= firstWait*float64(rank.StepNS)}
	cause, per := "", analyze.PerStepWord(x.Stepped())
	if rank.Cause != "" {
		cause = " (" + rank.Cause + ")"
	}
	f.Title = fmt.Sprintf("rank %d arrives last in %d of %d collectives, and the others wait %s %s for it%s%s%s %s",
		rank.Rank, rank.LastIn, rank.Collectives, gpuprof.FormatNS(rank.WaitedNS), per, cause, analyze.Costs, gpuprof.FormatNS(step), per)
	f.Evidence = map[string]any{"rank": rank.Rank, "last_in": rank.LastIn, "collectives": rank.Collectives, "waited_ns": rank.WaitedNS,
		"more_ns": late.MoreNS, "cause": rank.Cause}
	for _, kind := range slices.SortedFunc(maps.Keys(late.Kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(late.Kinds[b], late.Kinds[a]), cmp.Compare(a, b))
	}) {
		f.Sites = append(f.Sites, gpuprof.Site{Where: kind, Count: float64(late.Kinds[kind]), Of: "collective"})
	}
	f.PyTorch = "give the ranks equal work, and the rank's node the same clocks, CPUs and storage"
	if x.SteadySteps() == 1 {
		f.Caveats = append(f.Caveats, "at most one step of each rank was recorded: a profiler that starts later on one rank makes it late as well; record several steps")
	}
	if rank.Cause == "" {
		f.Caveats = append(f.Caveats, fmt.Sprintf("no part of the step of rank %d is much longer than that of the others: the recording does not show why it is late", rank.Rank))
	}
	return []analyze.Found{f}
}
