package figure

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/sweep"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// kind is one of the figures that can be drawn from a document of type D.
type kind[D any] struct {
	name string // value of --plot
	draw func(D) *Figure
}

// Each of the following functions lists the figures of one kind of document; the first figure is the default.

func runKinds() []kind[[]*gpuprof.Run] {
	first := func(draw func(*gpuprof.Run) *Figure) func([]*gpuprof.Run) *Figure {
		return func(runs []*gpuprof.Run) *Figure { return draw(runs[0]).oneOf(runs) }
	}
	return []kind[[]*gpuprof.Run]{
		{"stages", first(Stages)}, {"timeline", first(Timeline)},
		{"distribution", first(func(r *gpuprof.Run) *Figure { return Distribution(r, MostSamples) })},
		{"roofline", first(Roofline)}, {"telemetry", first(Telemetry)}, {"shares", first(Shares)}, {"scaling", Scaling}, {"requests", first(Requests)},
		{"load", LatencyOverLoad},
	}
}

func comparisonKinds() []kind[*compare.Comparison] {
	return []kind[*compare.Comparison]{{"waterfall", Waterfall}, {"effects", Effects}, {"distribution", Overlay}}
}

func tuningKinds() []kind[*tune.Result] {
	return []kind[*tune.Result]{{"effects", KnobEffects}, {"scaling", Curves}}
}

func analysisKinds() []kind[Traces] {
	return []kind[Traces]{
		{"stages", func(t Traces) *Figure { return Accounts(t.Of) }}, {"timeline", func(t Traces) *Figure { return Steps(t.Of) }},
		{"overview", func(t Traces) *Figure { return Overview(t) }}, {"roofline", func(t Traces) *Figure { return TraceRoofline(t.Of) }},
		{"calls", func(t Traces) *Figure { return HostCalls(t.Of) }},
	}
}

func historyKinds() []kind[*history.Report] { return []kind[*history.Report]{{"trend", Trends}} }

// sides is a comparison, with the traces before and after (nil if not loaded).
type sides struct {
	c        *analyze.Comparison
	old, now []*analyze.Index
}

func traceKinds() []kind[sides] {
	return []kind[sides]{
		{"waterfall", func(s sides) *Figure { return ClassChanges(s.c) }},
		{"overview", func(s sides) *Figure { return BothOverviews(s.c, s.old, s.now) }},
	}
}

func bisectKinds() []kind[*bisect.Search] { return []kind[*bisect.Search]{{"posterior", Chances}} }

func fleetKinds() []kind[*fleet.Report] { return []kind[*fleet.Report]{{"stragglers", RankTimes}} }

func memoryKinds() []kind[*memsnap.Analysis] {
	return []kind[*memsnap.Analysis]{{"memory", MemoryOverTime}, {"sites", MemorySites}, {"calls", MemoryCalls}, {"map", MemoryMap}}
}

// document is a kind of document with its figures, and a command line that writes a document of this kind.
type document struct {
	what, command string // the command has -o
	names         []string
}

func documentTable() []document {
	return []document{
		{"a run", "gpuprof run WORKLOAD -o run.json", namesOf(runKinds())},
		{"a comparison", "gpuprof compare OLD NEW -o NAME.png", namesOf(comparisonKinds())},
		{"a tuning result", "gpuprof tune WORKLOAD -o NAME.png", namesOf(tuningKinds())},
		{"an analysis", "gpuprof analyze TRACE --plot NAME -o NAME.png", namesOf(analysisKinds())},
		{"a comparison of traces", "gpuprof analyze --compare OLD NEW --plot NAME -o NAME.png", namesOf(traceKinds())},
		{"a bisection", "gpuprof bisect GOOD..BAD -o NAME.png -- CMD", namesOf(bisectKinds())},
		{"an analysis of memory", "gpuprof analyze SNAPSHOT --plot NAME -o NAME.png", namesOf(memoryKinds())},
		{"a history", "gpuprof history -o NAME.png", namesOf(historyKinds())},
		{"a fleet report", "gpuprof fleet DIR -o NAME.png", namesOf(fleetKinds())},
	}
}

func namesOf[D any](kinds []kind[D]) []string {
	var out []string
	for _, k := range kinds {
		out = append(out, k.name)
	}
	return out
}

