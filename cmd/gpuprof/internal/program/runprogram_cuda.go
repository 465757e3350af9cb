package program

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// noteCUDA notes how many records the CUDA recorder wrote and lost.
func (p *program) noteCUDA(r *record.Result) {
	var records, lost int64
	processes, cupti := map[int]bool{}, 0 // a process has an entry per window
	for _, q := range r.CUDA {
		if q.File == "" || q.CUPTI == 0 {
			continue
		}
		processes[q.PID] = true
		records += q.Records
		if cupti = q.CUPTI; len(q.Lost) > 2 {
			lost += q.Lost[0] + q.Lost[1] + q.Lost[2]
		}
	}
	n := len(processes)
	if n == 0 {
		return
	}
	text := fmt.Sprintf("recorded %s of CUDA", gpuprof.Plural(int(records), "record"))
	if n > 1 {
		text += fmt.Sprintf(" in %d processes", n)
	}
	if records == 0 {
		text = "recorded CUDA until the program was killed"
	}
	p.app.Note("%s (CUPTI %s); lost %s", text, record.ReleaseOf(cupti), gpuprof.Plural(int(lost), "record"))
	noteLeftOut(p.app, r, p.WindowAfter+p.TimeWindow)
}

// noteLeftOut notes how many records were left out because they came after the recorded window.
func noteLeftOut(a *cli.App, r *record.Result, window time.Duration) {
	n := int64(0)
	for _, p := range r.CUDA {
		n += p.LeftOut
	}
	if n > 0 {
		a.Note("left out %s after the window of %s, which were written before the recorder stopped", gpuprof.Plural(int(n), "record"), gpuprof.FormatSeconds(window.Seconds()))
	}
}

func windowsWere(n int) string {
	if n == 1 {
		return "1 window was"
	}
	return fmt.Sprintf("%d windows were", n)
}

// showLive prints, with --idle, how to record a window. With --watch it prints tables of the program's activity until
// end is called.
func (p *program) showLive() (end func()) {
	if p.Idle {
		p.app.Note("the recorder is armed; record a window with gpuprof run record %s", p.dir)
	}
	if !p.Watch {
		return func() {}
	}
	ctx, stop := context.WithCancel(p.app.Ctx)
	w := newWatching(p.app, p.dir, p.dir, p.app.Stderr)
	w.whole = true
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.WatchEvery):
		}
		_ = w.showTables(ctx, p.WatchEvery, false) // returns no error here: the final analysis reports errors of reading
	})
	return func() {
		stop()
		wg.Wait()
	}
}

func (p *program) noteCUDASteps(indexes []*analyze.Index) {
	for _, x := range indexes {
		if !x.Stepped() {
			continue
		}
		var took []int64
		first := int64(math.MaxInt64)
		for i := range x.Steps {
			if s := &x.Steps[i]; !s.Dropped {
				took, first = append(took, s.Window.Len()), min(first, s.Window.Start)
			}
		}
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		what := gpuprof.Plural(len(took), "step") + " (" + x.StepSource + ")"
		if x.StepLaunches > 0 {
			what = fmt.Sprintf("%s of %d launches (found by %s)", gpuprof.Plural(len(took), "repeat"), x.StepLaunches, x.StepSource)
		}
		p.app.Note("recorded %s from second %.1f on, %s each (median)", what, gpuprof.Seconds(first-x.Span.Start), gpuprof.FormatNS(took[len(took)/2]))
		return
	}
	p.app.Note("no steps were found, by NVTX ranges or by the order of launches: the whole recording is analysed")
}
