package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/measure"
)

// progress is one line on the terminal that says what is going on. Off a
// terminal it is silent.
type progress struct {
	bar   *progressbar.ProgressBar
	label string
}

const progressSteps = 1000

func (a *app) newProgress(label string) *progress {
	f := fileBehind(a.stderr)
	if a.quiet || f == nil || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	bar := progressbar.NewOptions(progressSteps,
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetWidth(24),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionEnableColorCodes(false),
		progressbar.OptionClearOnFinish(),
	)
	return &progress{bar, label}
}

// show is a measure.Plan's Progress.
func (p *progress) show(at measure.Progress) {
	if p.bar == nil {
		return
	}
	text := p.label + ": " + at.Phase
	if at.Note != "" {
		text += ", " + at.Note
	}
	p.bar.Describe(document.CleanText(text))
	done := 0.0
	if at.Total > 0 {
		done = min(max(at.Done/at.Total, 0), 1)
	}
	// One step short of the end, which would finish and clear the line.
	_ = p.bar.Set(int(done * (progressSteps - 1)))
}

// close clears the line.
func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
