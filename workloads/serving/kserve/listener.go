package kserve

import (
	"net"
	"sync"
	"time"
)

// listener stamps the first byte of each request on its connections: net/http reports a request only after it has read
// the whole header.
type listener struct {
	net.Listener
	slowest time.Duration // for a request to be read
	lost    func()        // called for a request that ended before its header was read
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &stamped{Conn: c, listener: l}, nil
}

// stamped is a connection that records arrival times of bytes.
type stamped struct {
	net.Conn
	listener listener

	mu          sync.Mutex
	serving     bool // its header was read
	first, last time.Time
	next        time.Time // the first byte of the request after the current one
	until       time.Time // when the request's header has to be whole; zero where none has begun
}

// Read implements net.Conn.
func (c *stamped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.recordBytes(time.Now(), len(b))
	}
	return n, err
}

// recordBytes records the time of bytes read with a given room in the buffer.
func (c *stamped) recordBytes(now time.Time, room int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = now
	switch {
	case c.serving && room == 1:
		// Behind a request that it has read whole net/http looks for the end of the connection,
		// a byte at a time. A byte is the beginning of the next request (pipelining).
		c.next = now
	case c.first.IsZero():
		c.first, c.until = now, now.Add(c.listener.slowest)
		_ = c.Conn.SetReadDeadline(c.until)
	}
}

// SetReadDeadline implements net.Conn. Until net/http has four bytes of a request it would wait
// for them as long as between two requests.
func (c *stamped) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.until.IsZero() && (t.IsZero() || t.After(c.until)) {
		t = c.until
	}
	return c.Conn.SetReadDeadline(t)
}

// requestBegun returns the time of the first byte of the request whose header was read. A client that sent it together
// with the end of the preceding request (pipelining) has it in the same read.
func (c *stamped) requestBegun() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving, c.until = true, time.Time{}
	if c.first.IsZero() {
		c.first = c.last
	}
	return c.first
}

// requestEnded marks the request as read completely: the next byte is the first of another request.
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
