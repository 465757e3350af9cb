// Package kservetest has callers of every kind for tests of HTTP services.
package kservetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Soak runs callers that send for a long time: most send requests, some half a request, a wrong one, or one for which
// they do not wait. Some close their sending side after a request. The service has to count each of them once.
type Soak struct {
	Client *http.Client
	Dial   func() (net.Conn, error)
	URL    string // "http://host" of the service
	Path   string // of an infer request
	// Body returns request number i, and Right reports whether an answer belongs to it.
	Body  func(i int64) string
	Right func(i int64, answer string) bool
	// Callers is the number of concurrent callers; each sends Pause after its last answer, until More returns false
	// for the next number.
	Callers int
	Pause   time.Duration
	More    func(i int64) bool
	// Leaves is the time after which some callers cancel their request.
	Leaves time.Duration

	mu    sync.Mutex
	tally Tally
	next  atomic.Int64
}

// Tally counts the outcomes of the requests, by kind of caller.
type Tally struct {
	Status map[int]int64 // answers by HTTP status
	Left   int64         // did not wait; the service may have counted them or not
	Wrong  int64         // sent an invalid request
	Half   int64         // ended the connection within a request, or waited for the 408 answer
}

// Answered counts the answers.
func (t *Tally) Answered() (n int64) {
	for _, k := range t.Status {
		n += k
	}
	return n
}

// Run sends, and returns the counts so far.
func (s *Soak) Run(t testing.TB) Tally {
	t.Helper()
	var all sync.WaitGroup
	for range s.Callers {
		all.Go(func() {
			for i := s.next.Add(1); s.More(i); i = s.next.Add(1) {
				s.sendOne(t, i)
				time.Sleep(s.Pause)
			}
		})
	}
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.tally
	out.Status = maps.Clone(out.Status)
	return out
}

// sendOne sends request i in the way that its number selects.
func (s *Soak) sendOne(t testing.TB, i int64) {
	switch i % 32 {
	case 3:
		s.sendAndLeave(i)
	case 9:
		if status, body, err := s.post(context.Background(), s.Body(i)+"{"); err != nil || status != http.StatusBadRequest {
			t.Errorf("a wrong request got %d %s, %v", status, body, err)
		}
		s.count(func(a *Tally) { a.Wrong++ })
	case 12:
		s.oneSided(t, i)
	case 17:
		s.sendHalf(t, i, true)
	case 25:
		s.sendHalf(t, i, i%64 == 25) // every other one waits
	default:
		s.sendAndWait(t, i)
	}
}

func (s *Soak) sendAndWait(t testing.TB, i int64) {
	status, body, err := s.post(context.Background(), s.Body(i))
	s.checkAnswer(t, i, status, body, err)
}

// checkAnswer checks the answer to request i.
func (s *Soak) checkAnswer(t testing.TB, i int64, status int, body string, err error) {
	switch {
	case err != nil:
		t.Errorf("request %d: %v", i, err)
		return
	case status == http.StatusOK && !s.Right(i, body):
		t.Errorf("request %d was answered %.200s", i, body)
	case status != http.StatusOK && status != http.StatusInternalServerError && status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout:
		t.Errorf("request %d: %d %.200s", i, status, body)
	}
	s.count(func(a *Tally) { a.Status[status]++ })
}

// oneSided closes only the sending direction after a request, if the connection supports that.
func (s *Soak) oneSided(t testing.TB, i int64) {
	c, err := s.Dial()
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	body := s.Body(i)
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", s.Path, len(body), body)
	if side, has := c.(interface{ CloseWrite() error }); has && err == nil {
		err = side.CloseWrite()
	}
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(bufio.NewReader(c), nil)
	}
	if err != nil {
		t.Errorf("request %d: %v", i, err)
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	s.checkAnswer(t, i, resp.StatusCode, string(answer), err)
}

func (s *Soak) sendAndLeave(i int64) {
	ctx, cancel := context.WithTimeout(context.Background(), s.Leaves)
	defer cancel()
	if status, _, err := s.post(ctx, s.Body(i)); err == nil {
		s.count(func(a *Tally) { a.Status[status]++ })
		return
	}
	s.count(func(a *Tally) { a.Left++ })
}

// sendHalf sends the beginning of a request, and closes the connection or waits for the 408 answer.
func (s *Soak) sendHalf(t testing.TB, i int64, closes bool) {
	c, err := s.Dial()
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	body := s.Body(i)
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", s.Path, len(body), body[:len(body)/2]); err != nil {
		t.Error(err)
	}
	if !closes {
		if b, err := io.ReadAll(c); err != nil || !strings.Contains(string(b), "408") {
			t.Errorf("a slow caller was told %.200q, %v", b, err)
		}
	}
	s.count(func(a *Tally) { a.Half++ })
}

func (s *Soak) post(ctx context.Context, body string) (int, string, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+s.Path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := s.Client.Do(q)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func (s *Soak) count(add func(*Tally)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tally.Status == nil {
		s.tally.Status = map[int]int64{}
	}
	add(&s.tally)
}

// Live returns the objects, and their bytes, on the heap after a collection.
func Live() (objects, bytes uint64) {
	runtime.GC()
	runtime.GC() // frees what finalizers and pools still held during the first collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapObjects, m.HeapAlloc
}
