package main

import (
	"cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// reporter reports a document that is no run; what is its kind as errors call it.
type reporter func(c *reportCmd, a *app, text []byte, what string) error

// reporters are those of each kind of document that report takes beside runs.
func reporters(a *app) map[gpuprof.DocumentKind]reporter {
	t := a.documents
	comparison, tuning := reporterOf(t.comparison, compare.Decode), reporterOf(t.tuning, tune.Decode)
	analysis := t.analysis.without("pprof", "perfetto") // they show the trace itself, which is not in the file
	return map[gpuprof.DocumentKind]reporter{
		document.Comparison: comparison, document.Gate: comparison, document.Tune: tuning, document.Claims: tuning,
		document.Bisect: reporterOf(t.bisect, bisect.Decode), document.History: reporterOf(t.history, history.Decode),
		document.Memory: reporterOf(t.memory.without("pprof"), memsnap.Decode), // the stacks are not in the file
		document.Analysis: reporterOf(analysis, func(text []byte, path string) (*study, error) {
			a, err := trace.Decode(text, path)
			if err == nil {
				err = withMeanStep(a.Head, path)
			}
			return &study{analysis: a}, err
		}),
		document.TraceComparison: reporterOf(analysis, func(text []byte, path string) (*study, error) {
			c, err := trace.DecodeComparison(text, path)
			if err == nil {
				err = withMeanStep(c.Head, path)
			}
			return &study{comparison: c}, err
		}),
		document.Health: reporterOf(t.health, decoded[health.Report](document.Health)), document.Fleet: reporterOf(t.fleet, decoded[fleet.Report](document.Fleet)),
		document.Check: reporterOf(t.check, decoded[gpuprof.CheckReport](document.Check)), document.Diagnosis: reporterOf(t.diagnosis, diagnosisOf),
	}
}

// decoded reads a document of which no older form is known.
func decoded[D any, P interface {
	*D
	document.Enveloped
}](kind gpuprof.DocumentKind) func(text []byte, path string) (P, error) {
	return func(text []byte, path string) (P, error) {
		d := P(new(D))
		return d, document.Decode(text, path, d, kind)
	}
}

// diagnosisOf refuses a diagnosis of nothing, which has no page.
func diagnosisOf(text []byte, path string) (*gpuprof.Diagnosis, error) {
	d, err := decoded[gpuprof.Diagnosis](document.Diagnosis)(text, path)
	if err == nil && len(d.Checks) == 0 {
		err = gpuprof.Errorf(gpuprof.ErrInput, "reading %s: it is a diagnosis of nothing", path).WithFix("give what gpuprof doctor --format json prints")
	}
	return d, err
}

func reporterOf[D any](k kind[D], decode func(text []byte, path string) (D, error)) reporter {
	return func(c *reportCmd, a *app, text []byte, what string) error {
		doc, err := decode(text, c.Runs[0])
		if err != nil {
			return err
		}
		return reportOf(c, a, k.called(what), doc, nil)
	}
}

// withMeanStep refuses an analysis from before steps had one kind of time: its figures
// cannot be shown beside today's words.
func withMeanStep(head gpuprof.Head, path string) error {
	if ours := document.Version(head.Kind); gpuprof.MajorOf(head.Version) < gpuprof.MajorOf(ours) {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading %s: schema_version %s is older than this gpuprof's %s and has no mean step", path, head.Version, ours).WithFix("analyse the trace again with gpuprof analyze")
	}
	return nil
}

// reportOf prints or writes a document, unless an error is left of reading it; a wrong
// output is said before that.
func reportOf[D any](c *reportCmd, a *app, k kind[D], doc D, reading error) error {
	outs, err := k.outputs(c.Output, c.Force)
	if err == nil {
		err = checkPlot(a, c.Plot, outs)
	}
	if err := cmp.Or(err, reading); err != nil {
		return err
	}
	if len(outs) == 0 {
		return k.show(a, c.Format, doc)
	}
	return k.save(a, outs, doc, c.Plot, c.Force)
}
