package main

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// The documents that report takes beside runs, by the word for them.
const (
	aComparison      = "a comparison"
	aTuning          = "a tuning result"
	anAnalysis       = "an analysis"
	aTraceComparison = "a comparison of traces"
)

// documentOf says what a text holds: one of the words above, "" for a run and
// for what cannot be read, whose reader then says why.
func documentOf(text []byte) (what string) {
	gpuprof.JSONMembers(text, func(key string, value []byte) bool {
		switch key {
		case "kind":
			switch string(value) {
			case `"tune"`:
				what = aTuning
			case `"gate"`, `"files"`, `"baseline"`, `"budget"`:
				what = aComparison
			}
			return false
		case "step_source", "inputs":
			what = anAnalysis
			return false
		case "step_old_ns", "old": // an object here, a file's name in a comparison, which has a kind before it
			what = aTraceComparison
			return false
		}
		return key != "knobs" && key != "calibration" // a run has them, and nothing else has
	})
	return what
}

// reportDocument reports what is no run in the formats that it has.
func (c *reportCmd) reportDocument(a *app, what string, text []byte) error {
	path := c.Runs[0]
	switch what {
	case aComparison:
		doc := &compare.Comparison{}
		err := readInto(text, path, doc, compare.SchemaVersion)
		if err == nil && doc.Verdict == "" {
			err = gpuprof.Errorf(gpuprof.ErrInput, "reading %s: it holds no verdict; write it again with gpuprof compare or gate -o FILE.json", path)
		}
		return reportOf(c, a, what, doc, err, verdictWriters(), verdictPicture)
	case aTuning:
		r, err := tune.Decode(text, path)
		return reportOf(c, a, what, r, err, tuneWriters(), tunePicture)
	}
	s := &study{}
	var err error
	if what == aTraceComparison {
		s.comparison = &trace.Comparison{}
		err = readInto(text, path, s.comparison, trace.SchemaVersion)
		if err == nil {
			s.comparison.Upgrade()
			err = sameMajor(path, s.comparison.SchemaVersion)
		}
	} else {
		s.analysis = &trace.Analysis{}
		err = readInto(text, path, s.analysis, trace.SchemaVersion)
		if err == nil {
			s.analysis.Upgrade()
			err = sameMajor(path, s.analysis.SchemaVersion)
		}
	}
	has := studyWriters()
	delete(has, "pprof") // they show the trace itself, which is not in the file
	delete(has, "perfetto")
	return reportOf(c, a, what, s, err, has, studyPicture)
}

// sameMajor refuses an analysis from before steps had one kind of time: its
// figures cannot be shown beside today's words.
func sameMajor(path, version string) error {
	if majorOf(version) == majorOf(trace.SchemaVersion) {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "reading %s: schema_version %s is older than this gpuprof's %s and has no mean step; analyse the trace again with gpuprof analyze", path, version, trace.SchemaVersion)
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

// readInto decodes a document of schema version ours.
func readInto(text []byte, path string, into any, ours string) error {
	var head struct {
		Version string `json:"schema_version"`
	}
	text = gpuprof.NullNumbers(text)
	err := json.Unmarshal(text, &head)
	if err == nil && head.Version == "" {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading %s: it has no schema_version and was not written by gpuprof; give a file that it wrote", path)
	}
	if err == nil && majorOf(head.Version) > majorOf(ours) {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading %s: schema_version %s is newer than this gpuprof's %s; update gpuprof", path, head.Version, ours)
	}
	if err == nil {
		err = gpuprof.DecodeJSON(text, into)
	}
	if err != nil {
		return gpuprof.Unreadable("reading "+path, err, "the file is damaged: write it again")
	}
	return nil
}

func majorOf(version string) int {
	major, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(major)
	return n
}
