package main

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// TestPush: report and analyze send the profile that -o FILE.pb.gz has, and say where it went; a server that refuses is
// exit code 4, what has no profile 2, and neither says a credential.
func TestPush(t *testing.T) {
	var mu sync.Mutex
	var bodies [][]byte
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if bodies = append(bodies, body); err != nil || r.Header.Get("Authorization") != "Bearer s3cret" {
			t.Errorf("%v, authorization %q", err, r.Header.Get("Authorization"))
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(server.Close)
	const run, trace = "../../testdata/gallery/e3nn-csr.json.gz", "../../testdata/traces/item-fires.json"
	push := func(status int, args ...string) (string, int) {
		t.Helper()
		mu.Lock()
		code, bodies = status, nil
		mu.Unlock()
		cmd := exec.CommandContext(t.Context(), "gpuprof", args...)
		cmd.Env = append(cmd.Environ(), "GPUPROF_PUSH_TOKEN=s3cret", "NO_PROXY=*")
		out, _ := cmd.CombinedOutput()
		mu.Lock() // orders what the server wrote before what the test reads
		defer mu.Unlock()
		if strings.Contains(string(out), "s3cret") {
			t.Errorf("%q says the token: %s", args, out)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, args := range [][]string{{"report", run}, {"analyze", trace}} {
		out, exit := push(http.StatusOK, append(args, "--push", "otlp+"+server.URL)...)
		if exit != 0 || len(bodies) != 1 || !strings.Contains(out, "pushed the profile to "+server.URL) {
			t.Fatalf("%q: exit code %d, %d requests: %s", args, exit, len(bodies), out)
		}
		data, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(bodies[0])
		if err != nil || data.SampleCount() == 0 {
			t.Errorf("%q: %v, %d samples", args, err, data.SampleCount())
		}
		out, exit = push(http.StatusOK, append(args, "--push", "pyroscope+"+server.URL)...)
		if exit != 0 || len(bodies) != 1 {
			t.Fatalf("%q: exit code %d, %d requests: %s", args, exit, len(bodies), out)
		}
		boundary, _, _ := strings.Cut(string(bodies[0]), "\r\n")
		part, err := multipart.NewReader(bytes.NewReader(bodies[0]), strings.TrimPrefix(boundary, "--")).NextPart()
		if err != nil {
			t.Fatal(err)
		}
		if p, err := profile.Parse(part); err != nil || len(p.Sample) == 0 {
			t.Errorf("%q: Pyroscope got %v, %v", args, p, err)
		}
		if out, exit := push(http.StatusForbidden, append(args, "--push", "otlp+"+server.URL)...); exit != 4 || len(bodies) != 1 || !strings.Contains(out, "403 Forbidden") {
			t.Errorf("%q: exit code %d, %d requests: %s", args, exit, len(bodies), out)
		}
		if out, exit := push(http.StatusOK, append(args, "--push", server.URL)...); exit != 2 || len(bodies) != 0 || !strings.Contains(out, "otlp+http") {
			t.Errorf("%q: exit code %d, %d requests: %s", args, exit, len(bodies), out)
		}
	}
	if out, exit := push(http.StatusOK, "report", "../../testdata/gallery/tune.json.gz", "--push", "otlp+"+server.URL); exit != 2 || len(bodies) != 0 || !strings.Contains(out, "it has no profile") {
		t.Errorf("a tuning: exit code %d: %s", exit, out)
	}
}
