// Package push sends a profile to a server: a receiver of OTLP profiles (OpenTelemetry Collector) or Pyroscope.
// Credentials come from the environment and are in no message. A push has few attempts, each with a time limit.
package push

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Environment variables of a push: a bearer token, or user and password; Pyroscope's tenant (X-Scope-OrgID); and the
// profile's service name on the server.
const (
	tokenVariable    = "GPUPROF_PUSH_TOKEN"
	userVariable     = "GPUPROF_PUSH_USER"
	passwordVariable = "GPUPROF_PUSH_PASSWORD"
	tenantVariable   = "GPUPROF_PUSH_TENANT"
	serviceVariable  = "OTEL_SERVICE_NAME"
)

// Limits of a push.
const (
	tries        = 3
	tryTime      = 20 * time.Second
	longestPause = 10 * time.Second // upper limit for the server's Retry-After
	answerBytes  = 4 << 10
)

// URL schemes of the kinds of server, and the URL paths to which they take profiles.
const (
	otlpScheme      = "otlp+"
	pyroscopeScheme = "pyroscope+"
	otlpPath        = "/v1development/profiles"
	pyroscopePath   = "/ingest"
)

// Server is the receiver of a profile.
type Server struct {
	url       *url.URL
	pyroscope bool
	getenv    func(string) string
	client    *http.Client
	pause     func(context.Context, time.Duration) error // between tries
}

// To parses the address of a server: otlp+http://host:4318, otlp+https://…, pyroscope+http://host:4040 or
// pyroscope+https://…. Other addresses are ErrUsage.
func To(address string, getenv func(string) string) (*Server, error) {
	refuse := func(why string) error {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the address to push to: %s", why).WithFix("give otlp+http://HOST:4318 (a receiver of OTLP profiles) or pyroscope+http://HOST:4040, with https where the server has it")
	}
	s := &Server{getenv: getenv, pause: waitPause, client: &http.Client{
		Timeout:       tryTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // credentials go to the named server only
	}}
	path := otlpPath
	plain, otlp := strings.CutPrefix(address, otlpScheme)
	if !otlp {
		if plain, s.pyroscope = strings.CutPrefix(address, pyroscopeScheme); !s.pyroscope {
			return nil, refuse("it does not name the kind of server")
		}
		path = pyroscopePath
	}
	u, err := url.Parse(plain)
	switch {
	case err != nil:
		return nil, refuse("it is no URL") // without the address, which may contain a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, refuse("it names no host over http or https")
	case u.User != nil:
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading the address to push to: it holds credentials, which other users of the machine can see").WithFix("set %s, or %s and %s, and leave them out of the address", tokenVariable, userVariable, passwordVariable)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, refuse("it has a query")
	}
	if !strings.HasSuffix(u.Path, path) {
		u.Path = strings.TrimSuffix(u.Path, "/") + path
	}
	s.url = u
	return s, nil
}

// String returns the address without credentials.
func (s *Server) String() string {
	return document.CleanText(s.url.Scheme + "://" + s.url.Host + s.url.Path)
}

func waitPause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Send sends a profile. It retries if the server is busy or cannot be reached, but not if the server refuses.
func (s *Server) Send(ctx context.Context, p *profile.Profile) error {
	encode := s.encodeOTLP
	if s.pyroscope {
		encode = s.encodePyroscope
	}
	m, err := encode(p)
	if err != nil {
		return fmt.Errorf("encoding the profile for %s: %w", s, err)
	}
	var last error
	for k := range tries {
		again, wait, err := s.sendOnce(ctx, m)
		if err == nil {
			return nil
		}
		if last = err; !again || k == tries-1 {
			break
		}
		if wait == 0 {
			wait = time.Second << k
		}
		if err := s.pause(ctx, min(wait, longestPause)); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return gpuprof.Errorf(nil, "pushing the profile to %s: %w", s, last).WithFix("look at the address and the server; its credentials are taken from %s, or %s and %s", tokenVariable, userVariable, passwordVariable)
}

// message is the content of one request.
type message struct {
	query url.Values
	kind  string // Content-Type
	body  []byte
}

// sendOnce sends the message once. again reports that a retry may succeed; wait is the pause that the server requested.
func (s *Server) sendOnce(ctx context.Context, m message) (again bool, wait time.Duration, err error) {
	u := *s.url
	u.RawQuery = m.query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(m.body))
	if err != nil {
		return false, 0, err
	}
	r.Header.Set("Content-Type", m.kind)
	r.Header.Set("User-Agent", "gpuprof")
	s.authorize(r)
	answer, err := s.client.Do(r)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // the error message has the address already
		}
		return ctx.Err() == nil, 0, err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, answerBytes)) // a truncated answer is enough for a message
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return false, 0, s.checkPartial(text)
	}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, time.Duration(max(seconds, 0)) * time.Second, errors.New(describeRefusal(answer.Status, answer.Header.Get("Content-Type"), text))
}

func (s *Server) authorize(r *http.Request) {
	switch token, user := s.getenv(tokenVariable), s.getenv(userVariable); {
	case token != "":
		r.Header.Set("Authorization", "Bearer "+token)
	case user != "":
		r.SetBasicAuth(user, s.getenv(passwordVariable))
	}
	if tenant := s.getenv(tenantVariable); tenant != "" {
		r.Header.Set("X-Scope-OrgID", tenant)
	}
}

func (s *Server) serviceName() string { return cmp.Or(s.getenv(serviceVariable), "gpuprof") }

// describeRefusal formats the HTTP status and the first line of a text answer.
func describeRefusal(status, kind string, text []byte) string {
	said := "it answered " + status
	if strings.HasPrefix(kind, "text/plain") || strings.HasPrefix(kind, "application/json") {
		said += quoteReason(text)
	}
	return document.CleanText(said)
}

// mostReason limits the quoted part of the server's answer, bytes.
const mostReason = 200

// quoteReason returns ": " and the first line of a server's answer; "" if it is empty.
func quoteReason(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if line == "" {
		return ""
	}
	if len(line) > mostReason {
		line = strings.ToValidUTF8(line[:mostReason], "") + "…"
	}
	return ": " + line
}
