package main

import (
	"errors"
	"io"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// reportDocument reports what is no run in the formats that it has.
func (c *reportCmd) reportDocument(a *app, kind gpuprof.DocumentKind, text []byte) error {
	path, what := c.Runs[0], document.A(kind)
	switch kind {
	case document.Comparison, document.Gate:
		doc, err := compare.Decode(text, path)
		return reportOf(c, a, what, doc, err, verdictWriters(), verdictPicture)
	case document.Tune, document.Claims:
		r, err := tune.Decode(text, path)
		return reportOf(c, a, what, r, err, tuneWriters(), tunePicture)
	}
	s, err := decodeStudy(text, path, kind)
	has := studyWriters()
	delete(has, "pprof") // they show the trace itself, which is not in the file
	delete(has, "perfetto")
	return reportOf(c, a, what, s, err, has, studyPicture)
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
		err = gpuprof.Errorf(gpuprof.ErrInput, "reading %s: schema_version %s is older than this gpuprof's %s and has no mean step; analyse the trace again with gpuprof analyze", path, head.Version, ours)
	}
	return s, err
}

// reportOf prints or writes one document.
func reportOf[D any, W ~func(io.Writer, D, screen) error](c *reportCmd, a *app, what string, doc D, err error, has map[string]W, pictures func(format, kind string) W) error {
	if err != nil {
		return err
	}
	for _, format := range []string{"png", "svg"} {
		has[format] = pictures(format, c.Plot)
	}
	outs, err := outputs(c.Output, c.Force, what, has)
	if err != nil {
		return err
	}
	if err := checkPlot(c.Plot, outs); err != nil {
		return err
	}
	if len(outs) == 0 {
		if has[c.Format] == nil {
			return gpuprof.Errorf(gpuprof.ErrUsage, "printing %s: %s has no format %s; use --format table, json or markdown", c.Runs[0], what, c.Format)
		}
		return has[c.Format](a.stdout, doc, screen{a.width(), a.color(), a.quiet})
	}
	var errs []error
	var written []string
	for _, o := range outs {
		err := runfile.Write(o.path, c.Force, func(w io.Writer) error { return has[o.format.Name](w, doc, screen{}) })
		if errs = append(errs, err); err == nil {
			written = append(written, o.path)
		}
	}
	if len(written) > 0 {
		a.note("wrote %s", strings.Join(written, ", "))
	}
	return errors.Join(errs...)
}
