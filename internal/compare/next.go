package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// moreTime begins the next steps that ask for a larger budget.
const moreTime = "give the gate more time (--budget)"

// next lists the user's next steps that could settle an inconclusive verdict, the most important first.
func (b *comparisonState) next() []string {
	by := map[inconclusiveCause][]*entry{}
	for _, e := range b.entries {
		if e.result.Verdict == Inconclusive {
			why := e.blame
			if e.result.Escalated && why == blameNone {
				why = blameStage2
			}
			by[why] = append(by[why], e)
		}
	}
	var out []string
	if n := len(b.entries); n > 0 && !slices.ContainsFunc(b.entries, func(e *entry) bool { return e.result.Reason != noDirection }) {
		out = append(out, "give figures with a unit of time or a rate, or in a format that has directions: no metric of these files has one")
	}
	say := func(why inconclusiveCause, text func([]*entry) string) {
		if es := by[why]; len(es) > 0 {
			out = append(out, text(es))
		}
	}
	say(blameMismatch, func([]*entry) string {
		var fields []string
		for _, d := range refusedFields(b.diffs) {
			fields = append(fields, d.Field)
		}
		if slices.Contains(fields, "format") {
			return "give two results of one format: different programs measure different things"
		}
		return fmt.Sprintf("measure both sides with the same %s, or say --allow-mismatch %s", strings.Join(fields, ", "), strings.Join(fields, " --allow-mismatch "))
	})
	say(blameRate, func(es []*entry) string {
		return fmt.Sprintf("measure the new side at the old one's rate, --set rate=%g", es[0].sides[0].Rate)
	})
	say(blameSender, func([]*entry) string {
		return "measure the side again whose sender was late, with less else running or at a lower rate on both sides"
	})
	say(blameStatus, func([]*entry) string { return "measure the side again that was not finished" })
	say(blameRuns, func([]*entry) string { return b.moreProcesses() })
	say(blameFlags, func([]*entry) string {
		return fmt.Sprintf("measure again on a machine that is not disturbed (%s): let it cool, stop other work, or lock the clocks", b.flagCodes())
	})
	say(blameTrend, func([]*entry) string {
		return "measure A and B in turn (gate --against does), or warm up longer, so that a drift or a step does not look like a difference"
	})
	say(blameData, func(es []*entry) string {
		if !slices.ContainsFunc(b.entries, func(e *entry) bool { return e.sides[0] != nil && e.sides[1] != nil }) {
			return "give the benchmarks the same names on both sides (hyperfine: --command-name): the sides have no metric in common"
		}
		return fmt.Sprintf("look at why there are no usable figures of %s, or leave it out with --metric", listNames(es))
	})
	say(blameCounter, func(es []*entry) string {
		return fmt.Sprintf("find out why %s differs from run to run; an exact counter should not", listNames(es))
	})
	say(blameStage2, func(es []*entry) string {
		return fmt.Sprintf(moreTime+": %s needs at least %d more blocks%s", listNames(es), MinRuns, b.durationText(MinRuns))
	})
	say(blameModes, func(es []*entry) string {
		return fmt.Sprintf("find out what decides between the two modes of %s (placement in memory, the core or clock that a process gets), and fix it on both sides", listNames(es))
	})
	say(blameNoise, b.moreRuns)
	return append(out, b.suggestSteadier(slices.Concat(by[blameNoise], by[blameModes], by[blameStage2], by[blameTrend]))...)
}

// suggestSteadier proposes to judge CPU time, which other programs on the machine change less. It does so if CPU time
// could detect a change of the threshold and none of the open metrics could.
func (b *comparisonState) suggestSteadier(open []*entry) []string {
	if len(open) == 0 || slices.ContainsFunc(open, func(e *entry) bool { return !(e.result.MDE > gpuprof.Number(e.margins.Threshold)) }) {
		return nil
	}
	for _, e := range b.entries {
		if e.Beside && e.result.Verdict == Explains && e.ok && e.result.MDE > 0 && e.result.MDE <= gpuprof.Number(e.margins.Threshold) {
			return []string{fmt.Sprintf("judge %s with --metric %s: it could show a change of %s, and other programs on the machine change it less", e.Name, e.Name, gpuprof.FormatPercent(float64(e.result.MDE), 2))}
		}
	}
	return nil
}

func (b *comparisonState) moreProcesses() string {
	if b.kind == kindGate {
		return fmt.Sprintf(moreTime+", so that all %d blocks are measured", MinRuns)
	}
	switch b.new.Tool {
	case "gpuprof":
		return fmt.Sprintf("measure each side in at least %d processes (gpuprof run … --runs %d)", MinRuns, MinRuns)
	case "go-bench":
		return fmt.Sprintf("measure each side at least %d times (go test -bench … -count %d)", MinRuns, MinRuns)
	case "trace":
		return fmt.Sprintf("record at least %d processes of each version in one job (gpuprof gate --against REF -- COMMAND does): a recording is one process, however many steps it has; gpuprof analyze OLD NEW --compare says what changed between these two", MinRuns)
	case "hyperfine":
		return fmt.Sprintf("measure each side at least %d times (hyperfine --runs %d)", MinRuns, MinRuns)
	}
	return fmt.Sprintf("run the program at least %d times for each side and put its files together (cat 1.json 2.json … > all.json), or measure both sides in one job with gpuprof gate --against", MinRuns)
}

