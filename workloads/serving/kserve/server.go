package kserve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/workloads/serving/traffic"
)

// headerLength is the HTTP header of the extension for binary tensors.
const headerLength = "Inference-Header-Content-Length"

// Limits of a connection.
const (
	slowest    = 10 * time.Second // time limit for reading a request, and for writing an answer
	idleFor    = time.Minute      // time limit between two requests
	mostHeader = 16 << 10         // bytes of the lines before a body
	leaveFor   = 2 * time.Second  // time limit for writing the last answers
	retryAfter = "1"              // seconds
	mostUnused = 256 << 20        // bytes of a body that are read and discarded when it is not needed
	mostBodies = 32 << 20         // bytes of all bodies that are read at the same time
)

// ClosedEarly is the key in Counts.Rejected for connections that ended within a request, or whose header net/http could
// not parse. net/http answers these itself.
const ClosedEarly = "closed"

// Server accepts requests over HTTP and passes them to the service.
type Server struct {
	Model   Model
	Callers *traffic.Callers
	Clock   func(time.Time) time.Duration // converts a time to the service's clock
	Places  int                           // requests that may be read at the same time; further ones are refused
	Slowest time.Duration                 // time limit for reading a request; 0 is 10 s
	Hosts   []string                      // host names of the service, besides localhost and IP addresses

	http   http.Server
	done   chan struct{}
	places chan struct{}
	bodies *semaphore.Weighted // bytes of bodies that may be read

	mu       sync.Mutex
	decode   *latency.Histogram
	rejected map[string]int64
	gone     int64
	failed   bool // the service ended because of an error
}

// Counts holds the requests and times that the service's own account does not contain.
type Counts struct {
	Rejected map[string]int64 // by status code, or ClosedEarly; never passed to the service
	Gone     int64            // passed to the service, but the caller closed its side of the connection before the answer
	Decode   *latency.Histogram
}

type connKey struct{}

// Start accepts requests from a listener until Close.
func (s *Server) Start(l net.Listener) {
	s.bodies = semaphore.NewWeighted(max(mostBodies, s.Model.MostBody()))
	s.places, s.decode, s.rejected, s.done = make(chan struct{}, s.Places), latency.New(), map[string]int64{}, make(chan struct{})
	if s.Slowest == 0 {
		s.Slowest = slowest
	}
	s.http = http.Server{
		Handler: s.handler(), ReadTimeout: s.Slowest, IdleTimeout: idleFor, MaxHeaderBytes: mostHeader, DisableGeneralOptionsHandler: true,
		// Errors of callers are counted, not logged.
		ErrorLog:    log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	go func() {
		defer close(s.done)
		// Serve always returns an error: after Close http.ErrServerClosed.
		_ = s.http.Serve(listener{l, s.Slowest, func() { s.count(ClosedEarly) }})
	}()
}

// Close ends the server after the service has ended; failed means that the service ended with an error. Close notifies
// the calls that are still in the service, accepts no further request, waits up to leaveFor for answers in
// transmission, and ends all connections.
func (s *Server) Close(failed bool) {
	s.mu.Lock()
	s.failed = failed
	s.mu.Unlock()
	s.Callers.Abandon()
	ctx, cancel := context.WithTimeout(context.Background(), leaveFor)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	<-s.done
}

// Counts returns a copy of the server's counts so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	decode := latency.New()
	decode.Merge(s.decode)
	return Counts{Rejected: maps.Clone(s.rejected), Gone: s.gone, Decode: decode}
}

func (s *Server) now() time.Duration { return s.Clock(time.Now()) }

type route struct {
	method string
	serve  http.HandlerFunc
}

func (s *Server) routes() map[string]route {
	model := s.modelPath()
	out := map[string]route{}
	tells := func(path string, v any) {
		out[path] = route{http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { s.write(w, http.StatusOK, v) }}
	}
	tells("/v2", map[string]any{"name": "gpuprof", "version": version, "extensions": []string{"binary_tensor_data"}})
	tells("/v2/health/live", map[string]bool{"live": true})
	tells("/v2/health/ready", map[string]bool{"ready": true})
	for _, at := range []string{model, model + "/versions/" + version} {
		tells(at, s.Model.metadata())
		tells(at+"/ready", map[string]any{"name": s.Model.Name, "ready": true})
		out[at+"/infer"] = route{http.MethodPost, s.infer}
	}
	return out
}

