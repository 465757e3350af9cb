package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// endEarly gives stage 1's final verdict to metrics that are slower (returned) or faster beyond doubt. The mean over
// blocks must exceed the equivalence margin at level earlyAlpha (Holm over all metrics, in either direction), and every
// block must exceed the threshold. The order of the processes must show no rhythm or lasting level change of the
// machine, which could coincide with the order of the sides. EarlyBlocks (three) suffice: the fewer blocks, the better
// they must agree under Student's t.
func (b *comparisonState) endEarly() (slower []*entry) {
	var family []*entry
	var worse, better []float64
	for _, e := range b.entries {
		if e.Exact || e.decidedEarly() || !e.ok || e.blocked != "" && e.blame != blameRuns || len(e.blocks.Ratios) < EarlyBlocks {
			continue
		}
		family = append(family, e)
		worse, better = append(worse, e.beyondDoubt(e.worseSign())), append(better, e.beyondDoubt(-e.worseSign()))
	}
	worse, better = stats.Holm(worse), stats.Holm(better)
	for i, e := range family {
		r := &e.result
		switch {
		case min(worse[i], better[i]) <= earlyAlpha && e.rhythmPValue(b.order) <= trendAlpha:
			continue
		case worse[i] <= earlyAlpha:
			r.PAdjusted, r.Verdict = gpuprof.Number(worse[i]), Regressed
			slower = append(slower, e)
		case better[i] <= earlyAlpha:
			r.PBetterAdjusted, r.Verdict = gpuprof.Number(better[i]), Improved
		default:
			continue
		}
		e.blocked, e.blame = "", blameNone
		r.Reason = fmt.Sprintf("all %d blocks of stage 1 agree", len(e.blocks.Ratios))
	}
	return slower
}

// rhythmPValue returns the p-value of the hypothesis that the processes of both sides, in time order, show no periodic
// or lasting change. It returns 1 for processes that alternate in short turns, since both sides share that disturbance.
func (e *entry) rhythmPValue(order []bool) float64 {
	if e.blocks.TakesTurns() {
		return 1
	}
	return stats.FindRhythm(interleaveRuns(e.blocks.Deviations(), order))
}

// beyondDoubt returns the p-value of endEarly's test for an increase (sign 1) or a decrease (-1). It returns 1
// without a test if a block's change is within the threshold.
func (e *entry) beyondDoubt(sign float64) float64 {
	delta, limit := e.limits()
	if slices.ContainsFunc(e.blocks.Ratios, func(d float64) bool { return sign*d <= limit }) {
		return 1
	}
	mean, ok := e.blocks.Estimate(stats.PairedMean)
	if !ok {
		return 1
	}
	if sign < 0 {
		mean = mean.Negate()
	}
	return mean.PNotAbove(delta)
}

// confirmFaster gives the verdict Improved to the metrics that the previous stage found faster and that this stage's
// entries, now, confirm: by the test for a speedup at level alpha, with Holm's procedure over these metrics. A
// confirmed entry replaces the previous entry in final. A metric whose fresh blocks are slower becomes Inconclusive,
// because the two stages contradict each other. The others stay Same, with the missing confirmation as their reason.
func (g *Gate) confirmFaster(final []*entry, now map[string]*entry) (again []*entry) {
	p := make([]float64, len(g.faster))
	for i, first := range g.faster {
		p[i] = math.NaN()
		if second := now[first.Name]; second != nil && second.ok && second.blocked == "" && !second.decidedEarly() {
			second.inheritEvidence(first)
			p[i] = second.mirrored()
		}
	}
	for i, adjusted := range stats.Holm(p) {
		first := g.faster[i]
		stage := g.last.stages
		if second := now[first.Name]; !math.IsNaN(adjusted) && second.isSlower() {
			second.result.Verdict = Inconclusive
			second.blockVerdict(blameNoise, fmt.Sprintf("faster in stage %d and slower in the fresh blocks of stage %d: the program or the machine changed between them", stage, stage+1))
			final[slices.Index(final, first)] = second
			continue
		}
		if !(adjusted <= alpha) {
			first.passUnconfirmed(fmt.Sprintf("faster in stage %d, but stage %d did not find it again, so that is not confirmed", stage, stage+1))
			if !math.IsNaN(adjusted) {
				first.result.PBetterAdjusted = gpuprof.Number(adjusted) // the later evidence counts
			}
			continue
		}
		second := now[first.Name]
		second.result.PBetterAdjusted, second.result.Verdict = gpuprof.Number(adjusted), Improved
		final[slices.Index(final, first)] = second
		again = append(again, second)
	}
	return again
}

// isSlower reports whether the whole 95 % interval of the change is on the worse side.
func (e *entry) isSlower() bool {
	if e.worseSign() > 0 {
		return e.effect.Lower(0.975) > 0
	}
	return e.effect.Upper(0.975) < 0
}

// passUnconfirmed passes a metric that may be faster, with the reason why its verdict is not Improved.
func (e *entry) passUnconfirmed(why string) { e.result.Verdict, e.result.Reason = Same, why }
