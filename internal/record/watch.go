package record

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// watchEvery is the interval between checks of the event file's size.
	watchEvery = 250 * time.Millisecond
	// killAfter is the time within which a program must end after the request.
	killAfter = 10 * time.Second
)

// Settled reports whether at least one process has its trace, and every recording that began has a trace or an error.
func (h *Hook) Settled() bool {
	some := false
	for i := range h.Processes {
		p := &h.Processes[i]
		if p.Began && p.File == "" && len(p.Errors) == 0 {
			return false
		}
		some = some || p.File != ""
	}
	return some
}

// SamplesDone reports whether the stack samples of all processes have arrived.
func (h *Hook) SamplesDone() bool {
	return !slices.ContainsFunc(h.Processes, func(p Process) bool { return p.Sampling })
}

// watcher calls Options.Watch with the hook's events while the program runs.
type watcher struct {
	done chan struct{}
	wg   sync.WaitGroup
}

// startWatcher calls Watch at once and whenever the event file grows, until Watch or close ends the watch.
func startWatcher(o *Options, path string, s *signals) *watcher {
	w := &watcher{done: make(chan struct{})}
	if o.Watch == nil {
		return w
	}
	w.wg.Go(func() {
		size := int64(-1)
		for {
			if n := sizeOf(path); n != size {
				size = n
				h := readStatus(path)
				switch o.Watch(&h, w.done) {
				case WatchOn:
				case WatchStop:
					s.endProgram(w.done)
					return
				case WatchEnough:
					return
				}
			}
			select {
			case <-w.done:
				return
			case <-time.After(watchEvery):
			}
		}
	})
	return w
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// close stops the watcher and waits until Watch is no longer running.
func (w *watcher) close() {
	close(w.done)
	w.wg.Wait()
}

// endProgram asks the program to end and kills it after killAfter. ended must be closed when the program ends.
func (s *signals) endProgram(ended <-chan struct{}) {
	s.mu.Lock()
	p := s.to
	s.mu.Unlock()
	if p == nil {
		return
	}
	err := p.Signal(askToEnd)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		err = p.Kill()
	}
	if s.stopped = err == nil; !s.stopped {
		return // the program has ended by itself
	}
	select {
	case <-ended:
	case <-time.After(killAfter):
		_ = p.Kill()
	}
}
