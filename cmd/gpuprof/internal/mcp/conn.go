package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gpuprof/gpuprof/internal/child"
)

// drainFor limits the time that running calls have, after the end of the session, to end their processes.
const drainFor = 4 * child.Patience

// transport makes connections that cancel the running calls when the input ends. They report the end of the input only
// after these calls were answered.
type transport struct {
	sdk.Transport
	end context.CancelFunc
}

// Connect implements sdk.Transport.
func (t *transport) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{Connection: c, end: t.end, closed: make(chan struct{})}, nil
}

// connection counts the unanswered requests.
type connection struct {
	sdk.Connection
	end    context.CancelFunc
	open   sync.WaitGroup
	once   sync.Once
	closed chan struct{}
}

// Read implements sdk.Connection.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if err != nil {
		c.end()
		c.drainCalls(ctx)
		return m, err
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		c.open.Add(1)
	}
	return m, nil
}

// drainCalls waits until all requests are answered, but at most drainFor.
func (c *connection) drainCalls(ctx context.Context) {
	answered := make(chan struct{})
	go func() {
		c.open.Wait()
		close(answered)
	}()
	late := time.NewTimer(drainFor)
	defer late.Stop()
	select {
	case <-answered:
	case <-ctx.Done():
	case <-c.closed:
	case <-late.C:
	}
}

// Write implements sdk.Connection.
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok {
		c.open.Done()
	}
	return err
}

// Close implements sdk.Connection.
func (c *connection) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}
