// Package cli has what the verbs of gpuprof share: exit codes, outputs and their formats, targets and
// settings, notes and progress, further processes of gpuprof, and the tables that main hands in. A verb
// calls it with an App and its flags and gets checked values or an error that names the fix. It imports
// no verb, no workload, no probe, no device and no format.
package cli

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

// App holds the state that every verb uses.
type App struct {
	*Tables
	Ctx            context.Context
	Stdout, Stderr io.Writer
	Commands       io.Writer // standard error as it is, for commands to GitHub
	Quiet, NoColor bool
	Verbose        bool     // print everything, not what fits a terminal of 24 rows
	MaxTokens      int      // of a brief document; 0 for the usual
	Noted          int      // lines of notes on a terminal of 80 columns
	Pages          []string // HTML reports that were written
	Rest           []string // what followed "--"
	ChildCode      int      // the exit code of a program that was run; wins where gpuprof has no error of its own
}

// narrowest is the width of the terminal that documents are cut for, in columns.
const narrowest = 80

// Note prints a line on standard error for the user.
func (a *App) Note(format string, args ...any) {
	if !a.Quiet {
		text := "gpuprof: " + document.CleanText(fmt.Sprintf(format, args...))
		a.Noted += 1 + (len(text)-1)/narrowest
		fmt.Fprintln(a.Stderr, text)
	}
}

// Width is the terminal's, or 0 where standard output is not one.
func (a *App) Width() int {
	if f := FileBehind(a.Stdout); f != nil && term.IsTerminal(int(f.Fd())) {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			return w
		}
	}
	if w, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && w > 0 {
		return w
	}
	return 0
}

// FileBehind returns the file to which w finally writes, nil for none.
func FileBehind(w io.Writer) *os.File {
	if l, ok := w.(*runfile.Lines); ok {
		w = l.Under()
	}
	f, _ := w.(*os.File)
	return f
}

func (a *App) color() bool {
	f := FileBehind(a.Stdout)
	return f != nil && !a.NoColor && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}
