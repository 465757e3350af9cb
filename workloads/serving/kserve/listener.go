package kserve

import (
	"net"
	"sync"
	"time"
)

// listener records the arrival of each request's first byte: net/http reports a request only after its whole header.
type listener struct {
	net.Listener
	slowest time.Duration // time limit for reading a request
	lost    func()        // called when a connection ends before a request's header is complete
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &stamped{Conn: c, listener: l}, nil
}

// stamped is a connection that records when bytes arrive.
type stamped struct {
	net.Conn
	listener listener

	mu          sync.Mutex
	serving     bool // the current request's header was read
	first, last time.Time
	next        time.Time // arrival of the next request's first byte
	until       time.Time // deadline for the current header; zero while no request has begun
}

// Read implements net.Conn.
func (c *stamped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.recordBytes(time.Now(), len(b))
	}
	return n, err
}

// recordBytes records that bytes arrived at the time now, read into a buffer with room for room bytes.
func (c *stamped) recordBytes(now time.Time, room int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = now
	switch {
	case c.serving && room == 1:
		// After a complete request, net/http reads single bytes to detect the end of the connection. A byte that
		// arrives then begins the next request (pipelining).
		c.next = now
	case c.first.IsZero():
		c.first, c.until = now, now.Add(c.listener.slowest)
		_ = c.Conn.SetReadDeadline(c.until)
	}
}

// SetReadDeadline implements net.Conn. It sets no deadline later than until, because net/http would give the first four
// bytes of a request as much time as the pause between two requests.
func (c *stamped) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.until.IsZero() && (t.IsZero() || t.After(c.until)) {
		t = c.until
	}
	return c.Conn.SetReadDeadline(t)
}

// requestBegun returns the arrival of the first byte of the request whose header was read. If a pipelined request
// arrived in the same read as the end of the request before it, it returns the time of that read.
func (c *stamped) requestBegun() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving, c.until = true, time.Time{}
	if c.first.IsZero() {
		c.first = c.last
	}
	return c.first
}

// requestEnded marks the request as completely read: the next byte begins another request.
func (c *stamped) requestEnded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving, c.first, c.next = false, c.next, time.Time{}
	if !c.first.IsZero() {
		c.until = time.Now().Add(c.listener.slowest)
	}
}

// Close implements net.Conn.
func (c *stamped) Close() error {
	c.mu.Lock()
	lost := !c.serving && !c.first.IsZero()
	c.first = time.Time{}
	c.mu.Unlock()
	if lost {
		c.listener.lost()
	}
	return c.Conn.Close()
}
