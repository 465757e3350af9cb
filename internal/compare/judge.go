package compare

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// comparisonState is one comparison in progress: the state that Compare, CompareStored and the gate share.
type comparisonState struct {
	o        Options
	kind     string
	old, new *Result
	entries  []*entry
	diffs    []Difference
	order    []bool // the runs in the order taken, true for the new side
	earlier  []Turn // of earlier stages
	warnings []gpuprof.Warning
	spread   float64 // standard deviation between sessions; 0 in one job
	assumed  bool
	stages   int // measured stages of a gate
}

// newBench pairs the metrics of two sides. Exact metrics get their verdict at once; metrics that cannot have a verdict
// are blocked.
func newBench(kind string, old, new *Result, o Options) (*comparisonState, error) {
	if err := errors.Join(o.Validate(), checkGated(o, old, new)); err != nil {
		return nil, err
	}
	old, new, left := alikeStages(old, new)
	b := &comparisonState{o: o, kind: kind, old: old, new: new, diffs: listDifferences(old, new, o)}
	if left {
		b.warnStages()
	}
	var err error
	if b.entries, err = pairEntries(old, new, o, kind == kindGate); err != nil {
		return nil, err
	}
	if err := b.checkAllowed(); err != nil {
		return nil, err
	}
	b.blockAll()
	b.oneSided()
	b.settleUndirected()
	one := kind != kindGate && oneSource(b.entries)
	for _, e := range b.entries {
		switch {
		case e.decidedEarly():
		case e.Exact:
			e.exactVerdict()
		default:
			e.requireRuns(one)
		}
	}
	return b, nil
}

// settleUndirected excludes from the judgement the metrics of both sides that have no better direction.
func (b *comparisonState) settleUndirected() {
	for _, e := range b.entries {
		if e.sides[0] == nil || e.sides[1] == nil || !e.sides[0].Undirected && !e.sides[1].Undirected {
			continue
		}
		if e.unlike || e.blame == blameMismatch || e.blame == blameStatus {
			continue // the metric has an error to report instead
		}
		e.blocked, e.result.Reason = "", noDirection
		e.excludeFromJudgement()
	}
}

const noDirection = "its file does not say whether more or less of it is better: it is shown and not judged"

// How the sides of a comparison were measured: Comparison.Sides.
const (
	kindGate     = "gate"
	kindFiles    = "files"
	kindBaseline = "baseline"
	kindBudget   = "budget"
)

// headOf returns the head of a comparison document; sides is Comparison.Sides.
func headOf(sides string, by gpuprof.Tool) gpuprof.Head {
	if sides == kindGate {
		return document.NewHead(document.Gate, by)
	}
	return document.NewHead(document.Comparison, by)
}

// blockAll blocks all verdicts if the sides are not comparable or incomplete, and the verdicts on times if the
// shares of flagged samples differ too much.
func (b *comparisonState) blockAll() {
	every := func(why inconclusiveCause, text string) {
		for _, e := range b.entries {
			e.blockVerdict(why, text)
		}
	}
	if no := refusedFields(b.diffs); len(no) > 0 {
		for _, e := range b.entries { // replaces other reasons
			e.blocked, e.blame = refusalText(no), blameMismatch
		}
	}
	for _, d := range b.diffs {
		if d.Allowed {
			b.addWarning("mismatch-allowed", "the sides differ in "+d.String(), "trust the verdict as far as that field does not matter")
		}
	}
	for i, r := range []*Result{b.old, b.new} {
		name := []string{"old", "new"}[i]
		switch r.Status {
		case gpuprof.Partial:
			every(blameStatus, fmt.Sprintf("the %s side was cut short: %s", name, cmp.Or(r.Reason, "the reason is unknown")))
		case gpuprof.Invalid:
			every(blameStatus, fmt.Sprintf("the %s side is invalid: %s", name, cmp.Or(r.Reason, "the reason is unknown")))
		}
	}
	b.blockFlagged()
}

