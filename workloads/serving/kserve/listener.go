package kserve

import (
	"net"
	"sync"
	"time"
)

// listener stamps the first byte of each request on its connections: net/http tells of a
// request when its header was read to the end.
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

// stamped is a connection that knows when bytes came.
type stamped struct {
	net.Conn
	listener listener

	mu          sync.Mutex
	serving     bool // its header was read
	first, last time.Time
	next        time.Time // the first byte of the request behind the one that is served
	until       time.Time // when the request's header has to be whole; zero where none has begun
}

// Read implements net.Conn.
func (c *stamped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.came(time.Now(), len(b))
	}
	return n, err
}

// came notes the time of bytes that were asked for with room for some.
func (c *stamped) came(now time.Time, room int) {
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

// begun is when the first byte of the request came whose header was read. A client that sent it
// together with the end of the one before it (pipelining) has it in the same read.
func (c *stamped) begun() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving, c.until = true, time.Time{}
	if c.first.IsZero() {
		c.first = c.last
	}
	return c.first
}

// ended says that the request was read whole: the next byte is another one's first.
func (c *stamped) ended() {
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
