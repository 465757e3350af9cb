package cli

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// Screen describes the terminal for which a document is formatted.
type Screen struct {
	Width        int
	Lines        int // limit of printed lines; 0 for all
	Color, Quiet bool
	ASCII        bool   // draw pictures in ASCII, because the locale is not UTF-8
	Plot         string // which picture to draw (--plot); "" for the document's default
	Tokens       int    // limit of a brief document; 0 for the default
}

// Writer writes a document for a screen in one format.
type Writer[D any] func(w io.Writer, doc D, o Screen) error

// Kind is a kind of document with the formats in which it can be printed and written.
type Kind[D any] struct {
	What    string               // "a run": name in errors
	Prints  []string             // values of --format
	Writers map[string]Writer[D] // by format, of --format or of a file
}

// Without returns the kind of document without some formats.
func (k Kind[D]) Without(formats ...string) Kind[D] {
	k.Writers = maps.Clone(k.Writers)
	for _, f := range formats {
		delete(k.Writers, f)
	}
	return k
}

// Called returns the kind of document with another name for errors.
func (k Kind[D]) Called(what string) Kind[D] {
	k.What = what
	return k
}

// Output is one -o FILE with its format.
type Output struct {
	Path   string
	Format runfile.Format
}

// Outputs checks every -o FILE before anything is measured: its format is known, no file is named twice, each can be
// written.
func (k Kind[D]) Outputs(paths []string, force bool) ([]Output, error) {
	var outs []Output
	seen := map[string]bool{}
	for _, p := range paths {
		switch p {
		case "":
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: the name of the file is empty", k.What).WithFix("give -o FILE with one of %s", strings.Join(k.extensions(), " "))
		case "-":
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: -o writes files, and - is none", k.What).WithFix("leave it out: --format %s prints to standard output", gpuprof.WordList(k.Prints, "or"))
		}
		f, err := runfile.FormatOf(p)
		if err != nil {
			if IsDir(p) || strings.HasSuffix(p, "/") {
				return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: it is a folder", p).WithFix("name a file in it, with one of %s", strings.Join(k.extensions(), " "))
			}
			why, _ := gpuprof.FixOf(err)
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "%s", why).WithFix("use one of %s", strings.Join(k.extensions(), " "))
		}
		if k.Writers[f.Name] == nil {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: %s has no such format", p, k.What).WithFix("use %s", strings.Join(k.extensions(), " "))
		}
		full := realPath(p)
		if seen[full] {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: the file is named twice", p).WithFix("give each -o FILE once")
		}
		seen[full] = true
		if err := runfile.Check(p, force); err != nil {
			return nil, err
		}
		outs = append(outs, Output{p, f})
	}
	return outs, nil
}

func (k Kind[D]) extensions() []string {
	var out []string
	for _, f := range runfile.Formats() {
		if k.Writers[f.Name] != nil {
			out = append(out, f.Ext)
		}
	}
	return out
}

// formats returns the values of --format, and the file extensions.
func (k Kind[D]) formats() (prints, extensions []string) { return k.Prints, k.extensions() }

func (k Kind[D]) Write(w io.Writer, format string, doc D, o Screen) error {
	write := k.Writers[format]
	if write == nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "printing %s: it has no format %s", k.What, format).WithFix("use --format %s", gpuprof.WordList(k.Prints, "or"))
	}
	return write(w, doc, o)
}

// Screen describes the terminal of standard output.
func (a *App) Screen() Screen {
	o := Screen{Width: a.Width(), Color: a.color(), ASCII: asciiLocale(os.Getenv), Quiet: a.Quiet, Tokens: a.MaxTokens}
	if !a.Verbose {
		o.Lines = max(briefLines-a.Noted, briefLines/2)
	}
	return o
}

// asciiLocale reports whether the locale names an encoding other than UTF-8. Without a locale, as on a build server,
// the encoding is UTF-8.
func asciiLocale(getenv func(string) string) bool {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"))
	upper := strings.ToUpper(strings.ReplaceAll(locale, "-", ""))
	return locale != "" && !strings.Contains(upper, "UTF8")
}

// briefLines limits the lines of a document printed without -v, including the notes before it. It leaves room for the
// note about written files and the prompt on a terminal of 24 rows.
const briefLines = 22

// Show prints a document in the given format.
func (k Kind[D]) Show(a *App, format string, doc D) error {
	return k.Write(a.Stdout, format, doc, a.Screen())
}

// Save writes a document into every output, even if one of them fails. plot names the picture to draw (--plot).
func (k Kind[D]) Save(a *App, outs []Output, doc D, plot string, force bool) error {
	var errs []error
	var written []string
	for _, out := range outs {
		err := runfile.Write(out.Path, force, func(w io.Writer) error { return k.Write(w, out.Format.Name, doc, Screen{Plot: plot}) })
		if err != nil {
			errs = append(errs, err)
			continue
		}
		written = append(written, out.Path)
		if out.Format.Name == "html" {
			a.Pages = append(a.Pages, out.Path)
		}
	}
	if len(written) > 0 {
		a.Note("wrote %s", strings.Join(written, ", "))
	}
	return errors.Join(errs...)
}

// realPath returns the absolute path with symbolic links resolved. The file itself need not exist.
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

func isPicture(o Output) bool { return o.Format.Name == "png" || o.Format.Name == "svg" }

// CheckPlot refuses an unknown --plot, and a --plot that no output would show.
func CheckPlot(a *App, kind string, outs []Output) error {
	if err := KnownPlot(a, kind); err != nil {
		return err
	}
	if kind == "" || slices.ContainsFunc(outs, isPicture) {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "drawing plot %s: no output is a picture", kind).WithFix("add -o %s.png or -o %s.svg", kind, kind)
}
