//go:build !race

// A process is started, which takes long under the race detector and shares nothing with this one.

package main

import (
	"os"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/collate"
)

// What is measured within the tests finds workers: their program is this one. Without that a
// worker ran all tests instead, until it was killed for not answering.
func TestServesWorkers(t *testing.T) {
	const here = "GPUPROF_TEST_WORKERS"
	if os.Getenv(here) != "" {
		t.Fatal("a worker runs the tests")
	}
	t.Setenv(here, "started")
	p := problem{name: "workers", workload: collate.New(), preset: "small", set: "batch=2 probes=8 worker_kind=process workers=1", samples: 10}
	if r := p.measure(t, "", t.TempDir()); r.Step.N() != 10 {
		t.Errorf("%d samples", r.Step.N())
	}
}
