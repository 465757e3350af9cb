package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// entry is one metric during a comparison.
type entry struct {
	Metric
	margins  Margins
	old, new [][]float64 // tested samples, without empty runs, raised to the floor
	sides    [2]*MetricData
	// blocked is the reason why the metric gets no verdict, "" if it can get one.
	blocked string
	blame   inconclusiveCause
	effect  stats.Effect          // log(new/old), positive means more
	ok      bool                  // effect can be tested
	noise   stats.Noise           // scatter of a gate's processes
	drift   stats.Trend           // drift of the runs, if it biases the ratio enough to matter
	trended [2][]float64          // the part of each side's log run medians that the drift or the level change explains
	alike   stats.Autocorrelation // correlation of neighbouring runs, for sides measured one after the other
	session float64               // spread between sessions, a share
	assumed bool                  // session is assumed, not estimated
	blocks  *stats.Blocks         // of a gate
	fresh   float64               // effect of stage 3 alone, positive means worse; effect includes stage 2
	floored bool                  // the centres of both sides are below the floor
	raised  bool                  // the centre of a side is below the floor: the tested samples differ from the measured ones
	floor   float64               // samples below it were raised to it; 0 for none
	unlike  bool                  // the sides have different kinds of figure: there is no ratio
	paired  bool                  // the runs of both sides were taken in blocks
	// zero reports that a sample is 0, positive that a sample of the old or of the new side is above 0.
	zero     bool
	positive [2]bool
	result   MetricResult
}

// inconclusiveCause classifies why a metric is inconclusive; the next steps depend on it.
type inconclusiveCause int

const (
	blameNone inconclusiveCause = iota
	blameNoise
	blameModes    // processes take one of two times
	blameRuns     // too few runs
	blameData     // missing, NaN, zero
	blameFlags    // throttled on one side
	blameTrend    // a drift that biases the ratio because of the order of the runs
	blameMismatch // fields that must agree differ
	blameStatus   // partial or failed
	blameCounter  // a counter that varies
	blameStage2   // stage 2 has not run
	blameEarly    // the gate ended before the metric was decided
	blameRate     // requests came at different rates
	blameSender   // requests were sent late
)

// pairEntries pairs both sides' metrics, in the old side's order; metrics of the new side alone follow. Exact metrics
// get their verdict at once.
func pairEntries(old, new *Result, o Options, paired bool) ([]*entry, error) {
	oldBy, newBy := indexByName(old), indexByName(new)
	names := make([]string, 0, len(old.Metrics))
	for _, m := range old.Metrics {
		names = append(names, m.Name)
	}
	for _, m := range new.Metrics {
		if oldBy[m.Name] == nil {
			names = append(names, m.Name)
		}
	}
	names, err := o.selected(names)
	if err != nil {
		return nil, err
	}
	floor := stageFloor(old, new)
	stages := map[string]bool{}
	for _, s := range slices.Concat(old.Stages, new.Stages) {
		stages[s] = true
	}
	out := make([]*entry, len(names))
	for i, name := range names {
		e := &entry{sides: [2]*MetricData{oldBy[name], newBy[name]}, margins: o.margins(name), paired: paired}
		for _, m := range e.sides {
			if m != nil {
				e.Metric = m.Metric
				break
			}
		}
		if a, b := e.sides[0], e.sides[1]; a != nil && b != nil && isGuessed(a, b) {
			e.Exact = false
		}
		e.fillSides(paired)
		switch {
		case stages[name] && floor > 0:
			e.applyFloor(floor, StageFloor, "step")
		case name == refusedMetric && e.isUnderLoad() && (e.positive[0] || e.positive[1]):
			e.applyFloor(refusedFloor, refusedFloor, "requests")
		}
		out[i] = e
	}
	return out, nil
}

// isGuessed reports whether only one side counts the metric as exact, by a guess from its values.
func isGuessed(a, b *MetricData) bool { return a.Exact != b.Exact && (a.Guessed || b.Guessed) }

func indexByName(r *Result) map[string]*MetricData {
	out := make(map[string]*MetricData, len(r.Metrics))
	for i := range r.Metrics {
		out[r.Metrics[i].Name] = &r.Metrics[i]
	}
	return out
}

// stageFloor returns the time below which stages are not judged, a share of the shorter step; 0 when unknown.
func stageFloor(old, new *Result) float64 {
	a, b := old.Metric(old.Total), new.Metric(new.Total)
	if a == nil || b == nil || old.Total == "" {
		return 0
	}
	if f := StageFloor * math.Min(stats.MedianOfRuns(a.Runs), stats.MedianOfRuns(b.Runs)); f > 0 && !math.IsInf(f, 0) {
		return f
	}
	return 0
}

