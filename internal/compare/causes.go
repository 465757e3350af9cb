package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

const (
	leastCause  = 0.01  // the least share of the change for which a stage is named
	leastChange = 0.005 // as a share of the step: smaller changes are not attributed
)

// findCauses attributes the change of the total to the stages. The exposed times of a sample's stages add up to its
// step period, so means over the same samples add up too. A run's mean covers only the samples whose period is between
// the quartiles, so that spikes cannot move it; a side's mean is the mean of its runs. Each stage contributes a share
// to the change of the summed means, and gets the same share of the metric's change.
func findCauses(b *comparisonState) ([]Cause, *Attribution) {
	out := []Cause{}
	total := b.findEntry(b.new.Total)
	if total == nil || b.old.Total != b.new.Total || !b.attributable(total) {
		return out, nil
	}
	stages := append([]string(nil), b.old.Stages...)
	for _, s := range b.new.Stages {
		if !slices.Contains(stages, s) {
			stages = append(stages, s)
		}
	}
	before, ok1 := stageMeans(b.old, stages)
	after, ok2 := stageMeans(b.new, stages)
	if !ok1 || !ok2 {
		return out, nil
	}
	change := floats.Sum(after) - floats.Sum(before)
	sum := Attribution{Old: total.result.Old, New: total.result.New}
	scale := float64(sum.New-sum.Old) / change // converts changes of means to the metric's change, so that the causes add up to the reported change
	if !(scale > 0) || math.IsInf(scale, 0) {
		return out, nil
	}
	why := explainDifferences(b.diffs)
	for i, s := range stages {
		d := after[i] - before[i]
		if share := d / change; math.Abs(share) >= leastCause {
			out = append(out, Cause{Stage: strings.TrimPrefix(s, "step/"), ShareOfChange: share, ExplainedBy: why, Change: gpuprof.Number(scale * d)})
		} else {
			sum.Rest += gpuprof.Number(scale * d)
		}
	}
	slices.SortStableFunc(out, func(a, b Cause) int { return cmp.Compare(b.ShareOfChange, a.ShareOfChange) })
	return out, &sum
}

// attributable reports whether the change of the total is worth splitting into stages: its interval excludes 1, or it
// exceeds leastChange and a stage has changed. With one run per side there is neither interval nor verdict; then the
// change must exceed the threshold.
func (b *comparisonState) attributable(total *entry) bool {
	r := &total.result
	ratio := float64(r.Ratio)
	if !gpuprof.IsFinite(ratio) || math.Abs(ratio-1) < leastChange {
		return false
	}
	if r.Verdict == Regressed || r.Verdict == Improved || r.CI95[0] > 1 || r.CI95[1] < 1 {
		return true
	}
	if _, limit := total.limits(); !gpuprof.IsFinite(float64(r.CI95[0])) && total.blame == blameRuns {
		return math.Abs(math.Log(ratio)) > limit
	}
	return slices.ContainsFunc(b.entries, func(e *entry) bool {
		return strings.HasPrefix(e.Name, "step/") && (e.result.Verdict == Regressed || e.result.Verdict == Improved)
	})
}

func (b *comparisonState) findEntry(name string) *entry {
	for _, e := range b.entries {
		if e.Name == name && name != "" {
			return e
		}
	}
	return nil
}

// stageMeans returns each stage's mean over the middle samples of every run, zero for a stage that the side lacks.
// ok is false if the stages' series differ in length. The period of a sample is the sum of its stages, since the
// total may have been measured in passes without stage events.
func stageMeans(r *Result, stages []string) (means []float64, ok bool) {
	by := indexByName(r)
	runs := 0
	for _, s := range r.Stages {
		if by[s] != nil {
			runs = max(runs, len(by[s].Runs))
		}
	}
	means = make([]float64, len(stages))
	used := 0.0
	for k := range runs {
		periods, same := periodsOf(r, by, k)
		if !same {
			return nil, false
		}
		if len(periods) == 0 {
			continue
		}
		middle := middleHalf(periods)
		used++
		for i, name := range stages {
			s := by[name]
			if s == nil {
				continue
			}
			x := make([]float64, len(middle))
			for j, at := range middle {
				x[j] = s.Runs[k][at]
			}
			means[i] += stat.Mean(x, nil)
		}
	}
	for i := range means {
		means[i] /= used
	}
	return means, used > 0
}

