// Package cli has the code that several subcommands (verbs) share: exit codes, outputs and formats, devices and
// settings, notes and progress, further processes of gpuprof, and the tables that main fills. Its functions return
// checked values, or errors with a fix. It imports no package of a subcommand, workload, probe, device or format.
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

// App is the state that all subcommands share.
type App struct {
	*Tables
	Ctx            context.Context
	Stdout, Stderr io.Writer
	Commands       io.Writer // standard error without runfile.Lines, which disables commands to GitHub
	Quiet, NoColor bool
	Verbose        bool     // print everything; otherwise as much as fits into 24 rows
	MaxTokens      int      // limit of a brief document; 0 for the default
	Noted          int      // lines that the printed notes take on a terminal of 80 columns
	Pages          []string // HTML reports written
	Rest           []string // the words after "--"
	ChildCode      int      // exit code of the program that was run; used if gpuprof itself has no error
}

// narrowest is the terminal width, in columns, on which the number of lines of a note is based.
const narrowest = 80

// Note prints a line for the user on standard error, unless --quiet is set.
func (a *App) Note(format string, args ...any) {
	if !a.Quiet {
		text := "gpuprof: " + document.CleanText(fmt.Sprintf(format, args...))
		a.Noted += 1 + (len(text)-1)/narrowest
		fmt.Fprintln(a.Stderr, text)
	}
}

// Width returns the number of columns of the terminal, or else the environment variable COLUMNS; 0 if both are unknown.
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

// FileBehind returns the file to which w writes; nil if w does not write to a file.
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