// fillSides sets the entry's figures from the runs of both sides. If no test is valid, e.blocked gets the reason. In
// paired data, one run without the metric is reason enough: its block has no pair.
func (e *entry) fillSides(paired bool) {
	e.result = MetricResult{
		Name: e.Name, Unit: e.Unit, HigherIsBetter: e.HigherIsBetter, Exact: e.Exact, Threshold: e.margins.Threshold, Verdict: Inconclusive,
		Old: nan, New: nan, Ratio: nan, CI95: [2]gpuprof.Number{nan, nan}, P: nan, PAdjusted: nan, PBetter: nan, PBetterAdjusted: nan, MDE: nan,
	}
	for s, name := range []string{"old", "new"} {
		m := e.sides[s]
		if m == nil {
			e.blockVerdict(blameData, fmt.Sprintf("the %s side does not have this metric", name))
			continue
		}
		kept := e.usableRuns(m, s, name, paired)
		if len(kept) == 0 {
			e.blockVerdict(blameData, fmt.Sprintf("the %s side has no samples of it", name))
		}
		e.result.Runs[s] = len(kept)
		if s == 0 {
			e.old, e.result.Old = kept, gpuprof.Number(stats.MedianOfRuns(kept))
		} else {
			e.new, e.result.New = kept, gpuprof.Number(stats.MedianOfRuns(kept))
		}
	}
	if a, b := e.sides[0], e.sides[1]; a != nil && b != nil && (a.Unit != b.Unit || a.HigherIsBetter != b.HigherIsBetter || a.Exact != b.Exact && !isGuessed(a, b)) {
		e.unlike = true
		e.blockVerdict(blameData, fmt.Sprintf("it is in %q on the old side and in %q on the new one, and not the same kind of figure", a.Unit, b.Unit))
	}
	if why := rateMismatch(e.sides[0], e.sides[1]); why != "" {
		e.blockVerdict(blameRate, why)
	}
	if !e.unlike && (e.result.Old > 0 || e.result.Old < 0) {
		e.result.Ratio = e.result.New / e.result.Old
	}
}

// usableRuns returns the runs of a side that measured the metric. It returns none if the load generator was late,
// unless the runs are paired.
func (e *entry) usableRuns(m *MetricData, side int, name string, paired bool) [][]float64 {
	if m.SenderLate && !paired {
		e.blockVerdict(blameSender, fmt.Sprintf("the sender of the %s side's requests was late, so this measures the sender", name))
		return nil
	}
	kept := make([][]float64, 0, len(m.Runs))
	for k, run := range m.Runs {
		if len(run) == 0 {
			if paired {
				e.blockVerdict(blameData, fmt.Sprintf("run %d of the %s side did not measure it", k+1, name))
			}
			continue
		}
		kept = append(kept, run)
		if i, why := e.scanRun(run, side); why != "" {
			e.blockVerdict(blameData, fmt.Sprintf("sample %d of run %d of the %s side is %s", i+1, k+1, name, why))
		}
	}
	return kept
}

// scanRun notes whether a run has zero or positive samples, and returns the first sample that forbids a test.
func (e *entry) scanRun(run []float64, side int) (at int, why string) {
	for i, v := range run {
		switch {
		case v > 0 && v <= math.MaxFloat64:
			e.positive[side] = true
		case v == 0:
			e.zero = true
		case !gpuprof.IsFinite(v):
			return i, fmt.Sprint(v)
		case !e.Exact:
			return i, "negative, and there is no ratio"
		}
	}
	return 0, ""
}

// blockVerdict sets the reason why the metric gets no verdict; an earlier reason stays.
func (e *entry) blockVerdict(b inconclusiveCause, why string) {
	if e.blocked == "" {
		e.blocked, e.blame = why, b
	}
}

// applyFloor raises samples below the floor to the floor. The floor is a share of another quantity; the argument of is
// that quantity's name in messages. A metric with both centres below the floor is not judged; a metric that grows past
// the floor is judged by its excess.
func (e *entry) applyFloor(floor, share float64, of string) {
	low := [2]bool{float64(e.result.Old) < floor, float64(e.result.New) < floor}
	e.floored, e.raised = low[0] && low[1], low[0] || low[1]
	switch {
	case e.floored:
		e.result.Reason = fmt.Sprintf("less than %.0f %% of the %s on both sides: too little to judge", 100*share, of)
	case e.raised && share != floor:
		e.result.Reason = fmt.Sprintf("judged from %.0f %% of the %s (%s) up", 100*share, of, gpuprof.FormatSeconds(floor))
	case e.raised:
		e.result.Reason = fmt.Sprintf("judged from %.0f %% of the %s up", 100*share, of)
	}
	e.old, e.new, e.floor = raiseToFloor(e.old, floor), raiseToFloor(e.new, floor), floor
	e.zero = false
}

// raiseToFloor raises samples below the floor to the floor; NaN stays NaN.
func raiseToFloor(runs [][]float64, floor float64) [][]float64 {
	out := make([][]float64, len(runs))
	for i, r := range runs {
		out[i] = make([]float64, len(r))
		for j, v := range r {
			out[i][j] = math.Max(v, floor)
		}
	}
	return out
}

