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

// growth is how many times as large a recording is when it is looked through again: all looks
// together read three times what the last one does.
const growth = 1.5

// seen is what one process's recording shows of its steps so far.
type seen struct {
	size   int64 // of the recording when it was looked through
	steps  int
	period time.Duration // median
	fresh  bool          // they reach to the end of the recording
}

// lookAt finds the steps in what a process has recorded so far, as gpuprof analyze finds them.
func lookAt(ctx context.Context, path string) (s seen) {
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
	var took []int64
	for i := range x.Steps {
		took = append(took, x.Steps[i].Host.Len())
	}
	slices.Sort(took)
	s.steps, s.period = len(took), time.Duration(took[len(took)/2])
	last := x.Steps[len(x.Steps)-1].Host.End
	s.fresh = x.Span.End-last <= 2*int64(s.period)+int64(followEvery)
	return s
}

// leaves is how many steps are left out before those that are wanted: as many as take
// no longer than Longest, unless all are to be.
func (o *Options) leaves(period time.Duration) int {
	if o.SkipExact || period <= 0 {
		return o.Skip
	}
	return min(o.Skip, int(o.longest()/period))
}

// leastSteps is how many steps are recorded although they take longer than Longest.
const leastSteps = 3

// enough says that a recording has the steps that were asked for, and with those left out takes
// as long as a recording without steps: what a program repeats while it starts up is shorter.
func (s seen) enough(o *Options) bool {
	if s.steps == 0 || !s.fresh {
		return false
	}
	wanted := max(leastSteps, min(o.Steps, int(o.longest()/max(s.period, 1))))
	return s.steps >= wanted+max(1, o.leaves(s.period)) && time.Duration(s.steps)*s.period >= o.Window
}

// stretch follows the recordings of a folder until they have what was asked for.
type stretch struct {
	o     *Options
	dir   string
	first time.Time // of a kernel; zero before one
	all   map[string]seen
	late  map[string]bool // recordings that showed no steps in time: their window is so long
	old   map[string]bool // recordings of windows before
	look  func(ctx context.Context, path string) seen
	// skip is how many of the first steps are to be left out.
	skip int
}

func newStretch(o *Options, dir string) stretch {
	return stretch{o: o, dir: dir, all: map[string]seen{}, late: map[string]bool{}, old: map[string]bool{}, look: lookAt, skip: o.Skip}
}

// recorded says that every process that recorded has its steps, or has shown none in time.
func (w *stretch) recorded(ctx context.Context, now time.Time) bool {
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
				w.skip = w.o.leaves(s.period)
			}
			w.all[path] = s
		}
		ended := hasEnd(path)
		w.late[path] = s.steps == 0 && age >= w.o.WindowAfter+w.o.Window
		all = all && (w.late[path] || ended || s.enough(w.o) || !hasKernel(path))
	}
	return all
}

// lookInTime looks at a recording; where it has shown no steps before, until its window ends: one that grows faster than
// it is read would outrun its window by all that is written meanwhile.
func (w *stretch) lookInTime(ctx context.Context, path string, before seen) seen {
	if before.steps == 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, w.first.Add(w.o.WindowAfter+w.o.Window))
		defer stop()
	}
	return w.look(ctx, path)
}

// limit takes away what the recordings without steps have beyond their window, by the times of their records, and counts
// it by file. A recording that cannot be cut stays whole.
func (w *stretch) limit(ctx context.Context) (left map[string]int64, err error) {
	left = map[string]int64{}
	var errs []error
	for path, late := range w.late {
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

// files are the recordings that are followed.
func (w *stretch) files() []string {
	return slices.DeleteFunc(recordings(w.dir), func(path string) bool { return w.old[path] })
}
