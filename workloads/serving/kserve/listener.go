package kserve

import (
	"net"
	"sync"
	"time"
)

// listener stamps the first byte of each request on its connections: net/http tells of a
// request when its header was read to the end.
type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &stamped{Conn: c}, nil
}

// stamped is a connection that knows when bytes came.
type stamped struct {
	net.Conn
	mu          sync.Mutex
	first, last time.Time
}

// Read implements net.Conn.
func (c *stamped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		now := time.Now()
		c.mu.Lock()
		if c.last = now; c.first.IsZero() {
			c.first = now
		}
		c.mu.Unlock()
	}
	return n, err
}

// begun is when the first byte of the request came that is being read. A client that sent it
// together with the end of the one before it (pipelining) has it in the same read.
func (c *stamped) begun() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first.IsZero() {
		return c.last
	}
	return c.first
}

// ended says that the request was read whole: the next byte is another one's first.
func (c *stamped) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first = time.Time{}
}
