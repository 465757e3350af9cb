package record

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/read/cupti"
)

// growth is the factor by which a recording grows between two searches for steps. All searches together then read at
// most three times its final size.
const growth = 1.5

// stepsSeen summarizes the steps in one process's recording so far.
type stepsSeen struct {
	size   int64 // size of the recording when it was read, bytes
	steps  int
	period time.Duration // median step time
	fresh  bool          // the last step ends near the end of the recording
}

// findSteps searches a recording for steps, by the rules of gpuprof analyze.
func findSteps(ctx context.Context, path string) (s stepsSeen) {
	f, err := outside.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return s
	}
	defer f.Close()
	t, err := cupti.Read(ctx, f, path, 0)
	if err != nil {
		return s // nothing is written yet
	}
	x, err := analyze.NewIndex(ctx, t)
	if err != nil || !x.Stepped() {
		return s
	}
	s.steps, s.period = len(x.Steps), time.Duration(medianStep(x))
	last := x.Steps[len(x.Steps)-1].Host.End
	s.fresh = x.Span.End-last <= 2*int64(s.period)+int64(followEvery)
	return s
}

// medianStep returns the median length of a trace's steps on the host, ns.
func medianStep(x *analyze.Index) int64 {
	var took []int64
	for i := range x.Steps {
		took = append(took, x.Steps[i].Host.Len())
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// stepsToSkip returns the number of first steps to omit: Skip, but without SkipExact at most as many as fit into
// Longest.
func (o *Options) stepsToSkip(period time.Duration) int {
	if o.SkipExact || period <= 0 {
		return o.Skip
	}
	return min(o.Skip, int(o.longestRecording()/period))
}

// leastSteps is the minimum number of recorded steps, even if they take longer than Longest.
const leastSteps = 3

// hasEnough reports whether a recording has the requested and the skipped steps, and all steps together last at least
// Window. The minimum duration rejects short loops during the program's startup.
func (s stepsSeen) hasEnough(o *Options) bool {
	if s.steps == 0 || !s.fresh {
		return false
	}
	wanted := max(leastSteps, min(o.Steps, int(o.longestRecording()/max(s.period, 1))))
	return s.steps >= wanted+max(1, o.stepsToSkip(s.period)) && time.Duration(s.steps)*s.period >= o.Window
}

// stretch checks the growing recordings of a folder until they have the requested steps.
type stretch struct {
	o        *Options
	dir      string
	first    time.Time // when the first kernel was seen; zero before
	all      map[string]stepsSeen
	timedOut map[string]bool                                  // recordings without steps by the deadline, to be cut to their window
	old      map[string]bool                                  // recordings of earlier windows
	look     func(ctx context.Context, path string) stepsSeen // findSteps, or a test's
	// skip is the number of steps to leave out at the beginning.
	skip int
}

func newStretch(o *Options, dir string) stretch {
	return stretch{o: o, dir: dir, all: map[string]stepsSeen{}, timedOut: map[string]bool{}, old: map[string]bool{}, look: findSteps, skip: o.Skip}
}

// isRecorded reports whether every recording is complete: it has the requested steps, has ended, has no kernel, or
// has no step within its window.
func (w *stretch) isRecorded(ctx context.Context, now time.Time) bool {
	if w.first.IsZero() {
		if !slices.ContainsFunc(w.files(), hasKernel) {
			return false
		}
		w.first = now
	}
	age := now.Sub(w.first)
	all := true
	for _, path := range w.files() {
		s := w.all[path]
		if size := sizeOf(path); float64(size) >= growth*float64(s.size) {
			now := w.lookInTime(ctx, path, s)
			now.size = size
			if s = now; s.steps > 0 {
				w.skip = w.o.stepsToSkip(s.period)
			}
			w.all[path] = s
		}
		ended := hasEnd(path)
		w.timedOut[path] = s.steps == 0 && age >= w.o.WindowAfter+w.o.Window
		all = all && (w.timedOut[path] || ended || s.hasEnough(w.o) || !hasKernel(path))
	}
	return all
}

// lookInTime searches a recording for steps. Before the first step is found, the search ends with the recording's
// window: otherwise a file that grows faster than it is read would never be stopped.
func (w *stretch) lookInTime(ctx context.Context, path string, before stepsSeen) stepsSeen {
	if before.steps == 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, w.first.Add(w.o.WindowAfter+w.o.Window))
		defer stop()
	}
	return w.look(ctx, path)
}

// cutToWindow removes the records after the window from recordings without steps. left is the number of removed records
// by file. A recording that cannot be cut keeps all records.
func (w *stretch) cutToWindow(ctx context.Context) (left map[string]int64, err error) {
	left = map[string]int64{}
	var errs []error
	for path, late := range w.timedOut {
		if !late {
			continue
		}
		f, err := outside.OpenRegular(path, os.O_RDWR, 0)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		n, err := cupti.Limit(ctx, f, int64(w.o.WindowAfter+w.o.Window))
		left[filepath.Base(path)] = int64(n)
		errs = append(errs, err, f.Close())
	}
	return left, errors.Join(errs...)
}

func (w *stretch) files() []string {
	return slices.DeleteFunc(listRecordings(w.dir), func(path string) bool { return w.old[path] })
}
