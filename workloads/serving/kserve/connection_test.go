package kserve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A path of the protocol with another method is no unknown path: the answer names the method.
func TestMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := setup{}.start(t)
		const infer = "/v2/models/one/infer"
		for _, c := range []struct {
			method, path, allow, words string
			status                     int
		}{
			{"GET", infer, "POST", "the path does not take this method; send POST", 405},
			{"HEAD", infer, "POST", "", 405},
			{"OPTIONS", infer, "POST", "send POST", 405},
			{"DELETE", "/v2/models/one/versions/1/infer", "POST", "send POST", 405},
			{"POST", "/v2/health/live", "GET, HEAD", "send GET", 405},
			{"PUT", "/v2/models/one", "GET, HEAD", "send GET", 405},
			{"HEAD", "/v2/health/ready", "", "", 200},
			{"GET", "/v2/models/two/infer", "", "no such model or path", 404},
			{"GET", "//v2/health/live", "", "no such model or path", 404},
			{"GET", "/v2/health/live/", "", "no such model or path", 404},
		} {
			got := r.do(c.method, c.path, "")
			if got.status != c.status || got.header.Get("Allow") != c.allow || !strings.Contains(got.body, c.words) || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s: %+v, want %d with Allow %q and %q", c.method, c.path, got, c.status, c.allow, c.words)
			}
		}
		r.stop()
		if n := r.server.Counts().Rejected; n["405"] != 6 || n["404"] != 3 || r.callers.Sent() != 0 {
			t.Errorf("%v, %d requests", n, r.callers.Sent())
		}
	})
}

// twoPipes is an end of a connection that reads from one pipe and writes to another, so that
// the other end can close its sending side alone.
type twoPipes struct {
	net.Conn
	in net.Conn
}

func (c twoPipes) Read(b []byte) (int, error) { return c.in.Read(b) }
func (c twoPipes) Close() error               { _ = c.in.Close(); return c.Conn.Close() }
func (c twoPipes) SetDeadline(t time.Time) error {
	_ = c.in.SetDeadline(t)
	return c.Conn.SetDeadline(t)
}
func (c twoPipes) SetReadDeadline(t time.Time) error { return c.in.SetReadDeadline(t) }

// A caller that closes its sending side behind its request still reads: it gets its answer, or
// what became of it, and no success without content.
func TestSendingSideClosed(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := setup{takes: func(int) time.Duration { return time.Second }, fails: func(int) error {
				if fails {
					return errLost
				}
				return nil
			}}.start(t)
			sends, in := net.Pipe()
			reads, out := net.Pipe()
			r.pipes.conns <- twoPipes{out, in}
			if _, err := fmt.Fprintf(sends, "POST /v2/models/one/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(asks(1)), asks(1)); err != nil {
				t.Fatal(err)
			}
			_ = sends.Close()
			resp, err := http.ReadResponse(bufio.NewReader(reads), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			status, words := 200, `"data":[-1]`
			if fails {
				status, words = 500, "the device failed"
			}
			if resp.StatusCode != status || !strings.Contains(string(body), words) {
				t.Errorf("%d %s, want %d with %s", resp.StatusCode, body, status, words)
			}
			_ = reads.Close()
			if fails {
				if err := <-r.done; err != errLost { //nolint:errorlint // it is this one
					t.Error(err)
				}
				r.ended()
			} else {
				r.stop()
			}
			if n := r.server.Counts().Gone; n != 1 {
				t.Errorf("%d gone", n)
			}
		})
	}
}

// A request that is sent while the one before it is served (pipelining) waits for that one's
// answer, for longer than a caller may take too, and its latency holds this.
func TestPipelined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = slowest + 2*time.Second
		r := setup{takes: func(int) time.Duration { return takes }}.start(t)
		c, err := r.pipes.dial(context.Background(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		post := "POST /v2/models/one/infer HTTP/1.1\r\nHost: x\r\nContent-Length: " + fmt.Sprint(len(asks(1))) + "\r\n\r\n" + asks(1)
		go func() {
			_, _ = io.WriteString(c, post)
			time.Sleep(300 * ms)
			_, _ = io.WriteString(c, post)
		}()
		answers := bufio.NewReader(c)
		for range 2 {
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		_ = c.Close()
		r.stop()
		served, err := r.books.Served(0)
		// The service looks every 0.1 ms.
		if want := (2*takes - 300*ms).Seconds(); err != nil || served.Completed != 2 || served.Latency.MaxS < want || served.Latency.MaxS > want+1e-3 {
			t.Errorf("%v: %d completed, %g s at most, want %g", err, served.Completed, served.Latency.MaxS, want)
		}
	})
}

// Lines before a body that do not come, or that net/http does not read, end their connection in time and are counted.
// So does a caller that begins its second request on a kept connection and goes no further.
func TestUnreadHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		first, text, answer string
		after               time.Duration
	}{
		"slow":       {"", "POST /v2/mod", "400", slowest},
		"two bytes":  {"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n", "PO", "", slowest},
		"long lines": {"", "GET /v2 HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 10*mostHeader), "431", 0},
		"no HTTP":    {"", "\x16\x03\x01 \r\n\r\n", "400", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := setup{}.start(t)
				conn, err := r.pipes.dial(context.Background(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				if c.first != "" {
					if resp, err := r.raw(conn, c.first); err != nil || resp.StatusCode != 200 {
						t.Fatalf("%+v, %v", resp, err)
					}
				}
				began := time.Now()
				go func() { _, _ = io.WriteString(conn, c.text) }()
				got, _ := io.ReadAll(conn)
				// net/http leaves a broken connection half a second for its answer to be read.
				if waited := time.Since(began); waited < c.after || waited > c.after+time.Second || !strings.Contains(string(got), c.answer) {
					t.Errorf("%.100q after %s, want %s after %s", got, waited, c.answer, c.after)
				}
				_ = conn.Close()
				time.Sleep(time.Second)
				r.stop()
				if n := r.server.Counts().Rejected; n[ClosedEarly] != 1 || len(n) != 1 || r.callers.Sent() != 0 {
					t.Errorf("%v, %d requests", n, r.callers.Sent())
				}
			})
		})
	}
}

// A caller that sends its whole body before it reads is told why nobody wanted it: its
// connection is not closed while it sends. A length beyond all reason is not read.
func TestUnusedBodies(t *testing.T) {
	const infer, megabyte = "/v2/models/one/infer", 1 << 20
	for name, c := range map[string]struct {
		path, header   string
		declared, sent int
		status         int
	}{
		"too large":       {infer, "", 33 * megabyte, 33 * megabyte, 413},
		"another path":    {"/v2/models/two/infer", "", megabyte, megabyte, 404},
		"another version": {"/v2/models/one/versions/2/infer", "", megabyte, megabyte, 404},
		"compressed":      {infer, "Content-Encoding: gzip\r\n", megabyte, megabyte, 400},
		"far too large":   {infer, "", mostUnused + 1, 0, 413},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := setup{}.start(t)
				conn, err := r.pipes.dial(context.Background(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n", c.path, c.header, c.declared)
				resp, err := r.raw(conn, head+strings.Repeat(" ", c.sent))
				if err != nil || resp.StatusCode != c.status || !resp.Close {
					t.Errorf("%+v, %v, want %d", resp, err, c.status)
				}
				_ = conn.Close()
				r.stop()
				if n := r.server.Counts().Rejected; n[fmt.Sprint(c.status)] != 1 || len(n) != 1 {
					t.Errorf("%v", n)
				}
			})
		})
	}
}
