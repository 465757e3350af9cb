package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads/guides"
)

// testWholeRun measures a claim whose figure comes from a single run: a stage's share, or the cost of the probes.
func (c *claimRunner) testWholeRun(k guides.Claim, row *tune.ClaimRow, limit time.Duration) error {
	ab := k.AB[0]
	w := c.find(ab.Workload)
	o, err := c.measureOnce("claims", k.ID+" | "+abSide(ab, ab.B), k.ID, limit, func() (*tune.Outcome, error) {
		run, err := c.run(c.ctx, w, ab.Preset, ab.B, min(max(limit, leastProcess), mostProcess))
		if c.ctx.Err() != nil || errors.Is(err, context.Canceled) {
			return nil, context.Canceled
		}
		o := &tune.Outcome{}
		if err == nil && (run == nil || run.Step == nil) {
			err = gpuprof.Errorf(gpuprof.ErrDevice, "running %s: no sample was measured", ab.Workload).WithFix("run it by itself to see why")
		}
		if err != nil {
			failOutcome(o, err)
			return o, nil
		}
		if k.Run == guides.Overhead {
			addOverhead(o, run)
		} else {
			addShares(o, run, k.Shares)
		}
		return o, nil
	})
	if errors.Is(err, errSpent) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.Verdict != "" || len(o.B) == 0 || len(o.B[0]) < 3 {
		row.Verdict, row.Reason = notMeasurable, o.Reason
		return nil
	}
	row.Measured, row.CI95, row.What = o.B[0][0], [2]float64{o.B[0][1], o.B[0][2]}, o.Unit
	if k.Run == guides.Overhead {
		row.What = ""
		row.Details = append(row.Details, o.Unit)
		row.Verdict, row.Reason = judgeClaim(k, row.CI95)
		return nil
	}
	row.Verdict, row.Reason = shareVerdict(row, k.Shares[0])
	row.Details = append(row.Details, o.Reason)
	return nil
}

// addOverhead stores in the outcome's B the ratio of a step with probes to a step without, and the ends of its
// interval.
func addOverhead(o *tune.Outcome, r *gpuprof.Run) {
	if r.Overhead == nil {
		o.Reason = "the run has no bare blocks to compare with"
		return
	}
	// The ratio is also the factor by which a step without probes is faster.
	o.B = [][]float64{{r.Overhead.Ratio, r.Overhead.CI95[0], r.Overhead.CI95[1]}}
	o.Unit = "steps with probes over steps without"
}

// addShares stores the largest stage's share in each sample, and a note whether the stages add up to the wall time.
func addShares(o *tune.Outcome, r *gpuprof.Run, guide []guides.StageShare) {
	want := guide[0].Stage
	var top []float64
	var sums []float64
	means := map[string]float64{}
	total := 0.0
	for _, s := range r.Stages {
		if s.Parent != gpuprof.StageStep || s.Exposed.N() == 0 {
			continue
		}
		xs := s.Exposed.Runs[0]
		if s.Name == want {
			top = xs
		}
		for len(sums) < len(xs) {
			sums = append(sums, 0)
		}
		for i, x := range xs {
			sums[i] += x
		}
		means[s.Name] = stat.Mean(xs, nil)
		total += means[s.Name]
	}
	if len(top) == 0 {
		o.Reason = "the run has no stage " + want
		return
	}
	var ratios []float64
	for i, v := range top {
		if sums[i] > 0 {
			ratios = append(ratios, v/sums[i])
		}
	}
	sum := stats.Summarise("", ratios)
	o.B, o.Unit = [][]float64{{sum.Median, tune.FiniteOrZero(sum.CI95[0]), tune.FiniteOrZero(sum.CI95[1])}}, "share of "+want
	period := cmp.Or(r.ProbedStep, r.Step)
	o.Reason = fmt.Sprintf("%s; they add up to %.1f %% of the step's wall clock", compareShares(means, total, guide), 100*total/stat.Mean(period.Runs[0], nil))
}

