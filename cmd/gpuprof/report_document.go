package main

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// reportDocument reports what is no run in the formats that it has.
func (c *reportCmd) reportDocument(a *app, kind gpuprof.DocumentKind, text []byte) error {
	path, what := c.Runs[0], document.A(kind)
	switch kind {
	case document.Comparison, document.Gate:
		doc, err := compare.Decode(text, path)
		return reportOf(c, a, outputTable().comparison.called(what), doc, err)
	case document.Tune, document.Claims:
		r, err := tune.Decode(text, path)
		return reportOf(c, a, outputTable().tuning.called(what), r, err)
	case document.Bisect:
		s, err := bisect.Decode(text, path)
		return reportOf(c, a, outputTable().bisect.called(what), s, err)
	case document.History:
		r, err := history.Decode(text, path)
		return reportOf(c, a, outputTable().history.called(what), r, err)
	case document.Memory:
		m, err := memsnap.Decode(text, path)
		return reportOf(c, a, outputTable().memory.called(what).without("pprof"), m, err) // the stacks are not in the file
	}
	s, err := decodeStudy(text, path, kind)
	// Two formats show the trace itself, which is not in the file.
	return reportOf(c, a, outputTable().analysis.called(what).without("pprof", "perfetto"), s, err)
}

// decodeStudy refuses an analysis from before steps had one kind of time: its
// figures cannot be shown beside today's words.
func decodeStudy(text []byte, path string, kind gpuprof.DocumentKind) (s *study, err error) {
	s = &study{}
	var head gpuprof.Head
	if kind == document.TraceComparison {
		s.comparison, err = trace.DecodeComparison(text, path)
		head = s.comparison.Head
	} else {
		s.analysis, err = trace.Decode(text, path)
		head = s.analysis.Head
	}
	if ours := document.Version(kind); err == nil && gpuprof.MajorOf(head.Version) < gpuprof.MajorOf(ours) {
		err = gpuprof.Errorf(gpuprof.ErrInput, "reading %s: schema_version %s is older than this gpuprof's %s and has no mean step", path, head.Version, ours).WithFix("analyse the trace again with gpuprof analyze")
	}
	return s, err
}

// reportOf prints or writes one document.
func reportOf[D any](c *reportCmd, a *app, k kind[D], doc D, err error) error {
	if err != nil {
		return err
	}
	outs, err := k.outputs(c.Output, c.Force)
	if err != nil {
		return err
	}
	if err := checkPlot(c.Plot, outs); err != nil {
		return err
	}
	if len(outs) == 0 {
		return k.show(a, c.Format, doc)
	}
	return k.save(a, outs, doc, c.Plot, c.Force)
}
