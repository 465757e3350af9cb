package kserve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuprof/gpuprof/internal/latency"
)

// A caller that does not send its request whole in time gets no answer but 408, one that ends
// the connection none; neither is a request.
func TestSlowAndBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup{}.start(t)
		c, err := r.pipes.dial(context.Background(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		resp, err := r.raw(c, "POST /v2/models/one/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
		if err != nil || resp.StatusCode != http.StatusRequestTimeout || time.Since(began) != slowest {
			t.Errorf("%+v, %v after %s", resp, err, time.Since(began))
		}
		_ = c.Close()
		if c, err = r.pipes.dial(context.Background(), "", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "POST /v2/models/one/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc"); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		time.Sleep(time.Second)
		r.stop()
		n := r.server.Counts().Rejected
		if n["408"] != 1 || n[ClosedEarly] != 1 || r.callers.Sent() != 0 {
			t.Errorf("%v, %d requests", n, r.callers.Sent())
		}
	})
}

// A body that cannot be what its headers say is no success without content: a broken length of a
// chunk, a length that is refused before any of it is sent, and a sending side that was closed.
func TestBrokenBodies(t *testing.T) {
	const head = "POST /v2/models/one/infer HTTP/1.1\r\nHost: x\r\n"
	for text, want := range map[string]struct {
		status int
		words  string
	}{
		head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n":                    {400, "its body cannot be read"},
		head + "Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n": {413, "larger than 65600 bytes"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := setup{}.start(t)
			c, err := r.pipes.dial(context.Background(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			resp, err := r.raw(c, text)
			if err != nil || resp.StatusCode != want.status || time.Since(began) != 0 {
				t.Fatalf("%+v, %v after %s", resp, err, time.Since(began))
			}
			if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), want.words) {
				t.Errorf("%s, want %q", body, want.words)
			}
			_ = c.Close()
			r.stop()
			if n := r.server.Counts().Rejected; n[fmt.Sprint(want.status)] != 1 || r.callers.Sent() != 0 {
				t.Errorf("%v, %d requests", n, r.callers.Sent())
			}
		})
	}
	s := Server{decode: latency.New(), rejected: map[string]int64{}}
	w := httptest.NewRecorder()
	status, err := readError(io.ErrUnexpectedEOF, slowest)
	s.reject(w, httptest.NewRequest("POST", "/", nil), status, err)
	if n := s.Counts().Rejected; w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "its connection ended within its body; send it whole") || n[ClosedEarly] != 1 {
		t.Errorf("%d %s, %v", w.Code, w.Body, n)
	}
}

// A caller that leaves while its request waits is answered in the books, and counted. Its
// answer goes to nobody else. Waiting longer than a body may take is no reason to leave.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup{takes: func(int) time.Duration { return 3 * slowest }}.start(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var left, stayed int
		var all sync.WaitGroup
		all.Go(func() { left = r.infer(ctx, 1) })
		all.Go(func() { stayed = r.infer(context.Background(), 2) })
		all.Wait()
		r.stop()
		served, err := r.books.Served(0)
		if left != 0 || stayed != 200 || r.server.Counts().Gone != 1 || err != nil || served.Completed != 2 {
			t.Errorf("%d, %d, %d gone, %v, %d completed", left, stayed, r.server.Counts().Gone, err, served.Completed)
		}
	})
}
