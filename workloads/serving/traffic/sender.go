package traffic

import (
	"sync/atomic"
	"time"
)

// Schedule sends requests at times that were drawn before the load began, regardless of the service (open loop). Only
// under the rule Block does it wait for a place in the queue.
type Schedule struct {
	Times  []time.Duration
	WarmUp time.Duration // requests due before this time are not counted
	Queue  *Queue
	Sender Sender // receives the requests that the queue refuses; may be nil

	next  int
	ended atomic.Bool // no further request is sent
	count atomic.Int64
}

// Due returns the due time of the next request, or false after the last one.
func (s *Schedule) Due() (time.Duration, bool) {
	if s.next == len(s.Times) || s.ended.Load() {
		return 0, false
	}
	return s.Times[s.next], true
}

// Send puts the requests that are due by now into the queue. It returns false if a request has to wait for a place.
func (s *Schedule) Send(now time.Duration) bool {
	for s.next < len(s.Times) && s.Times[s.next] <= now && !s.ended.Load() {
		due := s.Times[s.next]
		r := Request{ID: int64(s.next), Due: due, Counted: due >= s.WarmUp}
		refused, how, room := s.Queue.Put(r, now)
		if !room {
			return false
		}
		s.count.Add(1)
		s.next++
		if how != Completed && s.Sender != nil {
			gone := refused // only this copy escapes to the heap; without it every call would allocate refused
			s.Sender.Over(&gone, how, now)
		}
	}
	return true
}

// End stops the sending.
func (s *Schedule) End() { s.ended.Store(true) }

// Sent returns the number of requests put into the queue.
func (s *Schedule) Sent() int64 { return s.count.Load() }

// Clients are a closed loop: each client sends its next request when it has the answer to the previous one. A request
// is due when it is sent.
type Clients struct {
	N      int
	Pause  time.Duration // least time from one request's due time to the client's next request
	Most   int64         // requests in all; 0: no limit
	Until  time.Duration // time after which no request is sent; 0: no limit
	WarmUp time.Duration
	Queue  *Queue

	sent  int64
	begun bool
	later []time.Duration // times at which paused clients send, in order
}

// Begin sends each client's first request.
func (c *Clients) Begin(now time.Duration) {
	if !c.begun {
		c.begun = true
		for range c.N {
			c.send(now)
		}
	}
}

func (c *Clients) send(now time.Duration) {
	if c.over(now) {
		return
	}
	r := Request{ID: c.sent, Due: now, Counted: now >= c.WarmUp}
	if _, _, room := c.Queue.Put(r, now); room {
		c.sent++
	}
}

func (c *Clients) over(now time.Duration) bool {
	return c.Most > 0 && c.sent >= c.Most || c.Until > 0 && now >= c.Until
}

// Over implements Sender. The client of the answered request sends its next request, now or after its pause.
func (c *Clients) Over(r *Request, _ Outcome, now time.Duration) {
	if next := r.Due + c.Pause; next > now {
		c.later = append(c.later, next)
		return
	}
	c.send(now)
}

// Due returns the time at which the next paused client sends.
func (c *Clients) Due() (time.Duration, bool) {
	if len(c.later) == 0 {
		return 0, false
	}
	return c.later[0], true
}

// Send puts the requests of paused clients that are due by now into the queue.
func (c *Clients) Send(now time.Duration) bool {
	c.Begin(now)
	for len(c.later) > 0 && c.later[0] <= now {
		c.later = c.later[1:]
		c.send(now)
	}
	return true
}

// Sent returns the number of requests put into the queue.
func (c *Clients) Sent() int64 { return c.sent }
