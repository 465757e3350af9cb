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

// reporter prints or writes a document that is no run. what names the kind of document in errors.
type reporter func(c *Cmd, a *cli.App, text []byte, what string) error

// reporters returns the function that reports a document, by kind of document. Runs are not included.
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
				err = refuseOldSteps(a.Head, path)
			}
			return &cli.Study{Analysis: a}, err
		}),
		document.TraceComparison: reporterOf(analysis, func(text []byte, path string) (*cli.Study, error) {
			c, err := analyze.DecodeComparison(text, path)
			if err == nil {
				err = refuseOldSteps(c.Head, path)
			}
			return &cli.Study{Comparison: c}, err
		}),
		document.Health: reporterOf(t.Health, decoderOf[health.Report](document.Health)), document.Fleet: reporterOf(t.Fleet, decoderOf[fleet.Report](document.Fleet)),
		document.Check: reporterOf(t.Check, decoderOf[gpuprof.CheckReport](document.Check)), document.Diagnosis: reporterOf(t.Diagnosis, decodeDiagnosis),
	}
}

// decoderOf returns a decoder for a kind of document whose older versions need no conversion.
func decoderOf[D any, P interface {
	*D
	document.Enveloped
}](kind gpuprof.DocumentKind) func(text []byte, path string) (P, error) {
	return func(text []byte, path string) (P, error) {
		d := P(new(D))
		return d, document.Decode(text, path, d, kind)
	}
}

// decodeDiagnosis refuses an empty diagnosis, which has no page.
func decodeDiagnosis(text []byte, path string) (*gpuprof.Diagnosis, error) {
	d, err := decoderOf[gpuprof.Diagnosis](document.Diagnosis)(text, path)
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

// refuseOldSteps refuses an analysis of an earlier major version, whose step times have another meaning.
func refuseOldSteps(head gpuprof.Head, path string) error {
	if ours := document.Version(head.Kind); gpuprof.MajorOf(head.Version) < gpuprof.MajorOf(ours) {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading %s: schema_version %s is older than this gpuprof's %s and has no mean step", path, head.Version, ours).WithFix("analyse the trace again with gpuprof analyze")
	}
	return nil
}

// reportOf prints or writes a document. reading is the error of reading the document; an error about the outputs has
// precedence over it.
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
