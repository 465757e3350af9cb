package program

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/record"
)

// WatchCmd has the arguments and flags of gpuprof run watch.
type WatchCmd struct {
	Dir   string        `arg:"" sep:"none" complete:"file" help:"Folder of a program that gpuprof run records, or the number of its process."`
	Every time.Duration `default:"2s" placeholder:"TIME" help:"Time between two looks (2s)."`
	Once  bool          `help:"Look once, and end."`
}

// Help implements kong.HelpProvider.
func (WatchCmd) Help() string {
	return "Shows what a program does while gpuprof run records it: how long the GPU works and waits, the time of a step, the kernels and copies of the last 30 seconds. " +
		"Of a Python program on the CPU it shows how far its recording is, and the times of steps once they are measured. It ends with the recording.\n\n" + cli.Examples(
		"gpuprof run watch gpuprof-20260102-150405",
		"gpuprof run watch --once 4711",
	)
}

// Run implements gpuprof run watch.
func (c *WatchCmd) Run(a *cli.App) error {
	dir, err := record.ArmedFolder(c.Dir)
	if err != nil {
		return err
	}
	if !record.HasRecorder(dir) && record.Gone(dir) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "watching %s: its program has ended and was not recorded", c.Dir).WithFix("start a CUDA program with gpuprof run --cuda -- COMMAND, and watch that folder")
	}
	if !record.HasRecorder(dir) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "watching %s: no recorder of gpuprof run has written there", c.Dir).WithFix("name the folder of a program that gpuprof run records")
	}
	shown := c.Dir
	if _, err := strconv.Atoi(shown); err == nil {
		shown = dir // gpuprof analyze takes the folder, not the process
	}
	w := newWatching(a, dir, shown, a.Stdout)
	if f := cli.FileBehind(a.Stdout); f != nil && term.IsTerminal(int(f.Fd())) {
		w.screen = true
	}
	return w.showTables(a.Ctx, c.Every, c.Once)
}

// watching prints tables of the current activity in the recording of a folder, one after the other.
type watching struct {
	dir, shown string // folder of the recording, and its name for the user
	out        io.Writer
	screen     bool                                      // each table replaces the previous one on the screen
	pause      func(time.Duration) <-chan time.Time      // time.After, or the clock of a test
	whole      bool                                      // go on after the recordings end, until the context ends
	lines      int                                       // lines of the last table
	last       string                                    // text of the last table
	opening    func(w io.Writer, a gpuprof.Answer) error // writes the summary above a table
}

func newWatching(a *cli.App, dir, shown string, out io.Writer) *watching {
	screen := a.Screen()
	return &watching{dir: dir, shown: shown, out: out, pause: time.After, opening: func(w io.Writer, answer gpuprof.Answer) error {
		return a.Opening(w, answer, screen)
	}}
}

// pauseFactor is the least ratio of the pause between two tables to the time for making one. It limits how much the
// tables slow the program down.
const pauseFactor = 10

// showTables prints tables until the recordings end or the context ends; with once, it prints one table. It returns
// errors of reading the recordings, unless w.whole is set: then it leaves out the table.
func (w *watching) showTables(ctx context.Context, every time.Duration, once bool) error {
	for {
		began := time.Now()
		text, ended, err := w.makeTable(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C is the normal end of a view
		case err == nil:
			w.printTable(text)
		case !w.whole:
			return err
		default: // a file that is being written can be unreadable for a moment; the next table reads it again
		}
		if once || ended && !w.whole {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.pause(max(every, pauseFactor*time.Since(began))):
		}
	}
}

// makeTable returns the current table. ended reports that nothing is recorded any more.
func (w *watching) makeTable(ctx context.Context) (text string, ended bool, err error) {
	live, err := record.LiveOf(ctx, w.dir, record.LiveStretch)
	if err != nil {
		return "", false, err
	}
	state, gone := record.ReadWatched(w.dir), record.Gone(w.dir)
	var b strings.Builder
	answer := record.AnswerLive(w.shown, live, &state, gone)
	if r, err := record.ReadResult(w.dir); err == nil && gone && len(live) == 0 {
		answer = r.AnswerIn(w.shown)
	}
	if err := w.opening(&b, answer); err != nil {
		return "", false, err
	}
	b.WriteByte('\n')
	if len(live) == 0 && gone && len(state.Processes) == 0 {
		return b.String(), gone, nil
	}
	if len(live) == 0 {
		return b.String() + hookTable(w.shown, &state), gone, nil
	}
	return b.String() + liveTable(w.shown, live), gone, nil
}

func (w *watching) printTable(text string) {
	if text == w.last {
		return
	}
	if w.screen && w.lines > 0 {
		fmt.Fprintf(w.out, "\x1b[%dA\x1b[J", w.lines)
	} else if w.lines > 0 {
		fmt.Fprintln(w.out)
	}
	fmt.Fprint(w.out, text)
	w.lines, w.last = strings.Count(text, "\n"), text
}

