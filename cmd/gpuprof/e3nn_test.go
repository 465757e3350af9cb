package main

import (
	"cmp"
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// These tests put together what only this package may: the real workload, the
// real device and the measuring loop.

func e3nnKnobs(t *testing.T, set ...string) gpuprof.Settings {
	t.Helper()
	s := gpuprof.Settings{"edges": "40"} // the arithmetic of the preset's edges is the same, and ten times as long under the race detector
	for _, kv := range set {
		k, v, _ := strings.Cut(kv, "=")
		s[k] = v
	}
	knobs, err := workloads.Resolve(e3nn.New(), "small", s)
	if err != nil {
		t.Fatal(err)
	}
	return knobs
}

func hostDevice(t *testing.T) device.Device {
	t.Helper()
	d, err := host.Open(host.Options{LargestCopy: 1 << 20, CeilingTries: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// The whole timed loop, workload and probe together, allocates nothing.
func TestE3NNTimedLoopAllocatesNothing(t *testing.T) {
	for _, set := range [][]string{nil, {"impl=unfused"}, {"impl=fused"}, {"sync=step", "item_reads=16"}, {"sync=every:3", "layout=mul_ir"}} {
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			dev := events.NewTracer(hostDevice(t))
			knobs := e3nnKnobs(t, append(set, "batch=5")...)
			sess, err := e3nn.New().Open(context.Background(), dev, workloads.Config{Preset: "small", Knobs: knobs, Seed: 1, Mode: gpuprof.Steady})
			if err != nil {
				t.Fatal(err)
			}
			defer sess.Close()
			rec, err := events.NewRecorder(dev, sess.Main(), sess.Stages(), 8, dev)
			if err != nil {
				t.Fatal(err)
			}
			n := testing.AllocsPerRun(10, func() {
				if err := sess.Main().Sync(); err != nil {
					t.Fatal(err)
				}
				if _, _, err := rec.Reset(events.Probed); err != nil {
					t.Fatal(err)
				}
				for i := range 8 {
					if err := sess.Step(i, rec); err != nil {
						t.Fatal(err)
					}
				}
			})
			if n != 0 {
				t.Errorf("%v allocations in 8 steps", n)
			}
		})
	}
}

// In every sample of a real run the exposed times add up to the step, and
// every stage was checked.
func TestE3NNRunReconciles(t *testing.T) {
	for _, set := range [][]string{nil, {"sync=step", "item_reads=16"}, {"impl=unfused"}} {
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			w := e3nn.New()
			r, err := measure.Run(context.Background(), hostDevice(t), measure.Plan{
				Workload: w, Preset: "small", Knobs: e3nnKnobs(t, append(set, "batch=20")...), Seed: 1, Mode: gpuprof.Steady,
				MaxTime: time.Hour, Warmup: measure.Warmup{Steps: 5}, Samples: 12,
			})
			if err != nil {
				t.Fatal(err)
			}
			probed := cmp.Or(r.ProbedStep, r.Step) // exposed times are of the pass that timed the stages
			for i, period := range probed.Runs[0] {
				var sum float64
				for _, s := range r.Stages {
					if s.Parent == "step" {
						sum += s.Exposed.Runs[0][i]
					}
				}
				if math.Abs(sum-period) > 1e-9*period {
					t.Fatalf("sample %d: exposed times add up to %v, the step is %v", i, sum, period)
				}
			}
			for _, c := range r.Checks {
				if !c.Pass || float64(c.RelativeError) > 1e-5 {
					t.Errorf("check %+v", c)
				}
			}
			reads, syncs := 0.0, 0.0
			if len(set) == 2 {
				reads, syncs = 16, 17
			}
			if r.Counters["sync_points"] != syncs || r.Counters["copies_d2h"] != reads+1 || r.Counters["bytes_d2h_pageable"] != 4*reads {
				t.Errorf("counters %v", r.Counters)
			}
		})
	}
}