// blockFlagged blocks the verdicts on times if only one side was disturbed: the difference is then no evidence
// about the program. Flagged samples stay in the data: a change that draws more power throttles more and is slower
// for that reason.
func (b *comparisonState) blockFlagged() {
	x, y := mergeRunInfo(b.old.RunInfo), mergeRunInfo(b.new.RunInfo)
	codes := b.flagCodes()
	if math.Abs(x.Flagged-y.Flagged) > flaggedApart {
		why := fmt.Sprintf("%.0f %% of the old side's samples are flagged %s, and %.0f %% of the new side's", 100*x.Flagged, codes, 100*y.Flagged)
		for _, e := range b.entries {
			if !e.Exact {
				e.blockVerdict(blameFlags, why)
			}
		}
		return
	}
	if max(x.Flagged, y.Flagged) > flaggedLimit {
		b.addWarning("flagged-samples", fmt.Sprintf("%.0f %% of the old side's samples and %.0f %% of the new side's are flagged %s", 100*x.Flagged, 100*y.Flagged, codes),
			"find what disturbs the machine; the verdict holds for this disturbed state")
	}
}

// flagCodes lists the reasons for the flags of both sides.
func (b *comparisonState) flagCodes() string {
	return joinCodes(mergeRunInfo(slices.Concat(b.old.RunInfo, b.new.RunInfo)).Codes)
}

func (b *comparisonState) addWarning(code, text, fix string) {
	b.warnings = append(b.warnings, gpuprof.Warning{Code: code, Text: text, Fix: fix})
}

func (b *comparisonState) testableEntries() []*entry {
	var out []*entry
	for _, e := range b.entries {
		if !e.Exact && e.blocked == "" && !e.decidedEarly() {
			out = append(out, e)
		}
	}
	return out
}

// measureEffects estimates the effect of every metric not yet decided; blocked metrics get figures for display.
func (b *comparisonState) measureEffects(effect func(*entry) (stats.Effect, bool)) {
	for _, e := range b.entries {
		if e.Exact || e.decidedEarly() {
			continue
		}
		e.set(effect(e))
		if !e.ok {
			e.blockVerdict(blameData, "its figures leave nothing to test")
		}
	}
}

// findTrends records a drift or a step of a metric's runs if it is significant (Holm over all metrics) and biases
// the comparison by more than half of the equivalence margin.
func (b *comparisonState) findTrends() {
	tested := b.testableEntries()
	if _, shift := stats.CheckOrder(b.order); len(tested) == 0 || shift == 0 {
		return // the order of the runs cancels a drift
	}
	trends, p := make([]stats.Trend, len(tested)), make([]float64, len(tested))
	for i, e := range tested {
		trends[i] = e.estimateDrift(b.order)
		p[i] = trends[i].P
	}
	for i, adjusted := range stats.Holm(p) {
		delta, _ := tested[i].limits()
		if adjusted <= trendAlpha && math.Abs(trends[i].Bias) > delta/2 {
			tested[i].drift = trends[i]
			for k, isNew := range b.order {
				side := 0
				if isNew {
					side = 1
				}
				tested[i].trended[side] = append(tested[i].trended[side], trends[i].At(k))
			}
		}
	}
}

// allowForTrends widens the interval of a drifting or stepping metric by the bias that the order of the runs causes.
func (b *comparisonState) allowForTrends() {
	for _, e := range b.testableEntries() {
		bias := math.Abs(e.drift.Bias)
		if bias == 0 {
			continue
		}
		wider := e.effect
		wider.Bias = bias
		e.set(wider, e.ok)
		e.blame = blameTrend
		moves := "it drifts by " + gpuprof.FormatChange(math.Expm1(e.drift.Slope)) + " per run"
		if k := e.drift.Step; k > 0 {
			moves = fmt.Sprintf("its level changes by %s at run %d of %d", gpuprof.FormatChange(math.Expm1(e.drift.Height)), k+1, len(b.order))
		}
		why := fmt.Sprintf("%s, from which the order of the runs can make a difference of %s: the interval is wider by that", moves, gpuprof.FormatPercent(math.Expm1(bias), 2))
		e.result.Reason = joinReasons(e.result.Reason, why)
	}
}

func (e *entry) estimateDrift(order []bool) stats.Trend {
	logs := interleaveRuns([2][]float64{stats.LogMedians(e.old), stats.LogMedians(e.new)}, order)
	if logs == nil {
		return stats.Trend{P: 1}
	}
	return stats.FindTrend(logs, order)
}

