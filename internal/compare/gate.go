package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Block is one process of A and one of B, run one after the other or, if Aligned, in turns. All samples of a process
// belong to its one run.
type Block struct {
	A, B    *Result
	BFirst  bool // B ran before A
	Attempt int  // previous measurements of the block: 0, 1, 2
	// Aligned reports that both processes ran at the same time and took turns (ABBA), so that sample i of A and sample i
	// of B come from the same turn. The block then counts by the median of log(b_i/a_i), in which a slowdown of both
	// cancels, instead of the ratio of the two medians.
	Aligned bool
}

// Order returns for n blocks whether B runs first (stats.BalancedOrder). Stage 2 needs another seed.
func Order(n int, seed uint64) []bool { return stats.BalancedOrder(n, seed) }

// Rerun reports whether to measure a block again, and the reason: more than a tenth of one side's samples carry a
// flag. A block is repeated at most MaxReruns times; after that it is used, and the stages judge it by the
// difference between its sides' flags.
func Rerun(b Block) (again bool, why string) {
	if b.Attempt >= MaxReruns || b.A == nil || b.B == nil {
		return false, ""
	}
	for _, side := range []struct {
		name string
		r    *Result
	}{{"old", b.A}, {"new", b.B}} {
		if i := mergeRunInfo(side.r.RunInfo); i.Flagged > flaggedLimit {
			return true, fmt.Sprintf("%.0f %% of the %s side's samples are flagged %s", 100*i.Flagged, side.name, joinCodes(i.Codes))
		}
	}
	return false, ""
}

// Gate judges A against B from blocks measured in one job, group-sequentially.
//
// Stage 1, of Stage1Blocks, passes metrics that are clearly no slower, ends with a regression that is beyond doubt
// (level earlyAlpha, every block agreeing), and escalates the other metrics. Stage 2 decides on those at level
// alpha, from fresh blocks alone: as many as Useful returns and the time allows, at least MinRuns. The stages are
// not pooled: a chance excursion that escalated a metric would count in the decision too.
//
// The margins suit machines whose processes agree to one or two percent. If the spread between processes exceeds
// the threshold, or a fifth of them are slow, a metric that stage 2 does not pass needs a third stage like it: the
// blocks of both decide, at level pooledAlpha.
//
// Improved needs the same evidence for a speedup: beyond doubt in stage 1, or a confirmation by as many stages as a
// slowdown needs. If no metric needs the next stage for a decision, that stage may be measured only to confirm
// improvements (Unconfirmed). An unconfirmed improvement is Same, with a reason.
//
// If a result names its Total, only the Total is judged, so that twenty stages do not raise a false alarm by
// chance. Its other measured metrics explain it, except those measured under load and those that the options name.
// Exact counters are always judged.
//
//	g := compare.NewGate(o)
//	c, err := g.Stage1(blocks)
//	if err == nil && len(g.Escalated())+len(g.Unconfirmed()) > 0 { c, err = g.Stage2(more) }
//	if err == nil && len(g.Doubtful())+len(g.Unconfirmed()) > 0 { c, err = g.Stage3(still) }
type Gate struct {
	o                                 Options
	last                              *comparisonState
	escalatedEntries, doubtfulEntries []*entry // metrics that stage 2 and stage 3 must decide
	escalated                         int      // number of metrics that stage 1 left open
	faster                            []*entry // metrics that passed, and are improved if the next stage confirms it
}

// NewGate makes a gate; Stage1 checks the options.
func NewGate(o Options) *Gate {
	o.Judge = true
	return &Gate{o: o}
}

// Pace sets the mean duration of a block in the gate, in seconds.
func (g *Gate) Pace(seconds float64) { g.o.BlockSeconds = seconds }

// Escalated names the metrics that stage 2 must decide.
func (g *Gate) Escalated() []string { return metricNames(g.escalatedEntries) }

// Unconfirmed names the metrics that passed the last stage and were faster in it. The next stage may confirm the
// improvement.
func (g *Gate) Unconfirmed() []string { return metricNames(g.faster) }

func metricNames(es []*entry) []string {
	out := make([]string, len(es))
	for i, e := range es {
		out[i] = e.Name
	}
	return out
}