// Kinds lists all figures, a run's first. A document has only some of them.
func Kinds() []string {
	var out []string
	for _, d := range documentTable() {
		for _, n := range d.names {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// KindsText lists the figures by document for a help text; for one document ("an analysis") if what names it.
func KindsText(what string) string {
	var parts []string
	for _, d := range documentTable() {
		if what != "" && what != d.what {
			continue
		}
		parts = append(parts, "of "+d.what+" "+strings.Join(d.names, ", "))
	}
	return strings.Join(parts, "; ")
}

// findOwner names the documents that have a figure, and the command for the first one.
func findOwner(name string) string {
	var has []string
	command := ""
	for _, d := range documentTable() {
		if slices.Contains(d.names, name) {
			if has = append(has, d.what); command == "" {
				command = strings.ReplaceAll(d.command, "NAME", name)
			}
		}
	}
	return "it shows " + strings.Join(has, " or ") + "; write one with " + command
}

// OfRuns draws the figure named want. "" draws the stages of one run, the scaling of several, or their latency if only
// the load differs. The error is ErrUsage, with the possible figures, if want is unknown or the runs lack it.
func OfRuns(runs []*gpuprof.Run, want string) (*Figure, error) {
	runs = view.Compact(runs)
	switch {
	case want != "" || len(runs) == 0:
	case len(sweep.Vary(runs)) > 0:
		want = "scaling"
		if _, only := sweep.Loads(runs); only {
			if f := LatencyOverLoad(runs); f.Lacks == "" { // enough requests for a percentile
				return f, nil
			}
		}
	default: // a run's own default comes first, even if it has no times
		return Stages(runs[0]).oneOf(runs), nil
	}
	return drawNamed("a run", runKinds(), runs, len(runs) == 0, want)
}

// OfComparison draws a comparison's figure named want; errors as OfRuns. "" draws the waterfall if stages explain the
// change, else the ratios.
func OfComparison(c *compare.Comparison, want string) (*Figure, error) {
	return drawNamed("a comparison", comparisonKinds(), c, c == nil, want)
}

// OfTuning draws a tuning result's figure named want; errors as OfRuns. "" draws the effect of each knob, or of each
// claim.
func OfTuning(r *tune.Result, want string) (*Figure, error) {
	if r != nil && len(r.Claims) > 0 {
		return drawNamed("a tuning result", []kind[*tune.Result]{{"effects", Claims}}, r, false, want)
	}
	return drawNamed("a tuning result", tuningKinds(), r, r == nil, want)
}

// OfAnalysis draws an analysis's figure named want; errors as OfRuns. "" draws the parts of the devices' time. xs are
// the indexes of the traces, without which the figure "overview" is missing.
func OfAnalysis(a *analyze.Analysis, xs []*analyze.Index, want string) (*Figure, error) {
	return drawNamed("an analysis", analysisKinds(), Traces{Of: a, Xs: xs}, a == nil, want)
}

// OfTraces draws the figure named want of a comparison of traces; errors as OfRuns. old and now are the indexes of the
// traces of both sides, without which the figure "overview" is missing.
func OfTraces(c *analyze.Comparison, old, now []*analyze.Index, want string) (*Figure, error) {
	return drawNamed("a comparison of traces", traceKinds(), sides{c, old, now}, c == nil, want)
}

// OfBisect draws the figure named want of a search for a commit; errors as OfRuns. "" draws the probability of each
// commit.
func OfBisect(s *bisect.Search, want string) (*Figure, error) {
	return drawNamed("a bisection", bisectKinds(), s, s == nil, want)
}

// OfMemory draws the figure named want of an analysis of memory; errors as OfRuns. "" draws memory over time.
func OfMemory(a *memsnap.Analysis, want string) (*Figure, error) {
	return drawNamed("an analysis of memory", memoryKinds(), a, a == nil, want)
}

// OfHistory draws a history's trends, its only figure; errors as OfRuns.
func OfHistory(r *history.Report, want string) (*Figure, error) {
	return drawNamed("a history", historyKinds(), r, r == nil, want)
}

// OfFleet draws the time that a job's ranks wait for each other, its only figure; errors as OfRuns.
func OfFleet(r *fleet.Report, want string) (*Figure, error) {
	return drawNamed("a fleet report", fleetKinds(), r, r == nil, want)
}

// drawNamed draws the figure named want; what names the document in errors ("a run"). "" draws the first figure with
// content, else the first. none reports that the document is missing.
func drawNamed[D any](what string, kinds []kind[D], doc D, none bool, want string) (*Figure, error) {
	if none {
		return nil, view.ErrNoRun("a picture")
	}
	for _, k := range kinds {
		if want != "" && k.name != want {
			continue
		}
		f := k.draw(doc)
		switch {
		case f.Lacks == "":
			return f, nil
		case want != "":
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "drawing %s: %s", want, f.Lacks).WithFix("%s", listDrawable(kinds, doc, what))
		}
	}
	switch {
	case want == "":
		return kinds[0].draw(doc), nil
	case slices.Contains(Kinds(), want):
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "drawing %s: %s has none, %s", want, what, findOwner(want)).WithFix("%s", listDrawable(kinds, doc, what))
	}
	return nil, gpuprof.Errorf(gpuprof.ErrUsage, "drawing %s: there is no such picture", view.Cut(want, 40)).WithFix("use --plot %s%s", strings.Join(Kinds(), ", "), gpuprof.DidYouMean(want, Kinds()))
}

// listDrawable names the figures of a document that have content.
func listDrawable[D any](kinds []kind[D], doc D, what string) string {
	var names []string
	for _, k := range kinds {
		if k.draw(doc).Lacks == "" {
			names = append(names, k.name)
		}
	}
	if len(names) == 0 {
		return "leave --plot out: there is nothing in it to draw"
	}
	return what + " like this one has --plot " + strings.Join(names, ", ")
}
