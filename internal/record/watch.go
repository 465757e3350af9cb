package record

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// watchEvery is the pause between two looks at the size of the hook's account.
	watchEvery = 250 * time.Millisecond
	// killAfter is how long a program that was asked to end may take for it.
	killAfter = 10 * time.Second
)

// Settled says that some process has its trace and none is about to write one: every
// recording that began is written or has failed.
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

// Accounted says that no samples of a host thread are still to come.
func (h *Hook) Accounted() bool {
	return !slices.ContainsFunc(h.Processes, func(p Process) bool { return p.Sampling })
}

// watcher tells Options.Watch what the hook has told, while the program runs.
type watcher struct {
	done chan struct{}
	wg   sync.WaitGroup
}

// watch looks at the hook's account until Watch has seen enough, or end is called.
// Watch is called from one goroutine, at once and whenever the account grew.
func watch(o *Options, path string, s *signals) *watcher {
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
					s.end(w.done)
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

// sizeOf is a file's size, 0 for none.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// end waits until Watch is not called any more.
func (w *watcher) end() {
	close(w.done)
	w.wg.Wait()
}

// end asks the program to end, and makes it where it takes too long; ended is closed
// when it has.
func (s *signals) end(ended <-chan struct{}) {
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
		return // it has ended by itself
	}
	select {
	case <-ended:
	case <-time.After(killAfter):
		_ = p.Kill()
	}
}