// Stage1 judges the first blocks. Its Comparison is final if no metric is escalated; escalated metrics are
// inconclusive in it until Stage2 has judged fresh blocks. Errors as for Compare.
func (g *Gate) Stage1(blocks []Block) (*Comparison, error) {
	b, err := g.layBlocks(blocks, g.o, func(*entry) bool { return true })
	if err != nil {
		return nil, err
	}
	b.stages = 1
	ended := b.endEarly()
	g.last = b
	g.escalatedEntries, g.faster = escalateEntries(b.testableEntries())
	g.escalated = len(g.escalatedEntries)
	why, reason := blameStage2, "stage 1 cannot rule a slowdown out, and stage 2 has not been measured"
	if len(ended) > 0 {
		why, reason = blameEarly, fmt.Sprintf("not decided: the gate ended when stage 1 had found %s slower", listNames(ended))
	}
	for _, e := range g.escalatedEntries {
		if e.blame != blameTrend {
			e.result.Reason = ""
		}
		e.result.Reason, e.blame = joinReasons(reason, e.result.Reason), why
	}
	if len(ended) > 0 {
		g.escalatedEntries, g.faster = nil, nil
	}
	return b.newComparison(), nil
}

// Useful returns the number of blocks that the next stage can use: enough to find a slowdown of the threshold with a
// probability of 0.9 (power) under the noise of the previous stage. If no metric is open, the blocks find an
// improvement of that size.
func (g *Gate) Useful() int {
	open := g.pending()
	need := 0.0
	for _, e := range open {
		delta, limit := e.limits()
		need = max(need, usefulBlocks(e.noise, delta, limit, len(open)))
	}
	return int(min(need, mostBlocks))
}

// pending returns the metrics that the next stage must decide, or else the improvements that it may confirm.
func (g *Gate) pending() []*entry {
	for _, open := range [][]*entry{g.doubtfulEntries, g.escalatedEntries} {
		if len(open) > 0 {
			return open
		}
	}
	return g.faster
}

// layBlocks prepares the blocks of one stage with the metrics that keep selects.
func (g *Gate) layBlocks(blocks []Block, o Options, keep func(*entry) bool) (*comparisonState, error) {
	if len(blocks) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "judging a gate: there are no blocks").WithFix("measure at least %d", Stage1Blocks)
	}
	var as, bs []*Result
	for i, b := range blocks {
		if b.A == nil || b.B == nil {
			return nil, gpuprof.Errorf(gpuprof.ErrInput, "judging a gate: block %d lacks a side", i+1).WithFix("measure it again")
		}
		as, bs = append(as, b.A), append(bs, b.B)
	}
	old, new := joinParts(as), joinParts(bs)
	if err := requireMetrics(old, new); err != nil {
		return nil, err
	}
	b, err := newBench(kindGate, old, new, o)
	if err != nil {
		return nil, err
	}
	b.entries = slices.DeleteFunc(b.entries, func(e *entry) bool { return !keep(e) })
	aligned := make([]bool, 0, len(blocks))
	for _, blk := range blocks {
		b.order = append(b.order, blk.BFirst, !blk.BFirst)
		aligned = append(aligned, blk.Aligned)
	}
	b.measureEffects(func(e *entry) (stats.Effect, bool) { return e.estimateEffect(aligned) })
	b.explainStages(g.o)
	b.findTrends()
	b.allowForTrends()
	return b, nil
}

// estimateEffect pairs the metric's runs into blocks and estimates the change from them.
func (e *entry) estimateEffect(aligned []bool) (effect stats.Effect, ok bool) {
	delta, _ := e.limits()
	if len(e.old) != len(aligned) {
		return stats.Effect{}, false // a run without samples leaves its block without a partner
	}
	if e.blocks, ok = stats.NewBlocks(e.old, e.new, aligned, delta); !ok {
		return stats.Effect{}, false
	}
	return e.estimateBlocks()
}

// estimateBlocks estimates the change from the blocks, by the estimator that suits the noise.
func (e *entry) estimateBlocks() (effect stats.Effect, ok bool) {
	delta, _ := e.limits()
	e.noise, e.result.Estimator = e.blocks.Noise(delta), ""
	e.nameRule(e.noise.Rule)
	if by := e.blocks.Centre(); by != "" {
		e.result.Estimator = string(e.noise.Rule) + " of " + by
	}
	return e.blocks.Estimate(e.noise.Rule)
}

// nameRule names the estimator in the result unless it is the mean.
func (e *entry) nameRule(rule stats.Rule) {
	if rule != stats.PairedMean {
		e.result.Estimator = string(rule)
	}
}

