package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// The exit codes of a comparison; cmd/gpuprof has all exit codes.
const (
	exitPass         = 0
	exitRegression   = 1
	exitInconclusive = 3
	exitFailed       = 4
)

func (b *comparisonState) newComparison() *Comparison {
	c := &Comparison{
		Head: headOf(b.kind, b.o.Tool), Sides: b.kind, Old: b.old.Source, New: b.new.Source,
		Workload: cmp.Or(b.new.Workload, b.old.Workload), Preset: cmp.Or(b.new.Preset, b.old.Preset),
		Threshold: b.o.fillDefaults().Threshold, SessionSpread: b.spread, SpreadAssumed: b.assumed, Seed: b.o.Seed, Stages: b.stages,
		Metrics: make([]MetricResult, len(b.entries)), Differences: b.diffs, Warnings: []gpuprof.Warning{}, Next: []string{},
	}
	c.Order = slices.Concat(b.earlier, listTurns(b.order, b.stages, b.old, b.new))
	c.Fingerprints = Fingerprints{fingerprintOf(b.old), fingerprintOf(b.new)}
	for i, e := range b.entries {
		c.Metrics[i] = e.result
		c.Metrics[i].Samples = e.samples()
		if e.result.Verdict == Inconclusive && e.blocked != "" {
			c.Metrics[i].Reason = e.blocked
			if e.unlike || e.blame == blameMismatch || e.blame == blameRate {
				c.Metrics[i].Verdict = NotComparable
			}
		}
	}
	c.Causes, c.Attribution = findCauses(b)
	for i, side := range []*Result{b.old, b.new} {
		c.Failed = append(c.Failed, failedOf(side)...)
		c.Warnings = append(c.Warnings, sideWarnings([]string{"old", "new"}[i]+" side: ", side.Warnings)...)
	}
	c.Warnings = append(c.Warnings, b.warnings...)
	c.conclude(b.o)
	if c.Verdict == Regressed { // other open metrics do not matter then
		c.Next = append(c.Next, c.lookAt()...)
	} else {
		c.Next = append(c.Next, b.next()...)
	}
	document.CleanStrings(c)
	return c
}

// lookAt proposes where to search for the cause of a regression of the step: in the stage with the largest share,
// and in the knob that differs.
func (c *Comparison) lookAt() []string {
	if len(c.Causes) == 0 {
		return nil
	}
	text := "look at " + c.Causes[0].Stage + " first"
	for _, d := range c.Differences {
		if d.Kind == kindKnob && d.Old != "" {
			return []string{text + ", or set " + d.Field + " back to " + d.Old}
		}
	}
	return []string{text}
}

func (r *Result) label() string { return cmp.Or(r.Source, "result") }

// conclude derives the overall verdict and exit code, by precedence: something failed > regressed > not comparable
// > inconclusive > improved > pass.
func (c *Comparison) conclude(o Options) {
	seen := map[Verdict]bool{}
	for _, m := range c.Metrics {
		seen[m.Verdict] = true
	}
	for _, b := range c.Budgets {
		seen[b.Verdict] = true
	}
	switch {
	case seen[Regressed]:
		c.Verdict = Regressed
	case seen[NotComparable]:
		c.Verdict = NotComparable
	case seen[Inconclusive] || len(c.Failed) > 0 || len(c.Budgets) == 0 && c.Count(Explains) == len(c.Metrics):
		c.Verdict = Inconclusive
	case seen[Improved]:
		c.Verdict = Improved
	default:
		c.Verdict = Pass
	}
	c.ExitCode = c.exitCode(o)
}

// exitCode returns, in this precedence: 4 something failed, 1 regression, 3 not comparable or inconclusive, 0 pass.
// Only a gate exits 1 for a regression; compare describes. No option makes "not comparable" a pass.
func (c *Comparison) exitCode(o Options) int {
	switch {
	case len(c.Failed) > 0:
		return exitFailed
	case c.Verdict == Regressed && o.Judge:
		return exitRegression
	case c.Verdict.Open() && o.Inconclusive == "fail" && o.Judge:
		return exitRegression
	case c.Verdict == NotComparable, c.Verdict == Inconclusive && o.Inconclusive != "pass":
		return exitInconclusive
	}
	return exitPass
}

// Count returns the number of metrics with a verdict.
func (c *Comparison) Count(v Verdict) int {
	n := 0
	for _, m := range c.Metrics {
		if m.Verdict == v {
			n++
		}
	}
	return n
}

// joinCodes formats reason codes: "a, b", or a word for none.
func joinCodes(codes []string) string {
	if len(codes) == 0 {
		return "(for no recorded reason)"
	}
	return strings.Join(codes, ", ")
}

var ofProcess = lazyregexp.New(`^process \d+: `)

// sideWarnings prefixes warnings with their side's name, and merges equal warnings of processes with their number.
func sideWarnings(side string, all []gpuprof.Warning) []gpuprof.Warning {
	out := []gpuprof.Warning{}
	processes := map[string]int{}
	for _, w := range all {
		prefix := ofProcess.FindString(w.Text)
		if prefix != "" {
			if processes[w.Code]++; processes[w.Code] > 1 {
				continue
			}
		}
		w.Text = side + w.Text
		out = append(out, w)
	}
	for i, w := range out {
		if n := processes[w.Code] - 1; n > 0 && ofProcess.MatchString(strings.TrimPrefix(w.Text, side)) {
			out[i].Text += fmt.Sprintf(" (and so in %d more of its processes)", n)
		}
	}
	return out
}

// failedOf lists a side's failures as "side: name: why", equal ones once with their count: a benchmark that fails in
// one process mostly fails in all.
func failedOf(r *Result) []string {
	var out []string
	times := map[string]int{}
	for _, f := range r.Failed {
		if times[f]++; times[f] == 1 {
			out = append(out, f)
		}
	}
	for i, f := range out {
		out[i] = r.label() + ": " + f
		if n := times[f]; n > 1 {
			out[i] += fmt.Sprintf(" (%d times)", n)
		}
	}
	return out
}