// requireRuns blocks metrics with too few runs. Two cases get a verdict at once: a metric that is zero on both sides,
// and sides that hold the same measurement. The argument one reports that oneSource found the second case for all
// metrics.
func (e *entry) requireRuns(one bool) {
	if e.blocked != "" {
		return
	}
	zeros := e.zero && !e.positive[0] && !e.positive[1]
	switch a, b := len(e.old), len(e.new); {
	case one && !zeros:
		e.result.Verdict, e.result.Reason = Same, oneMeasurement
	case !one && (a < MinRuns || b < MinRuns):
		e.blockVerdict(blameRuns, fmt.Sprintf("%s on the old side and %d on the new one; a verdict needs %d per side, each a process of its own, because the samples of one process are not independent", gpuprof.Plural(a, "run"), b, MinRuns))
	case e.floored: // applyFloor has set the reason
		e.result.Verdict = TooSmall
	case zeros:
		e.result.Verdict, e.result.Reason = Same, "zero on both sides"
	case !e.paired && haveEqualMedians(e.old, e.new):
		e.result.Verdict, e.result.Reason = Same, oneMeasurement
	case e.zero:
		e.blockVerdict(blameData, "it holds zeros, and a ratio to zero has no meaning")
		e.result.Ratio = nan // a ratio of medians would contradict the reason
	}
}

// oneMeasurement is the reason of a metric with equal samples on both sides.
const oneMeasurement = "both sides hold the same samples: they are one measurement, and nothing can have changed"

// oneSource reports whether both sides are the same measurement, with equal medians of every process in all metrics.
func oneSource(entries []*entry) bool {
	for _, e := range entries {
		if e.sides[0] == nil || e.sides[1] == nil || !haveEqualMedians(e.sides[0].Runs, e.sides[1].Runs) {
			return false
		}
	}
	return len(entries) > 0
}

// haveEqualMedians reports whether every process has the same median on both sides, to the digits of a stored
// baseline. Two measurements never agree to all digits, so the sides are one measurement, and a test would count
// its noise twice.
func haveEqualMedians(a, b [][]float64) bool {
	const apart = 1e-8 // half a unit in the last of stats.StoredDigits, for either side
	return slices.EqualFunc(a, b, func(x, y []float64) bool {
		p, q := stats.Median(x), stats.Median(y)
		return math.Abs(p-q) <= apart*math.Max(math.Abs(p), math.Abs(q))
	})
}

// decidedEarly reports whether the metric already has a verdict and needs no test.
func (e *entry) decidedEarly() bool { return e.result.Verdict != Inconclusive }

// worseSign returns +1 if more is worse, -1 if more is better.
func (e *entry) worseSign() float64 {
	if e.HigherIsBetter {
		return -1
	}
	return 1
}

// worse returns the effect with its sign set so that positive means worse.
func (e *entry) worse() stats.Effect { return e.worseOf(e.effect) }

func (e *entry) worseOf(effect stats.Effect) stats.Effect {
	if e.HigherIsBetter {
		return effect.Negate()
	}
	return effect
}

// limits returns the equivalence margin and the threshold as logarithms.
func (e *entry) limits() (delta, threshold float64) {
	return math.Log1p(e.margins.Equivalence), math.Log1p(e.margins.Threshold)
}

// p returns the p-value of the hypothesis "not worse by more than the equivalence margin"; the function mirrored tests
// "not better by more than the margin".
func (e *entry) p() float64 {
	delta, _ := e.limits()
	return e.worse().PNotAbove(delta)
}

func (e *entry) mirrored() float64 {
	delta, _ := e.limits()
	return e.worse().Negate().PNotAbove(delta)
}

// set stores an effect and fills the result's figures from it.
func (e *entry) set(effect stats.Effect, ok bool) {
	e.effect, e.ok = effect, ok && effect.OK()
	if !e.ok {
		return
	}
	if e.floored || e.unlike {
		return // the test saw raised samples, or two different quantities
	}
	r := &e.result
	delta, _ := e.limits()
	r.P, r.PBetter = gpuprof.Number(e.p()), gpuprof.Number(e.mirrored())
	r.MDE = gpuprof.Number(math.Expm1(e.worse().MDE(delta, alpha, power)))
	if e.raised {
		return // the effect belongs to raised samples: the measured ratio stays, without an interval
	}
	r.Ratio = gpuprof.Number(math.Exp(effect.Theta))
	e.fillColumns()
	r.CI95 = [2]gpuprof.Number{gpuprof.Number(math.Exp(effect.Lower(0.975))), gpuprof.Number(math.Exp(effect.Upper(0.975)))}
}

// fillColumns scales Old and New about their geometric mean, so that New/Old equals the estimated Ratio. The ratio of
// the run medians differs from it if ranks or the mean over blocks gave the estimate.
func (e *entry) fillColumns() {
	r := &e.result
	middle, half := math.Sqrt(float64(r.Old))*math.Sqrt(float64(r.New)), math.Sqrt(float64(r.Ratio))
	if middle > 0 && !math.IsInf(middle, 0) && half > 0 && !math.IsInf(half, 0) {
		r.Old, r.New = gpuprof.Number(middle/half), gpuprof.Number(middle*half)
	}
}

var nan = gpuprof.Number(math.NaN())
