package sweep_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/sweep"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
)

// The answer names the setting with the most throughput, else the shortest step. Its ratio is of the figures in the
// sentence, and its interval lies on one side of 1 exactly where the sentence states a difference.
func TestAnswer(t *testing.T) {
	run := func(batch string, low, median, high, rate float64) *gpuprof.Run {
		r := &gpuprof.Run{Status: gpuprof.Complete, Workload: "w", Knobs: gpuprof.Settings{"batch": batch}, Step: &gpuprof.Series{Unit: "s", Median: median, CI95: gpuprof.Interval{low, high}}}
		if rate > 0 {
			r.Throughput = &gpuprof.Throughput{Unit: "probes/s", Series: &gpuprof.Series{Median: rate, CI95: gpuprof.Interval{0.99 * rate, 1.01 * rate}}}
		}
		return r
	}
	invalid := run("9", 1, 1, 1, 1e9)
	invalid.Status = gpuprof.Invalid
	for name, c := range map[string]struct {
		runs             []*gpuprof.Run
		says             string
		ratio, low, high float64
	}{
		"steps apart":    {[]*gpuprof.Run{run("1", 1.9, 2, 2.1, 0), run("2", 0.9, 1, 1.1, 0)}, "batch=2 has the shortest step, 1.00 s. The interval of the next, batch=1 with 2.00 s, lies above its own.", 0.5, 0.9 / 2.1, 1.1 / 1.9},
		"steps alike":    {[]*gpuprof.Run{run("1", 0.9, 1.1, 1.3, 0), run("2", 0.8, 1, 1.2, 0)}, "overlaps its own: neither is shown to be faster.", 1 / 1.1, 0.8 / 1.3, 1.2 / 0.9},
		"rates apart":    {[]*gpuprof.Run{run("1", 1, 1, 1, 100), run("2", 2, 2, 2, 300), invalid}, "batch=2 has the highest throughput, 300 probes/s. The interval of the next, batch=1 with 100 probes/s, lies below its own.", 3, 297. / 101, 303. / 99},
		"an interval is": {[]*gpuprof.Run{run("1", 0, 2, 0, 0), run("2", 0.9, 1, 1.1, 0)}, "is unknown.", 0.5, 0, 0},
	} {
		a := sweep.Answer(c.runs)
		if !strings.Contains(a.Sentence, c.says) || a.Bar == nil {
			t.Errorf("%s: %q, bar %+v", name, a.Sentence, a.Bar)
			continue
		}
		for got, want := range map[float64]float64{a.Bar.Ratio.Value: c.ratio, a.Bar.Ratio.Low: c.low, a.Bar.Ratio.High: c.high} {
			if math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: %g is drawn, want %g", name, got, want)
			}
		}
		if r := a.Bar.Ratio; r.Low > 0 && strings.Contains(a.Sentence, "lies") != (r.High < 1 || r.Low > 1) {
			t.Errorf("%s: %q beside %+v", name, a.Sentence, r)
		}
	}
	if a := sweep.Answer([]*gpuprof.Run{run("1", 1, 1, 1, 0), invalid}); a.Bar != nil || a.Sentence != "Measured: 2 settings." {
		t.Errorf("one measured setting: %+v", a)
	}
}

// A setting is called faster only if the intervals of both figures do not overlap, in the table too.
func TestWinnerIsShown(t *testing.T) {
	apart, same, unknown := "lies below its own", "neither is shown to be faster", "is unknown"
	for _, c := range []struct {
		rates, steps [2][2]float64 // shares of the median
		want         string
	}{
		{[2][2]float64{{0.99, 1.01}, {0.99, 1.01}}, [2][2]float64{{0.99, 1.01}, {0.99, 1.01}}, apart},
		{[2][2]float64{{0.99, 1.01}, {0.99, 1.01}}, [2][2]float64{{0.7, 1.5}, {0.6, 1.6}}, same},
		{[2][2]float64{{0.4, 1.9}, {0.4, 1.9}}, [2][2]float64{{0.99, 1.01}, {0.99, 1.01}}, same},
		{[2][2]float64{{0.99, 1.01}, {0.99, 1.01}}, [2][2]float64{{0.99, 1.01}, {}}, unknown},
	} {
		runs := fixture.Sweep()[:2]
		for i, r := range runs {
			rate, step := 100*float64(i+1), 0.1/float64(i+1) // twice as fast
			r.Throughput.Series = &gpuprof.Series{Median: rate, CI95: [2]float64{rate * c.rates[i][0], rate * c.rates[i][1]}}
			r.Step = &gpuprof.Series{Median: step, CI95: [2]float64{step * c.steps[i][0], step * c.steps[i][1]}}
		}
		if got := sweep.Answer(runs).Sentence; !strings.Contains(got, c.want) {
			t.Errorf("rates %v, steps %v: %q, want %q", c.rates, c.steps, got, c.want)
		}
	}
}
