package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// app is what a verb works with.
type app struct {
	*tables
	ctx            context.Context
	stdout, stderr io.Writer
	commands       io.Writer // standard error as it is, for commands to GitHub
	quiet, noColor bool
	verbose        bool     // print everything, not what fits a terminal of 24 rows
	noted          int      // lines of notes on a terminal of 80 columns
	pages          []string // HTML reports that were written
	rest           []string // what followed "--"
	childCode      int      // the exit code of a program that was run; wins where gpuprof has no error of its own
}

// narrowest is the width of the terminal that documents are cut for, in columns.
const narrowest = 80

// note tells the person at the terminal something beside the data.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		text := "gpuprof: " + document.CleanText(fmt.Sprintf(format, args...))
		a.noted += 1 + (len(text)-1)/narrowest
		fmt.Fprintln(a.stderr, text)
	}
}

// width is the terminal's, or 0 where standard output is not one.
func (a *app) width() int {
	if f := fileBehind(a.stdout); f != nil && term.IsTerminal(int(f.Fd())) {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			return w
		}
	}
	if w, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && w > 0 {
		return w
	}
	return 0
}

// fileBehind is the file that ends up with what is written to w, nil where there is none.
func fileBehind(w io.Writer) *os.File {
	if l, ok := w.(*runfile.Lines); ok {
		w = l.Under()
	}
	f, _ := w.(*os.File)
	return f
}

func (a *app) color() bool {
	f := fileBehind(a.stdout)
	return f != nil && !a.noColor && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}