// Limits of a table: rows of kernels, rows of copies, and columns of a name.
const (
	liveKernels = 8
	liveCopies  = 3
	liveName    = 44
)

// liveTable formats the recent activity of the processes that record into a folder.
func liveTable(dir string, live []record.Live) string {
	var b strings.Builder
	for i := range live {
		l := &live[i]
		state := "recording"
		if l.Ended {
			state = "its recording has ended"
		}
		fmt.Fprintf(&b, "%s, last %s to %s: %s\n", document.CleanText(filepath.Join(dir, l.File)), gpuprof.FormatSeconds(l.Over.Seconds()), l.At.UTC().Format("15:04:05 UTC"), state)
		step := "no step found yet"
		if l.StepNS > 0 {
			step = fmt.Sprintf("step %s (median of %d, %s)", gpuprof.FormatNS(l.StepNS), l.Steps, document.CleanText(l.Source))
		}
		fmt.Fprintf(&b, "  %s\n", step)
		for _, d := range l.Devices {
			fmt.Fprintf(&b, "  GPU %-3d busy %5.1f %%   waits for launches %5.1f %%\n", d.ID, 100*d.Busy, 100*d.Starved)
		}
		if l.Lost > 0 {
			fmt.Fprintf(&b, "  up to %d records were lost\n", l.Lost)
		}
		liveRows(&b, "kernel", l.Kernels, liveKernels, l.Over)
		liveRows(&b, "copy or fill", l.Copies, liveCopies, l.Over)
	}
	return b.String()
}

// liveRows prints the longest rows, at most most, and the sum of the remaining ones. rows is sorted, the longest first.
func liveRows(b *strings.Builder, title string, rows []record.LiveRow, most int, over time.Duration) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "  %-*s %9s %10s %8s\n", liveName, title, "calls", "time", "of all")
	var rest record.LiveRow
	for i, r := range rows {
		if i >= most {
			rest.Count, rest.NS = rest.Count+r.Count, rest.NS+r.NS
			continue
		}
		liveRow(b, liveNameOf(r), r, over)
	}
	if n := len(rows) - most; n > 0 {
		liveRow(b, fmt.Sprintf("%d more", n), rest, over)
	}
}

func liveRow(b *strings.Builder, name string, r record.LiveRow, over time.Duration) {
	share := 100 * float64(r.NS) / float64(max(over.Nanoseconds(), 1))
	fmt.Fprintf(b, "  %-*s %9d %10s %6.1f %%\n", liveName, name, r.Count, gpuprof.FormatNS(r.NS), share)
}

// liveNameOf returns the name in a row, shortened to fit. The rows of copies also have the number of bytes.
func liveNameOf(r record.LiveRow) string {
	name := []rune(document.CleanText(r.Name))
	tail := ""
	if r.Bytes > 0 {
		tail = " " + gpuprof.FormatBytes(float64(r.Bytes))
	}
	if most := liveName - len([]rune(tail)); len(name) > most {
		name = append(name[:most-1], '…')
	}
	return string(name) + tail
}

// hookTable formats how far the recordings of Python programs are, and their step times, from the events of gpuprof's
// hook in these programs.
func hookTable(dir string, h *record.Hook) string {
	if len(h.Processes) == 0 {
		return document.CleanText(dir) + ": no process is recorded yet\n"
	}
	var b strings.Builder
	for i := range h.Processes {
		p := &h.Processes[i]
		state, library := "waiting for steady steps", "PyTorch"
		if p.IsPlain() {
			library = "Python"
		}
		switch {
		case p.Aside != "":
			state = "not recorded (" + p.Aside + ")"
		case p.File != "" && p.IsPlain():
			state = "the samples of its main thread are in " + p.Samples
		case p.IsPlain():
			state = "its main thread is sampled"
		case p.File != "":
			state = fmt.Sprintf("recorded %s in %s", gpuprof.Plural(p.Recorded, "step"), p.File)
		case p.Began && p.Recorded > 0:
			state = fmt.Sprintf("recording, %s so far", gpuprof.Plural(p.Recorded, "step"))
		case p.Began:
			state = "recording"
		}
		who := fmt.Sprintf("process %d", p.PID)
		if p.Rank >= 0 {
			who += fmt.Sprintf(", rank %d", p.Rank)
		}
		fmt.Fprintf(&b, "%s, %s (%s): %s\n", document.CleanText(dir), who, library, document.CleanText(state))
		for _, t := range []struct {
			when  string
			times []float64
		}{{"before the recording", p.Before}, {"in it", p.During}, {"after it", p.Later}} {
			if len(t.times) > 0 {
				sorted := slices.Sorted(slices.Values(t.times))
				fmt.Fprintf(&b, "  step %-22s %s (median of %d)\n", t.when, gpuprof.FormatSeconds(sorted[len(sorted)/2]), len(sorted))
			}
		}
	}
	return b.String()
}
