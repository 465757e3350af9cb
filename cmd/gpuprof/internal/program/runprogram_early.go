package program

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/record"
)

// watchRecording is called whenever the recording makes progress (record.Options.Watch), and notes the progress. When
// the recording is complete and the program still runs, it prints the analysis, or with --stop-after has the program
// ended. It returns whether to go on watching.
func (p *program) watchRecording(h *record.Hook, ended <-chan struct{}) record.Watched {
	p.noteState(h)
	if !h.Settled() {
		return record.WatchOn
	}
	// Wait: other ranks may begin later, and a program that ends soon gets its analysis at its end.
	wait := p.EarlyAfter
	if p.StopAfter {
		wait = min(wait, time.Second)
	}
	for until := time.Now().Add(wait + accountWithin); ; wait = time.Second / 10 {
		select {
		case <-ended:
			return record.WatchEnough
		case <-time.After(wait):
		}
		now := record.ReadHook(p.dir)
		switch {
		case !now.Settled():
			return record.WatchOn
		case !now.SamplesDone() && time.Now().Before(until):
		case p.StopAfter:
			return record.WatchStop
		default:
			p.printEarly(&now, ended)
			return record.WatchEnough
		}
	}
}

// accountWithin limits the wait for the Python stack samples. The hook in the program takes them in the steps after the
// recorded steps.
const accountWithin = 20 * time.Second

// noteState notes a change of the recording's state, if standard error is a terminal. It prints a new line for each
// change, because the program prints to this terminal too.
func (p *program) noteState(h *record.Hook) {
	f := cli.FileBehind(p.app.Stderr)
	if f == nil || !term.IsTerminal(int(f.Fd())) {
		return
	}
	if state := p.stateOf(h); state != p.state {
		p.state = state
		p.app.Note("%s", state)
	}
}

func (p *program) stateOf(h *record.Hook) string {
	state := ""
	for i := range h.Processes {
		switch q := &h.Processes[i]; {
		case q.File != "":
			return "the steps are recorded in " + p.dir
		case q.Began && q.Kind == "window":
			state = fmt.Sprintf("recording %s of time", p.TimeWindow)
		case q.Began && q.Recorded > 0:
			state = fmt.Sprintf("recording step %d of %d", min(q.Recorded+1, p.Steps), p.Steps)
		case q.Began:
			state = fmt.Sprintf("recording %s", gpuprof.Plural(p.Steps, "step"))
		case state == "" && q.Aside == "":
			state = fmt.Sprintf("waiting for step %d", p.options.Skip+1)
		}
	}
	if state == "" {
		return "waiting for the program to import torch"
	}
	return state
}

// printEarly notes that the recording is complete, and prints its analysis while the program runs on.
func (p *program) printEarly(h *record.Hook, ended <-chan struct{}) {
	p.noteRecorded(h)
	p.app.Note("the program runs on; its recording is in %s", p.dir)
	if p.NoAnalyze {
		return
	}
	ctx, stop := context.WithCancel(p.app.Ctx)
	defer stop()
	go func() {
		select {
		case <-ended: // the analysis follows at the program's end
			stop()
		case <-ctx.Done():
		}
	}()
	// The analysis reads the program's command and number of CPUs from telemetry.json.
	r := record.SoFar(&p.options, h)
	if p.keepTelemetry(r) != nil {
		return // tried again at the program's end
	}
	inner := *p.app
	inner.Ctx = ctx
	write, err := p.analyzeRecording(&inner, r)
	if err != nil {
		return // reported at the program's end
	}
	if p.storeAnalysis(write) != nil || p.printOnce(write) != nil {
		return // tried again at the program's end
	}
	p.app.Note("the whole answer is in %s, and is written again when the program ends", filepath.Join(p.dir, "report.html"))
}