// explainStages excludes from the judgement the metrics that only explain the total; their verdict is Explains.
func (b *comparisonState) explainStages(o Options) {
	for _, e := range b.entries {
		if e.Beside && len(o.Only) == 0 && !e.decidedEarly() && !slices.ContainsFunc(o.Metrics, func(m MarginsFor) bool { return m.Metric == e.Name }) {
			e.excludeFromJudgement()
		}
	}
	total := b.findEntry(b.new.Total)
	if total == nil || b.old.Total != b.new.Total || total.Exact || len(o.Only) > 0 {
		return
	}
	for _, e := range b.entries {
		named := slices.ContainsFunc(o.Metrics, func(m MarginsFor) bool { return !strings.Contains(m.Metric, "*") && m.Metric == e.Name })
		if e == total || e.Exact || e.decidedEarly() || named || e.isUnderLoad() {
			continue
		}
		e.excludeFromJudgement()
	}
}

// excludeFromJudgement gives the verdict Explains, and keeps the reason.
func (e *entry) excludeFromJudgement() {
	e.result.Verdict = Explains
	e.result.Reason = cmp.Or(e.blocked, e.result.Reason)
	e.blocked, e.blame = "", blameNone
}

// StagesLeft returns how many stages must share the remaining time: two if stage 3 would have to confirm stage 2, else
// one.
func (g *Gate) StagesLeft() int {
	if g.last.stages == 1 && slices.ContainsFunc(g.pending(), (*entry).isScattered) {
		return 2
	}
	return 1
}

// isScattered reports whether the spread between processes of one side exceeds the threshold, or many are slow.
func (e *entry) isScattered() bool {
	_, limit := e.limits()
	return e.noise.Spread > limit || e.noise.Slow >= manySlow
}

func (e *entry) scatterText() string {
	if _, limit := e.limits(); e.noise.Spread > limit {
		return "processes of one side differ by " + gpuprof.FormatPercent(math.Expm1(e.noise.Spread), 2)
	}
	return "many processes are slow"
}

// Stage2 decides on the escalated metrics from fresh blocks, confirms improvements of stage 1, and returns the
// comparison of both stages. Other verdicts of stage 1 stay, but counter changes and failures that appear only in stage
// 2 count too. The comparison is final if no metric is doubtful; doubtful metrics are inconclusive in it until Stage3
// has judged fresh blocks.
func (g *Gate) Stage2(blocks []Block) (*Comparison, error) {
	if g.last == nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "judging a gate: stage 2 came before stage 1").WithFix("judge the first blocks first")
	}
	b, family, again, err := g.next(blocks, g.escalatedEntries)
	if err != nil {
		return nil, err
	}
	g.escalatedEntries, g.faster = nil, nil
	for _, e := range slices.Concat(family, again) {
		switch v := e.result.Verdict; {
		case !e.isScattered():
		case v == Improved:
			e.passUnconfirmed(fmt.Sprintf("faster in stage 2, but %s: an improvement must then be found once more", e.scatterText()))
			g.faster = append(g.faster, e)
		case v == Regressed:
			e.result.Verdict = Inconclusive
			e.blockVerdict(blameStage2, fmt.Sprintf("stage 2 found it slower, but %s, and stage 3 has not been measured", e.scatterText()))
			g.doubtfulEntries = append(g.doubtfulEntries, e)
		case e.blame == blameNoise || e.blame == blameModes:
			g.doubtfulEntries = append(g.doubtfulEntries, e)
		}
	}
	return b.newComparison(), nil
}

// Doubtful names the metrics that stage 3 must decide.
func (g *Gate) Doubtful() []string { return metricNames(g.doubtfulEntries) }

// Stage3 decides on the doubtful metrics from the blocks of stages 2 and 3 together, and confirms improvements of
// stage 2 from its blocks alone.
func (g *Gate) Stage3(blocks []Block) (*Comparison, error) {
	if len(g.doubtfulEntries)+len(g.faster) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "judging a gate: stage 3 was asked for, and no metric is doubtful").WithFix("take the comparison of the stage before")
	}
	b, family, _, err := g.next(blocks, g.doubtfulEntries)
	if err != nil {
		return nil, err
	}
	g.doubtfulEntries, g.faster = nil, nil // no stage follows
	for _, e := range family {
		delta, _ := e.limits()
		r, p, fresh := &e.result, e.result.PAdjusted, e.fresh
		if r.Verdict == Improved {
			p, fresh = r.PBetterAdjusted, -fresh
		}
		switch {
		case r.Verdict == Same || r.Verdict == Inconclusive:
		case fresh <= delta:
			r.Verdict = Inconclusive
			e.blockVerdict(blameNoise, fmt.Sprintf("stages 2 and 3 contradict each other: stage 3 alone has %s", gpuprof.FormatChange(math.Expm1(e.fresh))))
		case p > pooledAlpha:
			r.Verdict = Inconclusive
			e.blockUndecided()
		}
	}
	return b.newComparison(), nil
}

