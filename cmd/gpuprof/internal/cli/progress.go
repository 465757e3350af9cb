package cli

import (
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// Progress shows the current work on one line of a terminal. If standard error is no terminal, it shows nothing.
type Progress struct {
	bar   *progressbar.ProgressBar
	label string
}

const progressSteps = 1000

// NewProgress returns a progress line on the terminal of standard error; it shows nothing with --quiet.
func (a *App) NewProgress(label string) *Progress {
	f := FileBehind(a.Stderr)
	if a.Quiet || f == nil || !term.IsTerminal(int(f.Fd())) {
		return &Progress{}
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
	return &Progress{bar, label}
}

// Show updates the line. It fits the field Progress of measure.Plan.
func (p *Progress) Show(at measure.Progress) {
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
	// Stay one step below the end, at which the library would clear the line.
	_ = p.bar.Set(int(done * (progressSteps - 1)))
}

// Every shows a progress line at once, and again after each pause until stop is called. at returns the progress for the
// elapsed time.
func (p *Progress) Every(pause time.Duration, at func(spent time.Duration) measure.Progress) (stop func()) {
	if p.bar == nil {
		return func() {}
	}
	began, done := time.Now(), make(chan struct{})
	p.Show(at(0))
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(pause):
				p.Show(at(time.Since(began)))
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// Close clears the line.
func (p *Progress) Close() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
