package record

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signals passes on to a program what this process is sent. None ends this
// process while it has a program to wait for.
type signals struct {
	ch   chan os.Signal
	done chan struct{}

	mu     sync.Mutex
	to     *os.Process
	early  []os.Signal // came before the program was there
	tty    bool        // this process had a terminal when it began
	passed int
	// stopped says that this process asked the program to end.
	stopped bool
}

func catchSignals() *signals {
	s := &signals{ch: make(chan os.Signal, 16), done: make(chan struct{})}
	_, s.tty = foreground()
	var wanted []os.Signal
	for _, sig := range passedOn() {
		// What was ignored from the start (nohup) is ignored by the program too.
		if !signal.Ignored(sig) {
			wanted = append(wanted, sig)
		}
	}
	signal.Notify(s.ch, wanted...)
	go s.loop()
	return s
}

func (s *signals) loop() {
	for {
		select {
		case <-s.done:
			return
		case sig := <-s.ch:
			s.pass(sig)
		}
	}
}

// passTo names the program; nil when it has ended.
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
		_ = p.Signal(sig) // it may have ended already
	}
}

func (s *signals) pass(sig os.Signal) {
	if s.fromTerminal(sig) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to == nil {
		s.early = append(s.early, sig)
		return
	}
	s.passed++
	_ = s.to.Signal(sig) // it may have ended already
}

// fromTerminal says that the program has got a signal by itself: a terminal
// sends Ctrl-C, Ctrl-\ and its own end to every process of its foreground
// group, and the program is in the group of this process.
func (s *signals) fromTerminal(sig os.Signal) bool {
	front, terminal := foreground()
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT:
		return front
	case syscall.SIGHUP:
		return s.tty && !terminal
	}
	return false
}

func (s *signals) stop() {
	signal.Stop(s.ch)
	close(s.done)
}
