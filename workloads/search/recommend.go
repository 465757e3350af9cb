package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// nearBest is the largest ratio of the cost at a curve's knee to the best cost.
const nearBest = 1.05

func (e *engine) recommendSettings(f []Change, c tune.Confirmation, o *tune.Outcome) {
	r := &tune.Recommended{Knobs: c.Knobs, Command: e.commandLine(c.Knobs), Ratio: c.Ratio, CI95: c.CI95, Processes: c.Processes, Confirmed: true,
		TimeRatio: c.TimeRatio, Error: o.Error, PyTorch: pytorchLines(e.Workload, f), OneTime: map[string]float64{}}
	if o.MemoryA > 0 {
		r.MemoryRatio = float64(o.MemoryB) / float64(o.MemoryA)
	}
	for k, v := range o.OneTime {
		if v > 0 {
			r.OneTime[k] = v
		}
	}
	r.PaybackSteps = paybackSteps(r.OneTime, o)
	r.Text = e.certaintyText(r)
	e.out.Recommended = r
	e.out.Conclusion = tune.Conclusion{Verdict: tune.Recommends, Text: r.Text, Command: r.Command}
}

func (e *engine) certaintyText(r *tune.Recommended) string {
	how := fmt.Sprintf("confirmed by paired blocks in %d fresh processes", r.Processes)
	if e.Goal != tune.Time && e.Goal != tune.Throughput && r.TimeRatio > 0 {
		how += fmt.Sprintf("; time x%.3f", r.TimeRatio)
	}
	if e.over != "" {
		how += "; the default is above a limit itself: " + e.over
	}
	return fmt.Sprintf("%s: %s x%.3f (95 %% interval %.3f to %.3f) against the default, %s", tune.DescribeSettings(r.Knobs), e.Goal, r.Ratio, r.CI95[0], r.CI95[1], how)
}

// paybackSteps returns the steps after which the saved time exceeds the one-time costs; setup_s includes all other
// one-time costs.
func paybackSteps(once map[string]float64, o *tune.Outcome) float64 {
	paid, whole := once["setup_s"]
	if !whole {
		for _, v := range once {
			paid += v
		}
	}
	saved := (stats.MedianOfRuns(o.TimeA) - stats.MedianOfRuns(o.TimeB)) * o.WorkB
	if paid <= 0 || saved <= 0 || math.IsNaN(saved) {
		return 0
	}
	return math.Ceil(paid / saved)
}

func (e *engine) commandLine(set gpuprof.Settings) string {
	parts := []string{"gpuprof run", e.Workload.Name(), "--device", e.Device, "--preset", e.Preset}
	all := maps.Collect(maps.All(e.Set))
	maps.Copy(all, set)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, "--set", gpuprof.ShellWord(k+"="+all[k]))
	}
	return strings.Join(parts, " ")
}

// finish sorts and completes the result; err is the error that ended the search.
func (e *engine) finish(err error) {
	e.out.Unit = e.goalUnit()
	e.out.Failed = firstCauses(e.out.Failed)
	if err != nil {
		e.out.Status, e.out.Reason = gpuprof.Partial, reasonOf(err)
		return
	}
	e.out.Status, e.out.Reason = gpuprof.Complete, ""
	slices.SortStableFunc(e.out.Effects, func(a, b tune.Effect) int {
		return cmp.Or(strings.Compare(a.Knob, b.Knob), compareValues(a.To, b.To))
	})
	e.addCurves()
}

// reasonOf describes in one line why a search ended early.
func reasonOf(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

func (e *engine) goalUnit() string {
	work := "unit of work"
	for _, entry := range e.out.Journal {
		if entry.Outcome.Unit != "" {
			work = entry.Outcome.Unit
			break
		}
	}
	one := strings.TrimSuffix(work, "s")
	switch e.Goal {
	case tune.Throughput:
		return work + "/s"
	case tune.Energy:
		return "J per " + one
	case tune.Memory:
		return "B"
	case tune.Latency:
		return "s"
	}
	return "s per " + one
}

// compareValues orders numbers by size and words alphabetically.
func compareValues(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	if errX == nil && errY == nil {
		return x - y
	}
	return strings.Compare(a, b)
}

// addCurves adds the curve of batch, and of every other whole-number knob with at least three values.
func (e *engine) addCurves() {
	byKnob := map[string][]tune.Effect{}
	for _, f := range e.out.Effects {
		_, from := strconv.Atoi(f.From)
		_, to := strconv.Atoi(f.To)
		if f.Ratio > 0 && from == nil && to == nil {
			byKnob[f.Knob] = append(byKnob[f.Knob], f)
		}
	}
	for _, knob := range slices.Sorted(maps.Keys(byKnob)) {
		effects := byKnob[knob]
		if len(effects) < 2 || e.out.Default == nil {
			continue
		}
		d := e.out.Default
		at := tune.CurvePoint{Value: effects[0].From, Median: d.Median, CI95: d.CI95}
		if at.CI95 == [2]float64{} { // the other points are ratios to this one
			at.CI95 = [2]float64{d.Median, d.Median}
		}
		c := tune.Curve{Knob: knob, Unit: e.out.Unit, Points: []tune.CurvePoint{at}}
		for _, f := range effects {
			c.Points = append(c.Points, tune.CurvePoint{Value: f.To, Median: d.Median * f.Ratio, CI95: [2]float64{d.Median * f.Own[0], d.Median * f.Own[1]}})
		}
		slices.SortFunc(c.Points, func(a, b tune.CurvePoint) int { return compareValues(a.Value, b.Value) })
		c.Knee = kneeOf(e.Goal, c.Points, effects[0].From)
		e.out.Curves = append(e.out.Curves, c)
	}
}

// kneeOf returns the smallest value whose cost is within 5 % of the best, or "" if the intervals are too wide. Costs
// are ratios to the cost at the value from, so the interval of this value does not matter.
func kneeOf(g tune.Goal, points []tune.CurvePoint, from string) string {
	loose := func(p tune.CurvePoint) bool { return p.Value != from && isLoose(p) }
	cost := func(p tune.CurvePoint) float64 {
		if g == tune.Throughput {
			return 1 / p.Median
		}
		return p.Median
	}
	best := slices.MinFunc(points, func(a, b tune.CurvePoint) int { return cmp.Compare(cost(a), cost(b)) })
	for _, p := range points {
		if cost(p) > nearBest*cost(best) {
			continue
		}
		if loose(p) || loose(best) {
			return ""
		}
		return p.Value
	}
	return ""
}

// isLoose reports whether an interval is too wide to separate costs that differ by 5 %.
func isLoose(p tune.CurvePoint) bool { return !(p.CI95[1] <= nearBest*nearBest*p.CI95[0]) }