// periodsOf adds up the stages of run k, sample by sample; same is false if the stages' series differ in length.
func periodsOf(r *Result, by map[string]*MetricData, k int) (periods []float64, same bool) {
	for i, name := range r.Stages {
		s := by[name]
		if s == nil || k >= len(s.Runs) || i > 0 && len(s.Runs[k]) != len(periods) {
			return nil, false
		}
		if i == 0 {
			periods = make([]float64, len(s.Runs[k]))
		}
		for j, v := range s.Runs[k] {
			periods[j] += v
		}
	}
	return periods, true
}

// middleHalf returns the indices of the samples between the quartiles, at least one.
func middleHalf(x []float64) []int {
	order := make([]int, len(x))
	floats.ArgsortStable(slices.Clone(x), order)
	cut := len(x) / 4
	return order[cut : len(x)-cut]
}

// explainDifferences names possible reasons for a change: the differing knobs, else the differing environment, else
// the code. The data cannot separate several differing knobs or fields, so the text lists all of them as possible.
func explainDifferences(diffs []Difference) string {
	for _, kind := range []string{kindKnob, kindEnvironment, kindCode} {
		var names []string
		for _, d := range diffs {
			if d.Kind == kind {
				names = append(names, d.String())
			}
		}
		switch {
		case len(names) == 0:
		case len(names) == 1 || kind == kindCode:
			return strings.Join(names, ", ")
		default:
			return "one of " + strings.Join(names, ", ") + " (change one at a time to tell which)"
		}
	}
	return "nothing recorded differs"
}

func (r *Result) isComplete() bool { return r.Status == gpuprof.Complete || r.Status == "" }

// addedMetrics gives the verdict Added to metrics that only the new side has, since nothing exists to compare them
// with. It skips stages, sides without a common metric, and an incomplete old side, which may have lost the metric.
func (b *comparisonState) addedMetrics() {
	common := func(e *entry) bool { return e.sides[0] != nil && e.sides[1] != nil }
	if !b.old.isComplete() || len(refusedFields(b.diffs)) > 0 || !slices.ContainsFunc(b.entries, common) {
		return
	}
	for _, e := range b.entries {
		if e.sides[0] == nil && len(e.new) > 0 && !slices.Contains(b.new.Stages, e.Name) && !b.old.failedIn(e.Name) {
			e.blocked, e.blame = "", blameNone
			e.result.Verdict, e.result.Reason = Added, "only on the new side: it was added, and there is nothing to compare it with"
		}
	}
}

// oneSided gives a verdict, without a test, to stages that only one side has, if the sides differ in a knob: another
// implementation has other stages. With equal knobs a missing stage means lost data and stays inconclusive.
func (b *comparisonState) oneSided() {
	b.addedMetrics()
	knobs := slices.ContainsFunc(b.diffs, func(d Difference) bool { return d.Kind == kindKnob })
	if !knobs || len(refusedFields(b.diffs)) > 0 || !b.old.isComplete() || !b.new.isComplete() {
		return
	}
	for _, e := range b.entries {
		if slices.Contains(b.old.Stages, e.Name) == slices.Contains(b.new.Stages, e.Name) {
			continue
		}
		side, r, value := "old", b.old, e.result.Old
		e.result.Verdict = Gone
		if e.sides[0] == nil {
			side, r, value = "new", b.new, e.result.New
			e.result.Verdict = Added
		}
		share := ""
		if total := r.Metric(r.Total); total != nil {
			share = fmt.Sprintf(", %s of its step", gpuprof.FormatPercent(float64(value)/stats.MedianOfRuns(total.Runs), 2))
		}
		e.blocked, e.blame = "", blameNone
		e.result.Reason = fmt.Sprintf("only on the %s side%s; explained by %s", side, share, explainDifferences(b.diffs))
	}
}