// interleaveRuns returns both sides' runs in time order (true in order: the new side); nil if the numbers mismatch.
func interleaveRuns(sides [2][]float64, order []bool) []float64 {
	out := make([]float64, 0, len(order))
	for _, isNew := range order {
		from := &sides[0]
		if isNew {
			from = &sides[1]
		}
		if len(*from) == 0 {
			return nil
		}
		out, *from = append(out, (*from)[0]), (*from)[1:]
	}
	if len(sides[0])+len(sides[1]) > 0 {
		return nil
	}
	return out
}

// decideVerdicts gives the tested metrics their verdict by Holm's procedure, which counts untested metrics too. If
// clear is set, a change must also be shown to exceed the threshold: the error between sessions is then assumed, not
// measured, and a change of just the threshold could be that error.
func decideVerdicts(tested []*entry, untested int, clear bool) {
	p, mirrored := make([]float64, len(tested)+untested), make([]float64, len(tested)+untested)
	for i := range p {
		p[i], mirrored[i] = math.NaN(), math.NaN()
	}
	for i, e := range tested {
		p[i], mirrored[i] = e.p(), e.mirrored()
	}
	p, mirrored = stats.Holm(p), stats.Holm(mirrored)
	for i, e := range tested {
		w := e.worse()
		_, limit := e.limits()
		least := math.Inf(-1)
		if clear {
			least = limit
		}
		e.result.PAdjusted, e.result.PBetterAdjusted = gpuprof.Number(p[i]), gpuprof.Number(mirrored[i])
		switch {
		case p[i] <= alpha && w.Lower(1-alpha) > least:
			e.result.Verdict = Regressed
		case mirrored[i] <= alpha && w.Negate().Lower(1-alpha) > least:
			e.result.Verdict = Improved
		case w.Upper(passLevel) <= limit:
			e.result.Verdict = Same
		default:
			e.blockUndecided()
		}
	}
}

// blockUndecided makes a metric inconclusive because the interval of its change is too wide for a decision.
func (e *entry) blockUndecided() {
	why := fmt.Sprintf("the data allow anything from %s to %s; they could show a change of %s",
		gpuprof.FormatChange(math.Expm1(e.effect.Lower(passLevel))), gpuprof.FormatChange(math.Expm1(e.effect.Upper(passLevel))), gpuprof.FormatPercent(float64(e.result.MDE), 2))
	if e.blame == blameTrend {
		e.blockVerdict(blameTrend, joinReasons(why, e.result.Reason))
		return
	}
	if modes := e.modesText(); modes != "" {
		e.blockVerdict(blameModes, joinReasons(why, modes))
		return
	}
	e.blockVerdict(blameNoise, why)
}

// modesText describes a side whose processes take one of two times; "" if neither side does.
func (e *entry) modesText() string {
	delta, _ := e.limits()
	for i, runs := range [][][]float64{e.old, e.new} {
		m, ok := stats.FindModes(stats.LogMedians(runs), delta)
		if !ok {
			continue
		}
		low, high := gpuprof.FormatSI(math.Exp(m.Low), e.Unit), gpuprof.FormatSI(math.Exp(m.High), e.Unit)
		return fmt.Sprintf("the processes of the %s side have two modes, %s and, in %.0f %% of them, %s", []string{"old", "new"}[i], low, 100*m.Share, high)
	}
	return ""
}

func joinReasons(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "; " + second
}

// escalateEntries ends stage 1: it passes metrics that are clearly no slower, and escalates the others to fresh blocks.
// faster lists the passed metrics that the test for a speedup found faster; they stay Same until a stage confirms them.
func escalateEntries(tested []*entry) (up, faster []*entry) {
	mirrored := make([]float64, len(tested))
	for i, e := range tested {
		mirrored[i] = e.mirrored()
	}
	mirrored = stats.Holm(mirrored)
	for i, e := range tested {
		_, limit := e.limits()
		e.result.PBetterAdjusted = gpuprof.Number(mirrored[i])
		switch {
		case e.p() < escalateAlpha || e.worse().Upper(passLevel) > limit:
			e.result.Escalated = true
			up = append(up, e)
		case mirrored[i] <= alpha:
			e.passUnconfirmed("faster in stage 1, but not confirmed: an improvement must be found again in fresh blocks")
			faster = append(faster, e)
		default:
			e.result.Verdict = Same
		}
	}
	return up, faster
}
