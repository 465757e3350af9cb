package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// gap is the exposed time that belongs to no stage.
const gap = "gap"

// wholeRun measures a claim whose figure is a run's own: the share of a stage,
// or what the probes cost.
func (c *claimRunner) wholeRun(k Claim, row *ClaimRow, limit time.Duration) error {
	ab := k.AB[0]
	w := c.find(ab.Workload)
	o, err := c.once("claims", k.ID+" | "+ab.Workload+" "+ab.Preset, k.ID, limit, func() (*Outcome, error) {
		run, err := c.run(c.ctx, w, ab.Preset, ab.B, min(max(limit, leastProcess), mostProcess))
		if c.ctx.Err() != nil || errors.Is(err, context.Canceled) {
			return nil, context.Canceled
		}
		o := &Outcome{}
		if err == nil && (run == nil || run.Step == nil) {
			err = gpuprof.Errorf(gpuprof.ErrDevice, "running %s: nothing was measured; run it by itself to see why", ab.Workload)
		}
		if err != nil {
			o.fail(err)
			return o, nil
		}
		if k.Run == "overhead" {
			o.overhead(run)
		} else {
			o.shares(run)
		}
		return o, nil
	})
	if errors.Is(err, errSpent) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.Verdict != "" || len(o.B) == 0 {
		row.Verdict, row.Reason = notMeasurable, o.Reason
		return nil
	}
	row.Measured, row.CI95, row.What = o.B[0][0], [2]float64{o.B[0][1], o.B[0][2]}, o.Unit
	if k.Run == "overhead" {
		row.What = ""
		row.Verdict, row.Reason = judgeClaim(k, row.Measured, row.CI95)
		return nil
	}
	row.Verdict, row.Reason = shareVerdict(row)
	row.Details = append(row.Details, o.Reason)
	return nil
}

// overhead keeps the ratio of a step with probes to one without. B is then
// ratio, lower and upper bound.
func (o *Outcome) overhead(r *gpuprof.Run) {
	if r.Overhead == nil {
		o.Reason = "the run has no bare blocks to compare with"
		return
	}
	// As a speedup of leaving the probes out.
	o.B = [][]float64{{r.Overhead.Ratio, r.Overhead.CI95[0], r.Overhead.CI95[1]}}
	o.Unit = "steps with probes over steps without"
}

// shares keeps the share of the largest stage, sample by sample, and says
// whether the stages add up to the wall clock.
func (o *Outcome) shares(r *gpuprof.Run) {
	var total float64
	type stage struct {
		name  string
		share float64
		s     *gpuprof.Series
	}
	var all []stage
	for _, s := range r.Stages {
		if s.Parent != "step" || s.Exposed.N() == 0 {
			continue
		}
		mean := mean(s.Exposed.Runs[0])
		total += mean
		all = append(all, stage{s.Name, mean, s.Exposed})
	}
	if len(all) == 0 {
		o.Reason = "the run has no stages"
		return
	}
	slices.SortFunc(all, func(a, b stage) int {
		if a.share > b.share {
			return -1
		}
		return 1
	})
	top := all[0]
	if top.name == gap && len(all) > 1 {
		top = all[1]
	}
	var ratios []float64
	for i, v := range top.s.Runs[0] {
		sum := 0.0
		for _, s := range all {
			if i < len(s.s.Runs[0]) {
				sum += s.s.Runs[0][i]
			}
		}
		if sum > 0 {
			ratios = append(ratios, v/sum)
		}
	}
	sum := stats.Summarise("", ratios)
	o.B, o.Unit = [][]float64{{sum.Median, sum.CI95[0], sum.CI95[1]}}, "share of "+top.name
	var parts []string
	for _, s := range all {
		parts = append(parts, fmt.Sprintf("%s %.1f %%", s.name, 100*s.share/total))
	}
	period := r.Step
	if r.ProbedStep != nil {
		period = r.ProbedStep
	}
	o.Reason = fmt.Sprintf("%s; they add up to %.1f %% of the step's wall clock", strings.Join(parts, ", "), 100*total/mean(period.Runs[0]))
}

func mean(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// deepawShare is what the guide gives the largest stage of a batch.
const deepawShare = 0.63

// shareVerdict compares the largest stage's share with the guide's.
func shareVerdict(row *ClaimRow) (verdict, reason string) {
	switch {
	case row.CI95[1] < deepawShare/1.1:
		return smaller, fmt.Sprintf("%s, of another program than the guide's: 63 %% there", row.What)
	default:
		return confirmed, fmt.Sprintf("%s, of another program than the guide's: 63 %% there", row.What)
	}
}