func (s *Server) modelPath() string { return "/v2/models/" + s.Model.Name }

func (s *Server) handler() http.Handler {
	routes := s.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connKey{}).(*stamped)
		conn.requestBegun()
		defer conn.requestEnded()
		// net/http keeps the deadline of the previous answer, and may write before it sets a new one.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.Slowest))
		// An unread body ends its connection: the remainder would look like the first byte of the next request. read
		// removes this header once it has read the body.
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
		}
		at, known := routes[r.URL.Path]
		status, foreign := s.guard(r)
		switch {
		case foreign != nil:
			s.reject(w, r, status, foreign)
		case !known:
			s.reject(w, r, http.StatusNotFound, gpuprof.Errorf(gpuprof.ErrInput, "serving %.10s %.100s: there is no such model or path", r.Method, r.URL.Path).
				WithFix("send POST %s/infer", s.modelPath()))
		case r.Method == at.method, r.Method == http.MethodHead && at.method == http.MethodGet:
			at.serve(w, r)
		default:
			w.Header().Set("Allow", allowedMethods(at.method))
			s.reject(w, r, http.StatusMethodNotAllowed, gpuprof.Errorf(gpuprof.ErrInput, "serving %.10s %.100s: the path does not take this method", r.Method, r.URL.Path).
				WithFix("send %s", at.method))
		}
	})
}

// allowedMethods returns the value of the header Allow for a path that answers the given method.
func allowedMethods(method string) string {
	if method == http.MethodGet {
		return "GET, HEAD"
	}
	return method
}

func (s *Server) infer(w http.ResponseWriter, r *http.Request) {
	conn, _ := r.Context().Value(connKey{}).(*stamped)
	due := s.Clock(conn.requestBegun())
	select {
	case s.places <- struct{}{}:
	default: // all Places are taken by requests being read
		s.refuse(w, r, due)
		return
	}
	call, asked, status, err := s.read(w, r)
	<-s.places
	switch {
	case errors.Is(err, errCrowded):
		s.refuse(w, r, due)
	case err != nil:
		s.reject(w, r, status, err)
	case !s.Callers.Send(call, due, s.now()):
		s.reject(w, r, http.StatusServiceUnavailable, errEnded)
	default:
		s.sendAnswer(w, r, call, asked)
	}
}

// refuse answers a request that arrives while Places requests are being read.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, due time.Duration) {
	call := traffic.NewCall(nil, 0)
	if !s.Callers.Refuse(call, due, s.now()) {
		s.reject(w, r, http.StatusServiceUnavailable, errEnded)
		return
	}
	discardBody(r)
	s.sendAnswer(w, r, call, Asked{})
}

// errCrowded is the error for a request whose body does not fit the memory for bodies while others are being read.
var errCrowded = errors.New("as many bodies are being read as memory is meant for")

var errEnded error = gpuprof.Errorf(nil, "serving a request: the run has ended").WithFix("start it again, with a longer --max-time")

// closedEarly replaces the HTTP status for a connection that ended within a body.
const closedEarly = 0

func (s *Server) read(w http.ResponseWriter, r *http.Request) (*traffic.Call, Asked, int, error) {
	fail := func(status int, err error) (*traffic.Call, Asked, int, error) { return nil, Asked{}, status, err }
	if code := r.Header.Get("Content-Encoding"); code != "" && code != "identity" {
		return fail(http.StatusBadRequest, unreadable("send it as it is", "its body has the encoding %.40q", code))
	}
	size := s.Model.MostBody()
	if r.ContentLength > size { // a caller that waits for 100 Continue sends none of the body
		return fail(readError(&http.MaxBytesError{Limit: size}, s.Slowest))
	}
	if r.ContentLength >= 0 {
		size = r.ContentLength
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.Slowest)
	defer cancel()
	if s.bodies.Acquire(ctx, size) != nil {
		return fail(http.StatusServiceUnavailable, errCrowded)
	}
	defer s.bodies.Release(size)
	body := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead)) // the buffer never grows
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, size)); err != nil {
		return fail(readError(err, s.Slowest))
	}
	w.Header().Del("Connection")
	began := time.Now()
	header, err := HeaderLength(r.Header.Get(headerLength), body.Len())
	if err != nil {
		return fail(http.StatusBadRequest, err)
	}
	into := make([]byte, s.Model.In.Bytes())
	asked, err := s.Model.Decode(into, body.Bytes(), header)
	if err != nil {
		return fail(http.StatusBadRequest, err)
	}
	took := time.Since(began)
	s.mu.Lock()
	s.decode.Record(took)
	s.mu.Unlock()
	return traffic.NewCall(into, s.Model.Out.Bytes()), asked, http.StatusOK, nil
}

