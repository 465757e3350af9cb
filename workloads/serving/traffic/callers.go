package traffic

import (
	"sync"
	"time"
)

// Callers passes outside requests to the queue. Each caller sends from its own goroutine and receives its outcome.
type Callers struct {
	Queue *Queue

	mu     sync.Mutex
	closed bool // no further call is accepted
	sent   int64
	calls  []*Call // by ticket
	free   []int   // unused tickets
}

// Call is a request of an outside caller, with room for its answer.
type Call struct {
	// Request and Answer are the bytes of the network's input and output. The service writes Answer before it reports
	// the outcome.
	Request, Answer []byte

	over chan Outcome
}

// NewCall makes a call with room for answer bytes.
func NewCall(request []byte, answer int) *Call {
	return &Call{Request: request, Answer: make([]byte, answer), over: make(chan Outcome, 1)}
}

// Over receives the outcome of the call once. It is closed without a value if the service ended before.
func (c *Call) Over() <-chan Outcome { return c.over }

// Send passes a call, which was due at the time due, to the service. After Close it returns false and does not count
// the call. The queue's rule must not be Block, which would make the sender wait.
func (c *Callers) Send(call *Call, due, now time.Duration) bool {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	refused, how, _ := c.Queue.Put(c.newRequest(call, due), now)
	c.mu.Unlock()
	if how != Completed {
		c.Over(&refused, how, now)
	}
	return true
}

// Refuse counts a call that was turned away before the queue as a refused request. After Close it returns false.
func (c *Callers) Refuse(call *Call, due, now time.Duration) bool {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	r := c.newRequest(call, due)
	c.Queue.Refuse(r, now)
	c.mu.Unlock()
	c.Over(&r, Refused, now)
	return true
}

func (c *Callers) newRequest(call *Call, due time.Duration) Request {
	ticket := len(c.calls)
	if n := len(c.free); n > 0 {
		ticket, c.free = c.free[n-1], c.free[:n-1]
		c.calls[ticket] = call
	} else {
		c.calls = append(c.calls, call)
	}
	r := Request{ID: c.sent, Due: due, Counted: true, Ticket: ticket}
	c.sent++
	return r
}

// Call returns the call with this ticket, which must still be in the service.
func (c *Callers) Call(ticket int) *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[ticket]
}

// Over implements Sender.
func (c *Callers) Over(r *Request, how Outcome, _ time.Duration) {
	c.mu.Lock()
	call := c.calls[r.Ticket]
	c.calls[r.Ticket] = nil
	c.free = append(c.free, r.Ticket)
	c.mu.Unlock()
	call.over <- how
}

// Close accepts no further call. Calls in the service are still served.
func (c *Callers) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// Abandon closes the channels of the calls that are still in the service: they get no outcome.
func (c *Callers) Abandon() {
	c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, call := range c.calls {
		if call != nil {
			close(call.over)
			c.calls[i] = nil
		}
	}
}

// Sent returns the number of accepted calls.
func (c *Callers) Sent() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

// Inside returns the number of calls that are in the service.
func (c *Callers) Inside() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) - len(c.free)
}
