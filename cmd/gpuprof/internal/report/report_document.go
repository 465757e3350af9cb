package report

import (
	"cmp"
	"errors"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// reporter reports a document other than a run; the parameter what names its kind in errors.
type reporter func(c *Cmd, a *cli.App, text []byte, what string) error

// reporters returns the reporter of each kind of document except runs.
func reporters(a *cli.App) map[gpuprof.DocumentKind]reporter {
	t := a.Documents
	comparison, tuning := reporterOf(t.Comparison, compare.Decode), reporterOf(t.Tuning, tune.Decode)
	analysis := t.Analysis.Without(recordingFormats()...) // these formats need the trace, which is not in the file
	return map[gpuprof.DocumentKind]reporter{
		document.Comparison: comparison, document.Gate: comparison, document.Tune: tuning, document.Claims: tuning,
		document.Bisect: reporterOf(t.Bisect, bisect.Decode), document.History: reporterOf(t.History, history.Decode),
		document.Memory: reporterOf(t.Memory.Without(recordingFormats()...), memsnap.Decode), // the stacks are not in the file
		document.Analysis: reporterOf(analysis, func(text []byte, path string) (*cli.Study, error) {
			a, err := analyze.Decode(text, path)
			if err == nil {
				err = withMeanStep(a.Head, path)
			}
			return &cli.Study{Analysis: a}, err
		}),
		document.TraceComparison: reporterOf(analysis, func(text []byte, path string) (*cli.Study, error) {
			c, err := analyze.DecodeComparison(text, path)
			if err == nil {
				err = withMeanStep(c.Head, path)
			}
			return &cli.Study{Comparison: c}, err
		}),
		document.Health: reporterOf(t.Health, decoded[health.Report](document.Health)), document.Fleet: reporterOf(t.Fleet, decoded[fleet.Report](document.Fleet)),
		document.Check: reporterOf(t.Check, decoded[gpuprof.CheckReport](document.Check)), document.Diagnosis: reporterOf(t.Diagnosis, diagnosisOf),
	}
}

// decoded parses a document whose older versions need no conversion.
func decoded[D any, P interface {
	*D
	document.Enveloped
}](kind gpuprof.DocumentKind) func(text []byte, path string) (P, error) {
	return func(text []byte, path string) (P, error) {
		d := P(new(D))
		return d, document.Decode(text, path, d, kind)
	}
}

// diagnosisOf refuses an empty diagnosis, which has no page.
func diagnosisOf(text []byte, path string) (*gpuprof.Diagnosis, error) {
	d, err := decoded[gpuprof.Diagnosis](document.Diagnosis)(text, path)
	if err == nil && len(d.Checks) == 0 {
		err = gpuprof.Errorf(gpuprof.ErrInput, "reading %s: it is a diagnosis of nothing", path).WithFix("give what gpuprof doctor --format json prints")
	}
	return d, err
}

func reporterOf[D any](k cli.Kind[D], decode func(text []byte, path string) (D, error)) reporter {
	return func(c *Cmd, a *cli.App, text []byte, what string) error {
		doc, err := decode(text, c.Runs[0])
		if err != nil {
			return err
		}
		return reportOf(c, a, k.Called(what), doc, nil)
	}
}

// withMeanStep refuses an analysis of an earlier major version: its step times had another meaning than today's words.
func withMeanStep(head gpuprof.Head, path string) error {
	if ours := document.Version(head.Kind); gpuprof.MajorOf(head.Version) < gpuprof.MajorOf(ours) {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading %s: schema_version %s is older than this gpuprof's %s and has no mean step", path, head.Version, ours).WithFix("analyse the trace again with gpuprof analyze")
	}
	return nil
}

// reportOf prints or writes a document. An invalid output is reported before an error of reading.
func reportOf[D any](c *Cmd, a *cli.App, k cli.Kind[D], doc D, reading error) error {
	outs, err := k.Outputs(c.Output, c.Force)
	if err == nil {
		err = cli.CheckPlot(a, c.Plot, outs)
	}
	server, wrong := k.Server(c.Pushed)
	if err := cmp.Or(err, wrong, reading); err != nil {
		return err
	}
	if len(outs) == 0 && server == nil {
		return k.Show(a, c.Format, doc)
	}
	return errors.Join(k.Save(a, outs, doc, c.Plot, c.Force), k.SendTo(a, server, doc))
}
