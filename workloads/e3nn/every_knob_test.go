//go:build !race

// Some hundred sessions are opened, in one goroutine, and steps are taken: ten times as long under the race detector,
// where TestTrainingPasses and TestChecksPass have each kind of goroutine.

package e3nn

import (
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

// Every knob must change something that can be counted. Those that are for a
// GPU alone are counted there.
func TestEveryKnobChangesWhatRuns(t *testing.T) {
	other := map[string]string{
		"structure": "diamond", "points": "atoms", "cutoff": "5", "basis": "bessel", "mul": "5", "lmax": "1", "edges": "50", "pass": "forces", "recompute": "weights", "optimizer": "loop", "lr": "0.1", "clip": "0.001",
		"batch": "11", "impl": "unfused", "deterministic": "on", "layout": "mul_ir", "sync": "step", "item_reads": "3", "threads": "1",
		"precision": "bf16", "graph": "on", "pinned": "off", "async_copy": "off", "streams": "1", "autotune": "on",
		"library": "off", "reset_stats": "on", "pool_trim": "every:1",
		"accumulate": "2", "scaler": "dynamic", "found_inf": "host", "clip_where": "host", "loss_read": "step", "zero": "fill",
	}
	// What a step is: input, kernels with their costs, and what it asks of the device.
	picture := func(s *session) string {
		before := s.dev.Meter()
		for i := range 2 {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
		}
		m := s.dev.Meter().Sub(before)
		m.BlockedNS = 0
		if err := s.Compute.Sync(); err != nil {
			t.Fatal(err)
		}
		in := s.Input()
		delete(in, "autotune_s") // not these, which change by themselves
		delete(in, "graph_setup_s")
		var state []float32 // the learning rate and the clipping factor
		if s.k.Trains() {
			state = read(t, s, s.train.step.State(), 5)
		}
		return fmt.Sprint(state, in, s.Stages(), m, s.Copies == s.Compute, s.dev.Info().Cores, s.Pool != nil, read(t, s, s.work[0].w, 4*basisSize))
	}
	for _, k := range New().Knobs() {
		t.Run(k.Name, func(t *testing.T) {
			v, ok := other[k.Name]
			if !ok {
				t.Fatalf("knob %s is not in this test", k.Name)
			}
			base := []string{"batch=12"}
			if k.Name == "deterministic" { // csr is deterministic either way
				base = append(base, "impl=unfused")
			}
			switch k.Name {
			case "recompute":
				base = append(base, "pass=forces")
			case "found_inf":
				base = append(base, "pass=train", "precision=fp16", "scaler=dynamic")
			case "optimizer", "lr", "clip", "accumulate", "scaler", "clip_where", "loss_read", "zero":
				base = append(base, "pass=train")
			}
			one := func(set ...string) string { return picture(openSession(t, "small", set...)) }
			if k.Name == "library" || k.Name == "reset_stats" || k.Name == "pool_trim" {
				d := openSimulated(t, true)
				one = func(set ...string) string {
					s := openOn(t, d, "small", append(set, "edges=20")...)
					defer s.Close()
					return picture(s)
				}
			}
			if one(base...) == one(append(base, k.Name+"="+v)...) {
				t.Errorf("%s=%s changes nothing", k.Name, v)
			}
		})
	}
}