func (b *comparisonState) spreadText() string { return gpuprof.FormatPercent(math.Expm1(b.spread), 2) }

// manyRuns formats a number of runs: "some 250 runs".
func manyRuns(n float64) string {
	if n > 1e6 {
		return "more than a million runs"
	}
	return fmt.Sprintf("some %.0f runs", n)
}

// mostRuns is the largest number of runs per side that a hint suggests.
const mostRuns = 100

// moreRuns estimates how many runs the noisiest metric needs, and names the source of the noise.
func (b *comparisonState) moreRuns(es []*entry) string {
	worst, need := es[0], 0.0
	for _, e := range es {
		if n := b.runsNeeded(e); n > need {
			worst, need = e, n
		}
	}
	have := min(len(worst.old), len(worst.new))
	source := b.largestNoise(worst)
	switch {
	case math.IsInf(need, 1):
		text := fmt.Sprintf("%s: the %s %s alone hides a change of %g %%, and more runs do not reduce that; measure both sides in one job (gpuprof gate --against), or set a larger --threshold", worst.Name, b.spreadText(), worst.spreadSource(), 100*worst.margins.Threshold)
		if !strings.Contains(source, "between sessions") {
			text += "; besides, " + source
		}
		return text
	case need > mostRuns:
		return fmt.Sprintf("%s: %s; stop other work on the machine or measure elsewhere (as it is, %s per side would be needed to find %g %%%s)", worst.Name, source, manyRuns(need), 100*worst.margins.Threshold, b.durationText(need))
	case need <= float64(have):
		return fmt.Sprintf("%s: the change is close to the threshold of %g %%; decide whether it is acceptable, or set another --threshold (%s)", worst.Name, 100*worst.margins.Threshold, source)
	}
	return fmt.Sprintf("about %.0f runs per side instead of %d would find a change of %g %% in %s%s (%s)", need, have, 100*worst.margins.Threshold, worst.Name, b.durationText(need), source)
}

// durationText formats the time for n runs per side at the measured pace: ", about 2.5 h"; "" if the pace is unknown.
func (b *comparisonState) durationText(n float64) string {
	each := b.o.BlockSeconds
	if b.kind != kindGate {
		each = blockPace(b.old.RunInfo) + blockPace(b.new.RunInfo)
	}
	if !(n*each > 0) || math.IsInf(n, 0) {
		return ""
	}
	return ", about " + Lasting(n*each)
}

// Lasting formats a duration in seconds: "40 s", "12 min", "2.5 h", "3 days".
func Lasting(s float64) string {
	switch {
	case s < 100:
		return fmt.Sprintf("%.0f s", s)
	case s < 100*60:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 100*3600:
		return fmt.Sprintf("%.3g h", s/3600)
	}
	return fmt.Sprintf("%.0f days", min(s/86400, 1000))
}

func blockPace(runs []RunInfo) float64 {
	if len(runs) < 2 || runs[0].StartS == 0 || runs[len(runs)-1].StartS <= runs[0].StartS {
		return 0
	}
	return (runs[len(runs)-1].StartS - runs[0].StartS) / float64(len(runs)-1)
}

// runsNeeded returns the number of runs per side that lowers the minimum detectable effect to the threshold; +Inf
// if the session term alone exceeds the threshold.
func (b *comparisonState) runsNeeded(e *entry) float64 {
	if !e.ok || e.effect.SE == 0 {
		return 0
	}
	delta, limit := e.limits()
	if b.kind == kindGate {
		return math.Ceil(e.noise.Blocks(limit, delta, alpha, power))
	}
	zero := stats.Effect{SE: 1, Nu: math.Inf(1)}
	target := (limit - delta) / zero.MDE(0, alpha, power)
	session := 2 * b.spread * b.spread
	within := max(0, e.effect.SE*e.effect.SE-session)
	if room := target*target - session; room > 0 {
		return math.Ceil(float64(min(len(e.old), len(e.new))) * within / room)
	}
	return math.Inf(1)
}

// largestNoise names the largest part of the error: between sessions, between processes, or between samples.
func (b *comparisonState) largestNoise(e *entry) string {
	between, within, runs := 0.0, 0.0, 0.0
	for _, side := range [][][]float64{e.old, e.new} {
		logs := stats.LogMedians(side)
		if len(logs) < 2 {
			continue
		}
		between += stat.Variance(logs, nil) / 2
		for i, r := range side {
			if se := stats.MedianError(r) / math.Exp(logs[i]); !math.IsNaN(se) {
				within += se * se
				runs++
			}
		}
	}
	if runs > 0 {
		within /= runs
	}
	n := float64(max(1, min(len(e.old), len(e.new))))
	switch {
	case b.spread*b.spread > between/n:
		return fmt.Sprintf("most of the noise is the %s %s", b.spreadText(), e.spreadSource())
	case within > between/2:
		return fmt.Sprintf("most of the noise is between the samples of one process, %s of its median: longer runs help", gpuprof.FormatPercent(math.Sqrt(within), 2))
	}
	return fmt.Sprintf("most of the noise is between processes, %s: more runs help, longer ones do not", gpuprof.FormatPercent(math.Expm1(math.Sqrt(between)), 2))
}

// listNames lists metrics, at most three by name.
func listNames(es []*entry) string { return listSome(metricNames(es), 3) }
