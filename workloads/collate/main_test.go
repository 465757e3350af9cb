package collate

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/host"
)

// The test program serves as its own worker processes.
func TestMain(m *testing.M) {
	// The race detector otherwise sleeps a second at every process's end.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	if WorkerMain() {
		return
	}
	os.Exit(m.Run())
}

func openHost(t testing.TB, limit int64) gpuprof.Device {
	t.Helper()
	d, err := host.Open(host.Options{MemoryLimit: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// resolve makes a config from "knob=value" strings.
func resolve(t testing.TB, preset string, set ...string) gpuprof.Config {
	t.Helper()
	s := gpuprof.Settings{}
	for _, kv := range set {
		k, v, _ := strings.Cut(kv, "=")
		s[k] = v
	}
	knobs, err := gpuprof.Resolve(New(), preset, s)
	if err != nil {
		t.Fatal(err)
	}
	return gpuprof.Config{Preset: preset, Knobs: knobs, Seed: 1, Mode: gpuprof.Steady}
}

func openSession(t testing.TB, preset string, set ...string) *session {
	t.Helper()
	return openOn(t, openHost(t, 0), nil, preset, set...)
}

func openOn(t testing.TB, d gpuprof.Device, hook func(int), preset string, set ...string) *session {
	t.Helper()
	s, err := openHooked(context.Background(), d, resolve(t, preset, set...), hook)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
