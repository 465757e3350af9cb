package kserve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

const ms = time.Millisecond

var errLost = errors.New("the device is lost")

// one is a model of one number: the answer to x is 1 - 2 x.
func one() Model {
	return Model{Name: "one", In: Tensor{"x", Float32, []int{1, 1}}, Out: Tensor{"y", Float32, []int{1, 1}}}
}

// pipes is a listener without a network: its connections are ends of pipes, in memory, so that
// time in a bubble of synctest passes when all wait.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// device takes a time for a batch, one at a time, and answers 1 - 2 x.
type device struct {
	callers *traffic.Callers
	takes   func(b int) time.Duration
	fails   func(batch int) error // nil is never

	flying  []flight
	number  int
	busy    time.Time
	largest int
}

type flight struct {
	calls  []*traffic.Call
	end    time.Time
	number int
}

func (d *device) Start(batch []traffic.Request, _ time.Duration) error {
	f := flight{number: d.number}
	d.number++
	d.largest = max(d.largest, len(batch))
	for i := range batch {
		f.calls = append(f.calls, d.callers.Call(batch[i].Ticket))
	}
	if now := time.Now(); d.busy.Before(now) {
		d.busy = now
	}
	d.busy = d.busy.Add(d.takes(len(batch)))
	f.end = d.busy
	d.flying = append(d.flying, f)
	return nil
}

func (d *device) Done() (bool, error) {
	return len(d.flying) > 0 && !time.Now().Before(d.flying[0].end), nil
}

func (d *device) Finish() (int, error) {
	f := d.flying[0]
	d.flying = d.flying[1:]
	if d.fails != nil {
		if err := d.fails(f.number); err != nil {
			return 0, err
		}
	}
	for _, c := range f.calls {
		putNative(c.Answer, 1-2*nativeFloat(c.Request))
	}
	return 0, nil
}

// setup is a service behind HTTP.
type setup struct {
	queue   int
	rule    traffic.Overload
	batcher traffic.Batcher
	takes   func(b int) time.Duration
	fails   func(batch int) error
	slowest time.Duration
	places  int // as many as the queue where it is 0
	pause   time.Duration
}

// running is the service while it runs.
type running struct {
	t       testing.TB
	pipes   *pipes
	server  *Server
	callers *traffic.Callers
	books   *traffic.Account
	device  *device
	world   *traffic.Real
	client  *http.Client
	cancel  context.CancelFunc
	done    chan error
}

// start runs a service; end it with stop.
func (s setup) start(t testing.TB) *running {
	t.Helper()
	if s.batcher.MaxBatch == 0 {
		s.batcher.MaxBatch = 4
	}
	if s.queue == 0 {
		s.queue = 64
	}
	if s.rule == "" {
		s.rule = traffic.RefuseNew
	}
	if s.takes == nil {
		s.takes = func(int) time.Duration { return 5 * ms }
	}
	s.batcher.Rule = s.rule
	r := &running{t: t, pipes: newPipes(), done: make(chan error, 1)}
	r.books = traffic.NewAccount(s.batcher.MaxBatch, time.Second, false)
	q := traffic.NewQueue(s.queue, s.rule, r.books)
	r.callers = &traffic.Callers{Queue: q}
	r.device = &device{callers: r.callers, takes: s.takes, fails: s.fails}
	pause := max(s.pause, 100*time.Microsecond)
	r.world = &traffic.Real{Queue: q, Runner: r.device, Nap: func() { time.Sleep(pause) }}
	r.server = &Server{Model: one(), Callers: r.callers, Clock: r.world.At, Places: s.queue, Slowest: s.slowest, Hosts: []string{"x", "service"}}
	if s.places > 0 {
		r.server.Places = s.places
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.world.BeginOutside(ctx)
	r.server.Start(r.pipes)
	service := traffic.Service{World: r.world, Queue: q, Runner: r.device, Batcher: s.batcher, Depth: 2, Books: r.books, Sender: r.callers}
	go func() {
		err := service.Run(ctx)
		r.server.Close(err != nil)
		r.done <- err
	}()
	r.client = &http.Client{Transport: &http.Transport{DialContext: r.pipes.dial, MaxIdleConnsPerHost: 100}}
	return r
}

// stop ends the service as --max-time does, and checks its counts: with no request inside, they equal all arrivals.
func (r *running) stop() {
	r.t.Helper()
	r.callers.Close()
	r.world.End()
	if err := <-r.done; err != nil {
		r.t.Error(err)
	}
	r.ended()
	if n := r.callers.Inside(); n != 0 {
		r.t.Errorf("%d calls are still inside", n)
	}
}

func (r *running) ended() {
	r.t.Helper()
	r.cancel()
	r.client.CloseIdleConnections()
	for _, f := range r.books.Faults(r.callers.Sent()) {
		r.t.Error(f)
	}
}

// reply is an answer as the caller received it.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r *running) do(method, path, body string, header ...string) reply {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	return r.send(ctx, method, path, strings.NewReader(body), header...)
}

func (r *running) send(ctx context.Context, method, path string, body io.Reader, header ...string) reply {
	q, err := http.NewRequestWithContext(ctx, method, "http://service"+path, body)
	if err != nil {
		r.t.Error(err)
		return reply{err: err}
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			q.Host = header[i+1]
			continue
		}
		q.Header.Set(header[i], header[i+1])
	}
	resp, err := r.client.Do(q)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

func asks(x float64) string {
	return fmt.Sprintf(`{"id":"%g","inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[%g]}]}`, x, x)
}

// infer sends x and returns the status, 0 if the connection ended. It checks that an answer belongs to x.
func (r *running) infer(ctx context.Context, x float64) (status int) {
	got := r.send(ctx, "POST", "/v2/models/one/infer", strings.NewReader(asks(x)))
	if got.err != nil {
		return 0
	}
	if want := fmt.Sprintf(`{"model_name":"one","model_version":"1","id":"%g","outputs":[{"name":"y","datatype":"FP32","shape":[1,1],"data":[%g]}]}`, x, 1-2*x); got.status == http.StatusOK && got.body != want {
		r.t.Errorf("%g was answered %s", x, got.body)
	}
	return got.status
}

// raw sends bytes as they are, and reads the answer to them if there is one.
func (r *running) raw(c net.Conn, text string) (*http.Response, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return resp, err
}

func histogram(t testing.TB, s loadtest.Served) *latency.Histogram {
	t.Helper()
	h, err := latency.Decode(s.Latency)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