func readError(err error, slowest time.Duration) (int, error) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, unreadable("send one sample", "its body is larger than %d bytes", large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, unreadable("send it faster", "it did not come whole within %s", slowest)
	case errors.As(err, new(net.Error)), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return closedEarly, unreadable("send it whole", "its connection ended within its body")
	}
	return http.StatusBadRequest, unreadable("send the body as its headers say", "its body cannot be read: %.80s", err.Error())
}

// sendAnswer waits until the call has ended and writes its outcome.
func (s *Server) sendAnswer(w http.ResponseWriter, r *http.Request, call *traffic.Call, asked Asked) {
	var how traffic.Outcome
	var served bool
	select {
	case how, served = <-call.Over():
	case <-r.Context().Done():
		// The caller left, or closed only its sending side and still reads. Only writing the answer shows which; the
		// call is counted in both cases.
		s.mu.Lock()
		s.gone++
		s.mu.Unlock()
		how, served = <-call.Over()
	}
	if !served {
		s.sendUnserved(w)
		return
	}
	switch how {
	case traffic.Refused:
		s.fail(w, http.StatusServiceUnavailable, gpuprof.Errorf(nil, "serving a request: the queue is full").WithFix("send it again later"))
	case traffic.Expired:
		s.fail(w, http.StatusGatewayTimeout, gpuprof.Errorf(nil, "serving a request: it could not be answered within slo any more").WithFix("send fewer requests, or set a longer slo"))
	case traffic.Failed:
		s.fail(w, http.StatusInternalServerError, gpuprof.Errorf(gpuprof.ErrDevice, "serving a request: its batch failed").WithFix("send it again"))
	case traffic.Completed:
		body, header, ok := s.Model.Encode(asked, call.Answer)
		if !ok {
			s.fail(w, http.StatusInternalServerError, gpuprof.Errorf(gpuprof.ErrCheck, "serving a request: its answer is not a number").WithFix("report this as a bug"))
			return
		}
		s.writeBody(w, http.StatusOK, body, header)
	}
}

// sendUnserved answers a caller whose request was still in the service when the service ended.
func (s *Server) sendUnserved(w http.ResponseWriter) {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if failed {
		s.fail(w, http.StatusInternalServerError, gpuprof.Errorf(gpuprof.ErrDevice, "serving a request: the device failed, which ended the run").WithFix("look at what the run says"))
		return
	}
	s.fail(w, http.StatusServiceUnavailable, errEnded)
}

func (s *Server) reject(w http.ResponseWriter, r *http.Request, status int, err error) {
	discardBody(r)
	key := strconv.Itoa(status)
	if status == closedEarly { // a caller that closed only its sending side still reads
		key, status = ClosedEarly, http.StatusBadRequest
	}
	s.count(key)
	s.fail(w, status, err)
}

func (s *Server) count(rejected string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected[rejected]++
}

// discardBody reads the remainder of a body that is not needed. Otherwise a caller that is still sending when the
// connection is closed would never see the answer. A caller with "Expect: 100-continue" has not sent the body.
func discardBody(r *http.Request) {
	if r.Header.Get("Expect") == "" && r.ContentLength <= mostUnused {
		_, _ = io.CopyN(io.Discard, r.Body, mostUnused)
	}
}

func (s *Server) fail(w http.ResponseWriter, status int, err error) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	s.write(w, status, map[string]string{"error": err.Error()})
}

func (s *Server) write(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // our values always have a JSON form
		status, body = http.StatusInternalServerError, []byte("{}")
	}
	s.writeBody(w, status, body, NoHeader)
}

// writeBody writes an answer. A caller that reads too slowly loses its connection.
func (s *Server) writeBody(w http.ResponseWriter, status int, body []byte, header int) {
	kind := "application/json"
	if header != NoHeader {
		kind = "application/octet-stream"
		w.Header().Set(headerLength, strconv.Itoa(header))
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.Slowest))
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails if the caller is gone
}