// compareShares lists the stages from the largest down, each with the guide's share.
func compareShares(means map[string]float64, total float64, guide []guides.StageShare) string {
	names := slices.SortedFunc(maps.Keys(means), func(a, b string) int {
		return cmp.Or(cmp.Compare(means[b], means[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, n := range names {
		text := fmt.Sprintf("%s %.1f %%", n, 100*means[n]/total)
		for _, g := range guide {
			if g.Stage == n {
				text += fmt.Sprintf(" (guide %.0f %%)", 100*g.Share)
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// near is the largest ratio between a measured share and the guide's share at which the two count as equal.
const near = 1.1

// shareVerdict compares the measured share of the guide's largest stage with the guide's figure.
func shareVerdict(row *tune.ClaimRow, guide guides.StageShare) (verdict, reason string) {
	want := guide.Share
	low, high := want/near, want*near
	reason = fmt.Sprintf("%s; the guide's is %.0f %%, of another program", row.What, 100*want)
	switch {
	case row.CI95[1] < low:
		return smaller, reason
	case row.CI95[0] > high:
		return larger, reason
	case row.CI95[0] >= low && row.CI95[1] <= high:
		return confirmed, reason
	}
	return open, reason + "; the interval holds that and more; give more time with --budget"
}

// leastSaved is the least share of transfers that the guide promises to save.
const leastSaved = 0.5

// addSaving stores in the row the share of copies that B saves, which is equal in every block. The effect on time
// becomes a detail of the row.
func addSaving(row *tune.ClaimRow, o *tune.Outcome, time ratioEstimate) {
	saved := 1 - o.CountB["copies"]/o.CountA["copies"]
	row.Measured, row.CI95, row.What = saved, [2]float64{saved, saved}, "fewer copies per step"
	row.Verdict, row.Reason = judgeSaved(saved)
	addTimeText(row, o, time)
}

// addTimeText adds the effect on time and on other counts to a row whose figure is a count.
func addTimeText(row *tune.ClaimRow, o *tune.Outcome, time ratioEstimate) {
	if time.ok {
		row.Details = append(row.Details, fmt.Sprintf("time: x%.3f (%.3f to %.3f)", 1/time.ratio, 1/time.ci[1], 1/time.ci[0]))
	}
	if text := countsText(o); text != "" {
		row.Details = append(row.Details, "a step: "+text)
	}
}

// smallerPeak stores in the row the share by which B lowers the memory peak, which is equal in every block. The
// effect on time becomes a detail of the row.
func smallerPeak(row *tune.ClaimRow, o *tune.Outcome, time ratioEstimate) {
	saved := 1 - float64(o.MemoryB)/float64(o.MemoryA)
	row.Measured, row.CI95, row.What = saved, [2]float64{saved, saved}, "lower peak memory"
	row.Verdict, row.Reason = judgeMemory(saved)
	addTimeText(row, o, time)
}

// judgeMemory returns the verdict on a lower memory peak; no guide gives a figure for it.
func judgeMemory(saved float64) (verdict, reason string) {
	const counted = "bytes are counted, so there is no interval"
	switch {
	case saved > equivalence:
		return confirmed, counted
	case saved < -equivalence:
		return opposite, "the recommended setting takes more memory here"
	}
	return noEffect, "within 2 % either way; " + counted
}

// judgeSaved compares the share of saved transfers with the guide's. The share is counted, so it has no interval.
func judgeSaved(saved float64) (verdict, reason string) {
	const counted = "copies are counted, so there is no interval"
	switch {
	case saved >= leastSaved:
		return confirmed, counted
	case saved > 0:
		return smaller, fmt.Sprintf("the guide promises %.0f %%; %s", 100*leastSaved, counted)
	case saved < 0:
		return opposite, "the recommended setting copies more often here"
	}
	return noEffect, counted
}
