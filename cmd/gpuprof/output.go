package main

import (
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/runfile"
	"github.com/gpuprof/gpuprof/workloads"
)

// screen is what a document is laid out for.
type screen struct {
	width        int
	lines        int // most that are printed, 0 all
	color, quiet bool
	plot         string // the content of a picture, "" for the document's own
}

// writer writes a document in one format.
type writer[D any] func(w io.Writer, doc D, o screen) error

// kind is a kind of document and the formats that it has; documents has all.
type kind[D any] struct {
	what    string   // "a run": as errors call it
	prints  []string // the formats that --format takes
	writers map[string]writer[D]
}

// without is the kind with fewer formats.
func (k kind[D]) without(formats ...string) kind[D] {
	k.writers = maps.Clone(k.writers)
	for _, f := range formats {
		delete(k.writers, f)
	}
	return k
}

// called is the kind as errors are to call it.
func (k kind[D]) called(what string) kind[D] {
	k.what = what
	return k
}

// output is one -o FILE whose format is known.
type output struct {
	path   string
	format runfile.Format
}

// outputs checks every -o FILE before anything is measured: the format is
// known and one of those that the kind has, no file is named twice, and each can
// be written.
func (k kind[D]) outputs(paths []string, force bool) ([]output, error) {
	var outs []output
	seen := map[string]bool{}
	for _, p := range paths {
		switch p {
		case "":
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: the name of the file is empty", k.what).WithFix("give -o FILE with one of %s", strings.Join(k.extensions(), " "))
		case "-":
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: -o writes files, and - is none", k.what).WithFix("leave it out: --format %s prints to standard output", workloads.WordList(k.prints, "or"))
		}
		f, err := runfile.FormatOf(p)
		if err != nil {
			if isDir(p) || strings.HasSuffix(p, "/") {
				return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: it is a folder", p).WithFix("name a file in it, with one of %s", strings.Join(k.extensions(), " "))
			}
			why, _ := gpuprof.FixOf(err)
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "%s", why).WithFix("use one of %s", strings.Join(k.extensions(), " "))
		}
		if k.writers[f.Name] == nil {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: %s has no such format", p, k.what).WithFix("use %s", strings.Join(k.extensions(), " "))
		}
		full := realPath(p)
		if seen[full] {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: the file is named twice", p).WithFix("give each -o FILE once")
		}
		seen[full] = true
		if err := runfile.Check(p, force); err != nil {
			return nil, err
		}
		outs = append(outs, output{p, f})
	}
	return outs, nil
}

// extensions are those of the formats that the kind has.
func (k kind[D]) extensions() []string {
	var out []string
	for _, f := range runfile.Formats() {
		if k.writers[f.Name] != nil {
			out = append(out, f.Ext)
		}
	}
	return out
}

// formats are the values of --format, and the extensions.
func (k kind[D]) formats() (prints, extensions []string) { return k.prints, k.extensions() }

// write writes one document into a file of a format.
func (k kind[D]) write(w io.Writer, format string, doc D, o screen) error {
	write := k.writers[format]
	if write == nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "printing %s: it has no format %s", k.what, format).WithFix("use --format %s", workloads.WordList(k.prints, "or"))
	}
	return write(w, doc, o)
}

// screen is the terminal behind standard output.
func (a *app) screen() screen {
	o := screen{width: a.width(), color: a.color(), quiet: a.quiet}
	if !a.verbose {
		o.lines = max(briefLines-a.noted, briefLines/2)
	}
	return o
}

// briefLines is how many lines of a document are printed without -v, less those of notes
// before it: a terminal of 24 rows shows them with a note of what was written, and the
// prompt.
const briefLines = 22

// show prints a document as --format says.
func (k kind[D]) show(a *app, format string, doc D) error {
	return k.write(a.stdout, format, doc, a.screen())
}

// save writes a document into every output; a failure does not keep the others from
// being written. plot is the content of pictures.
func (k kind[D]) save(a *app, outs []output, doc D, plot string, force bool) error {
	var errs []error
	var written []string
	for _, out := range outs {
		err := runfile.Write(out.path, force, func(w io.Writer) error { return k.write(w, out.format.Name, doc, screen{plot: plot}) })
		if err != nil {
			errs = append(errs, err)
			continue
		}
		written = append(written, out.path)
		if out.format.Name == "html" {
			a.pages = append(a.pages, out.path)
		}
	}
	if len(written) > 0 {
		a.note("wrote %s", strings.Join(written, ", "))
	}
	return errors.Join(errs...)
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

// isPicture reports whether an output shows a --plot.
func isPicture(o output) bool { return o.format.Name == "png" || o.format.Name == "svg" }

// checkPlot refuses a --plot that is unknown, or that no output would show.
func checkPlot(a *app, kind string, outs []output) error {
	if err := knownPlot(a, kind); err != nil {
		return err
	}
	if kind == "" || slices.ContainsFunc(outs, isPicture) {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "drawing plot %s: no output is a picture", kind).WithFix("add -o %s.png or -o %s.svg", kind, kind)
}
