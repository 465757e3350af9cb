package record

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// signals passes this process's signals on to the program; they do not end this process.
type signals struct {
	ch   chan os.Signal
	done chan struct{}

	mu    sync.Mutex
	to    *os.Process
	early []os.Signal // received before the program was started
	tty   bool        // this process had a terminal when it started
	// stopped marks that this process asked the program to end.
	stopped bool
}

func catchSignals() *signals {
	s := &signals{ch: make(chan os.Signal, 16), done: make(chan struct{})}
	_, s.tty = foreground()
	// A signal ignored from the start (nohup) stays ignored in the program.
	signal.Notify(s.ch, slices.DeleteFunc(passedOn(), signal.Ignored)...)
	go s.passAll()
	return s
}

func (s *signals) passAll() {
	for {
		select {
		case <-s.done:
			return
		case sig := <-s.ch:
			s.passSignal(sig)
		}
	}
}

// passTo sets the process that gets the signals; nil after its end.
func (s *signals) passTo(p *os.Process) {
	s.mu.Lock()
	s.to = p
	early := s.early
	s.early = nil
	s.mu.Unlock()
	if p == nil {
		return
	}
	for _, sig := range early {
		_ = p.Signal(sig) // the process may have ended already
	}
}

func (s *signals) passSignal(sig os.Signal) {
	if s.sentByTerminal(sig) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to == nil {
		s.early = append(s.early, sig)
		return
	}
	_ = s.to.Signal(sig) // the process may have ended already
}

// sentByTerminal reports whether the program got a signal from the terminal already: Ctrl-C, Ctrl-\ and hang-up go to
// every process of the foreground group.
func (s *signals) sentByTerminal(sig os.Signal) bool {
	front, terminal := foreground()
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT:
		return front
	case syscall.SIGHUP:
		return s.tty && !terminal
	}
	return false
}

func (s *signals) stopCatching() {
	signal.Stop(s.ch)
	close(s.done)
}
