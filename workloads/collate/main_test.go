package collate

import (
	"context"
	"os"
	"testing"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
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

func openHost(t testing.TB, limit int64) *host.Device {
	t.Helper()
	return workloadtest.Host(t, host.Options{MemoryLimit: limit})
}

// resolve makes a config from "knob=value" strings.
func resolve(t testing.TB, preset string, set ...string) workloads.Config {
	t.Helper()
	return workloadtest.Config(t, New(), preset, set...)
}

func openSession(t testing.TB, preset string, set ...string) *session {
	t.Helper()
	return openOn(t, openHost(t, 0), nil, preset, set...)
}

func openOn(t testing.TB, d device.Device, hook func(int), preset string, set ...string) *session {
	t.Helper()
	s, err := openHooked(context.Background(), d, resolve(t, preset, set...), hook)
	if err != nil {
		t.Fatal(err)
	}
	return workloadtest.Closing(t, s)
}
