package main

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// output is one -o FILE whose format is known.
type output struct {
	path   string
	format runfile.Format
}

// outputs checks every -o FILE before anything is measured: the format is
// known and one of those that what (a run, an analysis) has, no file is named
// twice, and each can be written.
func outputs[W any](paths []string, force bool, what string, has map[string]W) ([]output, error) {
	var outs []output
	seen := map[string]bool{}
	for _, p := range paths {
		f, err := runfile.FormatOf(p)
		if err != nil {
			return nil, err
		}
		if _, ok := has[f.Name]; !ok {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: %s has no such format; use %s", p, what, strings.Join(extensions(has), " "))
		}
		full := realPath(p)
		if seen[full] {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: the file is named twice; give each -o FILE once", p)
		}
		seen[full] = true
		if err := runfile.Check(p, force); err != nil {
			return nil, err
		}
		outs = append(outs, output{p, f})
	}
	return outs, nil
}

// realPath is the one name of a file that may not be there yet, links followed.
func realPath(p string) string {
	full, err := filepath.Abs(p)
	if err != nil {
		full = filepath.Clean(p)
	}
	if real, err := filepath.EvalSymlinks(full); err == nil {
		return real
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(full)); err == nil {
		return filepath.Join(dir, filepath.Base(full))
	}
	return full
}

// extensions are those of the formats that has holds.
func extensions[W any](has map[string]W) []string {
	var out []string
	for _, f := range runfile.Formats() {
		if _, ok := has[f.Name]; ok {
			out = append(out, f.Ext)
		}
	}
	return out
}

// writeAll writes every output; a failure does not keep the others from being
// written.
func (a *app) writeAll(outs []output, runs []*gpuprof.Run, o runfile.Options, force bool) error {
	var errs []error
	var written []string
	for _, out := range outs {
		encode := writers()[out.format.Name]
		err := runfile.Write(out.path, force, func(w io.Writer) error { return encode(w, runs, o) })
		if err != nil {
			errs = append(errs, err)
			continue
		}
		written = append(written, out.path)
	}
	if len(written) > 0 {
		a.note("wrote %s", strings.Join(written, ", "))
	}
	return errors.Join(errs...)
}

// isPicture reports whether an output shows a --plot.
func isPicture(o output) bool { return o.format.Name == "png" || o.format.Name == "svg" }

// checkPlot refuses a --plot that no output would show.
func checkPlot(kind string, outs []output) error {
	if kind == "" || slices.ContainsFunc(outs, isPicture) {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "drawing plot %s: no output is a picture; add -o %s.png or -o %s.svg", kind, kind, kind)
}

// knownPlot refuses an unknown --plot.
func knownPlot(kind string) error {
	if kind == "" || slices.Contains(plotKinds(), kind) {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "drawing plot %s: there is no such plot; the plots are %s%s",
		kind, strings.Join(plotKinds(), ", "), gpuprof.DidYouMean(kind, plotKinds()))
}
