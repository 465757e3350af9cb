package serving

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// refusedArrivals returns the workload's error for arrivals before it opens.
func refusedArrivals(t testing.TB, arrivals string) error {
	t.Helper()
	knobs, err := workloads.Resolve(New(), "synthetic", gpuprof.Settings{"arrivals": arrivals})
	if err != nil {
		t.Fatal(err)
	}
	return New().Refuse(device.Info{Kind: "host"}, knobs)
}

// A trace that is none is an error of the input that names the line, before anything is measured.
func TestBadTrace(t *testing.T) {
	for text, words := range map[string]string{
		"1\n0.5\n":          "line 2: 0.5 s comes after 1 s",
		"0\r\n\r\n# x\r\nb": `line 4: "b" is not a number of seconds`,
		"0\n" + strings.Repeat("1", 1<<17) + "\n": "line 2",
		"# none\n": "holds no arrival",
		"":         "holds no arrival",
	} {
		trace := filepath.Join(t.TempDir(), "arrivals.txt")
		if err := os.WriteFile(trace, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := refusedArrivals(t, "trace:"+trace); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), words) || len(err.Error()) > 400 {
			t.Errorf("%.20q: %.400v, want an error of the input with %q", text, err, words)
		}
	}
}

// A pipe is read once, by the session before its steps.
func TestTraceOfAPipe(t *testing.T) {
	for text, words := range map[string]string{"0\n0.001\n0.002\n": "", "1\n0.5\n": "line 2"} {
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		go func() { _ = os.WriteFile(pipe, []byte(text), 0) }()
		if err := refusedArrivals(t, "trace:"+pipe); err != nil {
			t.Error(err)
		}
		s, err := open(context.Background(), workloadtest.Host(t, host.Options{}), workloadtest.Config(t, New(), "synthetic", fast("arrivals=trace:"+pipe)...))
		if words != "" {
			if !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), words) {
				t.Errorf("%v, want an error of the input with %q", err, words)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		workloadtest.Closing(t, s)
		if q, err := s.Serve(context.Background(), load()); err != nil || q.Processes[0].Completed != 2 { // the first warms up
			t.Errorf("%v, %+v", err, q)
		}
	}
}

// An address that cannot be listened at is named before anything is measured; a free port stays free.
func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := "http:" + l.Addr().String()
	if err := refusedArrivals(t, at); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "give another address or port") {
		t.Errorf("%v", err)
	}
	_ = l.Close()
	for range 2 {
		if err := refusedArrivals(t, at); err != nil {
			t.Error(err)
		}
	}
}
