package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/gpuprof/gpuprof"
)

// aProfile has two types of samples, a stack of two frames twice, a label, and a sample that is 0 for one type.
func aProfile() *profile.Profile {
	fn := func(id uint64, name string) *profile.Function {
		return &profile.Function{ID: id, Name: name, SystemName: name, Filename: "train.py"}
	}
	inner, outer := fn(1, "matmul"), fn(2, "step")
	in, out := &profile.Location{ID: 1, Line: []profile.Line{{Function: inner, Line: 7}}}, &profile.Location{ID: 2, Line: []profile.Line{{Function: outer, Line: 3}}}
	return &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "device_time", Unit: "nanoseconds"}, {Type: "launches", Unit: "count"}},
		Sample: []*profile.Sample{
			{Location: []*profile.Location{in, out}, Value: []int64{900, 2}, Label: map[string][]string{"process": {"0"}}},
			{Location: []*profile.Location{in, out}, Value: []int64{800, 0}, Label: map[string][]string{"process": {"1"}}},
			{Location: []*profile.Location{out}, Value: []int64{0, 5}},
		},
		Function: []*profile.Function{inner, outer}, Location: []*profile.Location{in, out}, TimeNanos: 1_700_000_000_000_000_000, DurationNanos: 2_500_000_000,
	}
}

// server answers each request by the next of the answers, and keeps what it was sent.
type server struct {
	*httptest.Server
	answers  []func(http.ResponseWriter)
	requests []*http.Request
	bodies   [][]byte
}