// addStage pools the blocks of stage 2 with the entry's own blocks of stage 3.
func (e *entry) addStage(stage2 *entry) {
	delta, _ := e.limits()
	joined, ok := stage2.blocks.Join(e.blocks, delta)
	if !e.ok || !ok {
		return
	}
	bias := max(e.effect.Bias, stage2.effect.Bias)
	e.fresh, e.blocks = e.worse().Theta, joined
	effect, ok := e.estimateBlocks()
	effect.Bias = bias
	e.set(effect, ok)
}

// next decides the open metrics from the blocks of a further stage; family are their entries. Its bench holds all
// metrics: the open ones with their new evidence, the others unchanged. again lists the improvements of the previous
// stage that this stage confirms.
func (g *Gate) next(blocks []Block, open []*entry) (b *comparisonState, family, again []*entry, err error) {
	o := g.o
	o.Metrics, o.Only = nil, nil // stage 1 checked these options; the entries hold the margins
	isOpen := map[string]bool{}
	for _, e := range open {
		isOpen[e.Name] = true
	}
	faster := metricNames(g.faster)
	b, err = g.layBlocks(blocks, o, func(e *entry) bool { return e.Exact || isOpen[e.Name] || slices.Contains(faster, e.Name) })
	if err != nil {
		return nil, nil, nil, err
	}
	now := map[string]*entry{}
	for _, e := range b.entries {
		now[e.Name] = e
	}
	before := g.last
	final := make([]*entry, len(before.entries))
	for i, first := range before.entries {
		second := now[first.Name]
		switch {
		case first.Exact && second != nil && first.result.Verdict == Same && second.result.Verdict != Same:
			final[i] = second
			continue
		case !isOpen[first.Name]:
			final[i] = first
			continue
		case second == nil:
			second = &entry{Metric: first.Metric}
			second.fillSides(true)
			second.blocked, second.blame = fmt.Sprintf("stage %d did not measure it", before.stages+1), blameData
		}
		second.inheritEvidence(first)
		if before.stages > 1 {
			second.addStage(first)
		}
		final[i] = second
		family = append(family, second)
	}
	decideFamily(family, g.escalated-len(family))
	again = g.confirmFaster(final, now)
	b.entries, b.stages = final, before.stages+1
	b.earlier = slices.Concat(before.earlier, listTurns(before.order, before.stages, before.old, before.new))
	b.warnings = append(b.warnings, before.warnings...)
	b.warnings = slices.CompactFunc(b.warnings, func(x, y gpuprof.Warning) bool { return x == y })
	b.old.Failed, b.new.Failed = unionStrings(before.old.Failed, b.old.Failed), unionStrings(before.new.Failed, b.new.Failed)
	g.last = b
	return b, family, again, nil
}

// inheritEvidence copies the margins from first, the entry of the same metric in the gate's previous stage. It also
// stores first's results (ratio, interval, p-value, sample counts) as Stage1 or Stage2 of e. It recomputes e's
// p-value, which depends on the margins.
func (e *entry) inheritEvidence(first *entry) {
	e.margins = first.margins
	e.result.Threshold = first.margins.Threshold
	e.result.Escalated = true
	f := &first.result
	seen := &StageEvidence{Ratio: f.Ratio, CI95: f.CI95, P: f.P, Runs: f.Runs, Samples: first.samples()}
	if f.Stage1 == nil {
		e.result.Stage1 = seen
	} else {
		e.result.Stage1, e.result.Stage2 = f.Stage1, seen
	}
	if e.ok { // recompute the p-value, which depends on the margins
		e.set(e.effect, true)
	}
}

// decideFamily decides a stage's metrics by Holm's procedure, which also counts the metrics that could not be tested
// and the metrics that stage 2 passed.
func decideFamily(family []*entry, untested int) {
	var tested []*entry
	for _, e := range family {
		switch {
		case e.decidedEarly():
		case e.blocked == "" && e.ok:
			tested = append(tested, e)
		default:
			untested++
		}
	}
	decideVerdicts(tested, untested, false)
}

func unionStrings(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
