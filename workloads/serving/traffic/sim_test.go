package traffic

import (
	"context"
	"math"
	"testing"
	"time"
)

const ms = time.Millisecond

// sim is a service in virtual time.
type sim struct {
	times   []time.Duration
	clients *Clients
	batcher Batcher
	depth   int
	queue   int
	rule    Overload
	world   Virtual
	warm    time.Duration
	each    func(r *Request, how Outcome, now time.Duration)
}

type each func(r *Request, how Outcome, now time.Duration)

func (f each) Over(r *Request, how Outcome, now time.Duration) { f(r, how, now) }

// run serves until the last answer and returns the books, which must add up.
func (s *sim) run(t testing.TB) *Account {
	t.Helper()
	books := NewAccount(max(s.batcher.MaxBatch, 1), 100*ms, true)
	q := NewQueue(s.queue, s.rule, books)
	s.batcher.Rule = s.rule
	var sender Sender
	if s.each != nil {
		sender = each(s.each)
	}
	if s.clients != nil {
		s.clients.Queue = q
		s.world.Source, sender = s.clients, s.clients
	} else {
		s.world.Source = &Schedule{Times: s.times, WarmUp: s.warm, Queue: q, Sender: sender}
	}
	service := Service{World: &s.world, Queue: q, Runner: &s.world, Batcher: s.batcher, Depth: max(s.depth, 1), Books: books, Sender: sender}
	if err := service.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, f := range books.Faults(s.world.Source.Sent()) {
		t.Error(f)
	}
	if books.inside != 0 {
		t.Errorf("%d requests are still inside", books.inside)
	}
	return books
}

func linear(tau, alpha time.Duration) func(int) time.Duration {
	return func(b int) time.Duration { return tau + time.Duration(b)*alpha }
}

// poisson is load of a rate per second for some time.
func poisson(rate float64, of time.Duration, seed uint64) []time.Duration {
	return Draw(int(rate*of.Seconds()), rate, 1, seed)
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if !(math.Abs(got-want) <= share*math.Abs(want)) {
		t.Errorf("%s is %.7g, want %.7g: %.2f %% apart", what, got, want, 100*(got/want-1))
	}
}
