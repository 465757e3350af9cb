package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// entry is one metric on its way to a verdict.
type entry struct {
	Metric
	margins  Margins
	old, new [][]float64 // what the statistics see: empty runs dropped, floor applied
	sides    [2]*MetricData
	// blocked is the reason why the metric gets no verdict, whatever its figures.
	blocked string
	blame   blame
	effect  stats.Effect  // log(new/old), positive means more
	ok      bool          // effect can be tested
	noise   stats.Noise   // of a gate's blocks
	drift   stats.Trend   // of the runs, where it makes a difference
	trended [2][]float64  // what it makes of the logarithm of each side's runs
	alike   stats.Alike   // of runs that did not take turns
	session float64       // spread between sessions, a share
	assumed bool          // that is only assumed
	blocks  *stats.Blocks // of a gate
	floored bool          // the centres of both sides are below the floor
	raised  bool          // the centre of a side is, so that what is tested is not what was measured
	floor   float64       // what samples were raised to; 0 for none
	unlike  bool          // the sides are not the same kind of figure: there is no ratio
	paired  bool          // the runs of both sides were taken in blocks, and are never one measurement
	// zero: some sample is; positive: some sample of the old or new side is.
	zero     bool
	positive [2]bool
	result   MetricResult
}

// blame classifies the shortcoming that made a metric inconclusive, for Next.
type blame int

const (
	blameNone blame = iota
	blameNoise
	blameModes    // processes take one of two times
	blameRuns     // too few runs
	blameData     // missing, NaN, zero
	blameFlags    // throttled on one side
	blameTrend    // drift, and an order that lets it in
	blameMismatch // hard keys
	blameStatus   // partial or failed
	blameCounter  // a counter that is not steady
	blameStage2   // stage 2 has not run
	blameEarly    // the gate ended before it was decided
	blameRate     // requests came at different rates
	blameSender   // requests were sent late
)

// pairEntries pairs the metrics of both sides, in the old side's order, then what
// only the new side has. Exact ones come with their verdict.
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

// isGuessed reports whether a metric was taken for exact on one side only, by its values.
func isGuessed(a, b *MetricData) bool { return a.Exact != b.Exact && (a.Guessed || b.Guessed) }

func indexByName(r *Result) map[string]*MetricData {
	out := make(map[string]*MetricData, len(r.Metrics))
	for i := range r.Metrics {
		out[r.Metrics[i].Name] = &r.Metrics[i]
	}
	return out
}

// stageFloor is the time from which on stages are judged, the same for both
// sides whichever is called old; 0 when unknown.
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

// fillSides notes the figures and whatever forbids to test them. In paired data a
// run that is missing leaves its block without a partner.
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

// usableRuns returns the runs of a side that measured the metric. If the load generator sent late it returns none,
// unless the sides are paired.
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

// scanRun looks at the samples of a run of one side, and finds the first that
// leaves nothing to test.
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

// blockVerdict gives a reason against a verdict; the first one stays.
func (e *entry) blockVerdict(b blame, why string) {
	if e.blocked == "" {
		e.blocked, e.blame = why, b
	}
}

// applyFloor raises samples to the floor, a share of a whole. A figure whose centre is below
// it on both sides is not judged, and one that grows past it is judged by how far.
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

// raiseToFloor lifts samples to the floor; a NaN stays one.
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

// requireRuns blocks metrics with too few runs. It settles metrics that are zero on both sides, and sides that hold
// one measurement twice (oneSource).
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
	case e.floored: // its reason is there already
		e.result.Verdict = TooSmall
	case zeros:
		e.result.Verdict, e.result.Reason = Same, "zero on both sides"
	case !e.paired && haveEqualMedians(e.old, e.new):
		e.result.Verdict, e.result.Reason = Same, oneMeasurement
	case e.zero:
		e.blockVerdict(blameData, "it holds zeros, and a ratio to zero has no meaning")
		e.result.Ratio = nan // that of the medians would stand beside the reason
	}
}

// oneMeasurement is the reason of a metric whose samples are the same on both sides.
const oneMeasurement = "both sides hold the same samples: they are one measurement, and nothing can have changed"

// oneSource reports whether the two sides are one measurement given twice: every figure of every process is equal.
// Then a verdict needs no more processes.
func oneSource(entries []*entry) bool {
	for _, e := range entries {
		if e.sides[0] == nil || e.sides[1] == nil || !haveEqualMedians(e.sides[0].Runs, e.sides[1].Runs) {
			return false
		}
	}
	return len(entries) > 0
}

// haveEqualMedians reports whether every process has the same median on both sides, within the digits of a stored
// baseline. Two measurements never agree to all digits; the test would count the noise of one measurement twice.
func haveEqualMedians(a, b [][]float64) bool {
	const apart = 1e-8 // half a unit of the last of stats.StoredDigits, on either side
	return slices.EqualFunc(a, b, func(x, y []float64) bool {
		p, q := stats.Median(x), stats.Median(y)
		return math.Abs(p-q) <= apart*math.Max(math.Abs(p), math.Abs(q))
	})
}

// decidedEarly reports whether the verdict needs no test.
func (e *entry) decidedEarly() bool { return e.result.Verdict != Inconclusive }

// worseSign is +1 where more is worse, -1 where more is better.
func (e *entry) worseSign() float64 {
	if e.HigherIsBetter {
		return -1
	}
	return 1
}

// worse is the effect with positive meaning worse.
func (e *entry) worse() stats.Effect { return e.worseOf(e.effect) }

func (e *entry) worseOf(effect stats.Effect) stats.Effect {
	if e.HigherIsBetter {
		return effect.Negate()
	}
	return effect
}

// limits are the margins on the logarithm: of no matter, and to be found.
func (e *entry) limits() (delta, threshold float64) {
	return math.Log1p(e.margins.Equivalence), math.Log1p(e.margins.Threshold)
}

// p returns the p-value of the hypothesis "worse by more than the equivalence margin"; mirrored, of "better by more".
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
		return // what the test saw is the floor, or two different quantities
	}
	r := &e.result
	delta, _ := e.limits()
	r.P, r.PBetter = gpuprof.Number(e.p()), gpuprof.Number(e.mirrored())
	r.MDE = gpuprof.Number(math.Expm1(e.worse().MDE(delta, alpha, power)))
	if e.raised {
		return // the effect is that of raised samples: the ratio as measured stays, and has no interval
	}
	r.Ratio = gpuprof.Number(math.Exp(effect.Theta))
	e.fillColumns()
	r.CI95 = [2]gpuprof.Number{gpuprof.Number(math.Exp(effect.Lower(0.975))), gpuprof.Number(math.Exp(effect.Upper(0.975)))}
}

// fillColumns moves the centres of both sides to those whose ratio was estimated, about their own
// geometric mean: the medians of runs that the ranks or the mean of blocks compare have another.
func (e *entry) fillColumns() {
	r := &e.result
	middle, half := math.Sqrt(float64(r.Old))*math.Sqrt(float64(r.New)), math.Sqrt(float64(r.Ratio))
	if middle > 0 && !math.IsInf(middle, 0) && half > 0 && !math.IsInf(half, 0) {
		r.Old, r.New = gpuprof.Number(middle/half), gpuprof.Number(middle*half)
	}
}

var nan = gpuprof.Number(math.NaN())