func newServer(t *testing.T, answers ...func(http.ResponseWriter)) *server {
	t.Helper()
	s := &server{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, body)
		if n := len(s.requests); n <= len(s.answers) {
			s.answers[n-1](w)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func answer(code int, header, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if key, value, ok := strings.Cut(header, ": "); ok {
			w.Header().Set(key, value)
		}
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// to is the server of an address, which waits for nothing and keeps how long it would have waited.
func to(t *testing.T, address string, env map[string]string) (*Server, *[]time.Duration) {
	t.Helper()
	s, err := To(address, func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	var waited []time.Duration
	s.pause = func(ctx context.Context, d time.Duration) error {
		waited = append(waited, d)
		return ctx.Err()
	}
	return s, &waited
}

// The collector's own unmarshaller reads what was sent: each type of sample as a profile, with its stacks, functions
// and labels.
func TestOTLPIsReadByTheCollector(t *testing.T) {
	there := newServer(t)
	s, _ := to(t, "otlp+"+there.URL, map[string]string{serviceVariable: "training", tokenVariable: "s3cret"})
	if err := s.Send(t.Context(), aProfile()); err != nil {
		t.Fatal(err)
	}
	r := there.requests[0]
	if r.Method != http.MethodPost || r.URL.Path != "/v1development/profiles" || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("Authorization") != "Bearer s3cret" {
		t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	data, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(there.bodies[0])
	if err != nil {
		t.Fatal(err)
	}
	if name, _ := data.ResourceProfiles().At(0).Resource().Attributes().Get("service.name"); name.Str() != "training" {
		t.Errorf("service.name is %q", name.Str())
	}
	d := data.Dictionary()
	text := d.StringTable()
	got := map[string][]string{}
	all := data.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles()
	for i := range all.Len() {
		p := all.At(i)
		if id := p.ProfileID(); id.IsEmpty() || p.DurationNano() != 2_500_000_000 || p.Time().AsTime().Unix() != 1_700_000_000 {
			t.Errorf("profile %d: identity %v, %v at %v", i, id, p.DurationNano(), p.Time())
		}
		name := text.At(int(p.SampleType().TypeStrindex())) + " " + text.At(int(p.SampleType().UnitStrindex()))
		for k := range p.Samples().Len() {
			sample := p.Samples().At(k)
			var frames []string
			stack := d.StackTable().At(int(sample.StackIndex())).LocationIndices()
			for j := range stack.Len() {
				line := d.LocationTable().At(int(stack.At(j))).Lines().At(0)
				f := d.FunctionTable().At(int(line.FunctionIndex()))
				frames = append(frames, fmt.Sprintf("%s %s:%d", text.At(int(f.NameStrindex())), text.At(int(f.FilenameStrindex())), line.Line()))
			}
			for j := range sample.AttributeIndices().Len() {
				a := d.AttributeTable().At(int(sample.AttributeIndices().At(j)))
				frames = append(frames, text.At(int(a.KeyStrindex()))+"="+a.Value().Str())
			}
			got[name] = append(got[name], fmt.Sprint(strings.Join(frames, " < "), " ", sample.Values().At(0)))
		}
	}
	want := map[string][]string{
		"device_time nanoseconds": {"matmul train.py:7 < step train.py:3 < process=0 900", "matmul train.py:7 < step train.py:3 < process=1 800"},
		"launches count":          {"matmul train.py:7 < step train.py:3 < process=0 2", "step train.py:3 5"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if d.StackTable().Len() != 3 || d.MappingTable().Len() != 1 || d.LinkTable().Len() != 1 || text.At(0) != "" {
		t.Errorf("the tables have %d stacks, %d mappings and %d links", d.StackTable().Len(), d.MappingTable().Len(), d.LinkTable().Len())
	}
}

// Pyroscope gets the profile as it is, the types of its samples, and when it was taken.
func TestPyroscope(t *testing.T) {
	there := newServer(t)
	s, _ := to(t, "pyroscope+"+there.URL+"/base/", map[string]string{userVariable: "u", passwordVariable: "s3cret", tenantVariable: "team", serviceVariable: "a{b}"})
	if err := s.Send(t.Context(), aProfile()); err != nil {
		t.Fatal(err)
	}
	r := there.requests[0]
	q := r.URL.Query()
	if user, password, _ := r.BasicAuth(); user != "u" || password != "s3cret" || r.Header.Get("X-Scope-OrgID") != "team" || r.URL.Path != "/base/ingest" {
		t.Errorf("%s %v", r.URL, r.Header)
	}
	if q.Get("format") != "pprof" || q.Get("name") != "a_b_" || q.Get("from") != "1700000000" || q.Get("until") != "1700000003" {
		t.Errorf("the query is %v", q)
	}
	r.Body = io.NopCloser(strings.NewReader(string(there.bodies[0])))
	form, err := r.MultipartReader()
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		parts[part.FormName()] = string(text)
	}
	p, err := profile.Parse(strings.NewReader(parts["profile"]))
	if err != nil || len(p.Sample) != 3 || p.SampleType[0].Type != "device_time" {
		t.Errorf("the profile is %v, %v", p, err)
	}
	var types map[string]sampleConfig
	if err := json.Unmarshal([]byte(parts["sample_type_config"]), &types); err != nil || types["launches"].Units != "count" || len(types) != 2 {
		t.Errorf("the types are %v, %v", types, err)
	}
}

// A server that is busy is asked again, a few times and no longer apart than the bound; one that refuses is not. No
// message has a credential.
func TestTries(t *testing.T) {
	busy, ok := answer(http.StatusServiceUnavailable, "", "busy"), answer(http.StatusOK, "", "")
	rejected := answer(http.StatusOK, "Content-Type: application/x-protobuf", "\x0a\x09\x08\x02\x12\x05quota")
	for name, c := range map[string]struct {
		answers  []func(http.ResponseWriter)
		says     string // "" is success
		requests int
		waited   []time.Duration
	}{
		"at once":            {[]func(http.ResponseWriter){ok}, "", 1, nil},
		"the third time":     {[]func(http.ResponseWriter){busy, busy, ok}, "", 3, []time.Duration{time.Second, 2 * time.Second}},
		"never":              {[]func(http.ResponseWriter){busy, busy, busy, ok}, "503 Service Unavailable: busy", 3, []time.Duration{time.Second, 2 * time.Second}},
		"as the server asks": {[]func(http.ResponseWriter){answer(http.StatusTooManyRequests, "Retry-After: 4", ""), answer(http.StatusTooManyRequests, "Retry-After: 9999", ""), ok}, "", 3, []time.Duration{4 * time.Second, longestPause}},
		"refused":            {[]func(http.ResponseWriter){answer(http.StatusUnauthorized, "", "no\x1b[31m such token\nmore")}, "401 Unauthorized: no", 1, nil},
		"a redirect":         {[]func(http.ResponseWriter){answer(http.StatusTemporaryRedirect, "Location: http://example.invalid/", "")}, "307", 1, nil},
		"a page":             {[]func(http.ResponseWriter){answer(http.StatusNotFound, "Content-Type: text/html", "<html>")}, "404 Not Found", 1, nil},
		"partly":             {[]func(http.ResponseWriter){rejected}, "it rejected 2 profiles: quota", 1, nil},
	} {
		there := newServer(t, c.answers...)
		s, waited := to(t, "otlp+"+there.URL, map[string]string{tokenVariable: "s3cret"})
		err := s.Send(t.Context(), aProfile())
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || len(there.requests) != c.requests {
			t.Errorf("%s: %v after %d requests, want %q after %d", name, err, len(there.requests), c.says, c.requests)
		}
		if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "<html>") || strings.ContainsAny(err.Error(), "\n\x1b")) {
			t.Errorf("%s: the message is %q", name, err)
		}
		if diff := cmp.Diff(c.waited, *waited); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	there := newServer(t, busy)
	s, _ := to(t, "otlp+"+there.URL, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s.pause = func(context.Context, time.Duration) error { cancel(); return ctx.Err() }
	if err := s.Send(ctx, aProfile()); !errors.Is(err, context.Canceled) || len(there.requests) != 1 {
		t.Errorf("an interrupt between tries: %v after %d requests", err, len(there.requests))
	}
	gone := newServer(t)
	gone.Close()
	s, waited := to(t, "pyroscope+"+gone.URL, nil)
	if err := s.Send(t.Context(), aProfile()); err == nil || len(*waited) != tries-1 || strings.Contains(err.Error(), "format=pprof") {
		t.Errorf("a server that is gone: %v after %v", err, *waited)
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"otlp+http://h:4318":                    "http://h:4318/v1development/profiles",
		"otlp+https://h/v1development/profiles": "https://h/v1development/profiles",
		"pyroscope+https://h/":                  "https://h/ingest",
		"pyroscope+http://h:4040/p":             "http://h:4040/p/ingest",
		"http://h":                              "!does not name the kind",
		"otlp+ftp://h":                          "!no host over http",
		"otlp+http://":                          "!no host over http",
		"otlp+http://user:s3cret@h":             "!it holds credentials",
		"pyroscope+http://h/?token=s3cret":      "!it has a query",
		"otlp+http://us er:s3cret@h:x":          "!it is no URL",
		"":                                      "!does not name the kind",
		"pyroscope+http://h:4040/ingest":        "http://h:4040/ingest",
	} {
		s, err := To(address, func(string) string { return "" })
		if why, bad := strings.CutPrefix(want, "!"); bad {
			if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v, want %s", address, err, why)
			}
			continue
		}
		if err != nil || s.String() != want {
			t.Errorf("%s: %v, %v", address, s, err)
		}
	}
}
