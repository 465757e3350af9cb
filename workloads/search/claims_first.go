package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads/guides"
)

// firstAnswer is the key in a run's input for the time to the first answer, in seconds.
const firstAnswer = "first_request_s"

const mostFirst = 6

// firstRuns measures the time to the first answer. A process loads kernels and libraries only once, so each figure
// needs its own process. Processes of A and B alternate; each pair is a replicate.
func (c *claimRunner) firstRuns(k guides.Claim, row *tune.ClaimRow, limit time.Duration) error {
	began := c.spent()
	var logs, as, bs []float64
	for n := range mostFirst {
		if n >= leastProcesses && c.spent()-began > limit.Seconds() {
			break
		}
		o, err := c.firstPair(k, n)
		if errors.Is(err, errSpent) {
			break
		}
		if err != nil {
			return err
		}
		if o.Verdict != "" {
			row.Verdict, row.Reason = notMeasurable, o.Reason
			return nil
		}
		a, b := o.A[0][0], o.B[0][0]
		as, bs, logs = append(as, a), append(bs, b), append(logs, math.Log(b/a))
	}
	d := newDrawn(trimmedMean(logs, 0))
	if !d.ok {
		row.Reason = "too few processes fitted into the time; give more with --budget"
		return nil
	}
	row.Measured, row.CI95 = 1/d.ratio, [2]float64{1 / d.ci[1], 1 / d.ci[0]}
	row.Verdict, row.Reason = judgeClaim(k, row.CI95)
	row.Details = append(row.Details, fmt.Sprintf("first answer %s -> %s, medians of %d processes each; no other figure depends on it",
		gpuprof.FormatSeconds(stats.Median(as)), gpuprof.FormatSeconds(stats.Median(bs)), len(logs)))
	return nil
}

func (c *claimRunner) firstPair(k guides.Claim, n int) (*tune.Outcome, error) {
	ab := k.AB[c.decidingIndex(k)]
	w := c.find(ab.Workload)
	return c.measureOnce("claims", fmt.Sprintf("%s first %d | %s", k.ID, n+1, abText(ab)), k.ID, c.timeLeft(1), func() (*tune.Outcome, error) {
		o := &tune.Outcome{}
		var took [2]float64
		for i := range took {
			side := i
			if n%2 == 1 { // AB, BA, AB, …
				side = 1 - i
			}
			run, err := c.run(c.ctx, w, ab.Preset, []gpuprof.Settings{ab.A, ab.B}[side], leastProcess)
			if c.ctx.Err() != nil || errors.Is(err, context.Canceled) {
				return nil, context.Canceled
			}
			v, ok := 0.0, false
			if run != nil {
				v, ok = run.Input[firstAnswer].(float64)
			}
			if !ok || !(v > 0) || math.IsInf(v, 0) {
				if err == nil {
					err = gpuprof.Errorf(gpuprof.ErrDevice, "running %s: the run does not say when its first answer came", ab.Workload).WithFix("run it by itself to see why")
				}
				failOutcome(o, err)
				return o, nil
			}
			took[side] = v
		}
		o.A, o.B = [][]float64{{took[0]}}, [][]float64{{took[1]}}
		return o, nil
	})
}
