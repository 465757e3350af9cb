package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/collate"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// problem is a setting of a real workload that wastes time, and the finding
// that must say so. The knob is turned from its value in set.
type problem struct {
	name        string
	workload    workloads.Workload
	preset      string
	set         string // knob=value, separated by spaces
	rule, stage string
	knob, to    string
	samples     int
	// sweep are values of the knob that are measured beside it: some rules look
	// at a sweep.
	sweep []string
	// sim configures the simulated driver that stands in for a GPU, for what the
	// host device does not have. Its times say nothing, so that no gain is
	// recorded: only that the rule looks at the right thing.
	sim string
}

// problems are those the host device can have at a size above its noise, then
// those only a GPU has.
func problems() []problem {
	const (
		tiny    = "flows=8 hidden=8 depth=4 " // waits as long as it computes
		simTiny = "flows=4 hidden=4 input=3 depth=3 layers=1 "
		simE3NN = "batch=4 edges=40 "
		simLoad = "batch=4 probes=6 epoch=8 sync=never "
	)
	g, c, e := gruflow.New(), collate.New(), e3nn.New()
	return []problem{
		{name: "item reads", workload: g, preset: "small", set: tiny + "item_reads=256", rule: "item", stage: "sync", knob: "item_reads", to: "packed", samples: 100},
		{name: "sync every step", workload: g, preset: "small", set: tiny + "sync=step", rule: "explicit-sync", stage: "sync", knob: "sync", to: "never", samples: 400},
		{name: "pool trimmed", workload: g, preset: "small", set: tiny + "pool_trim=every:1", rule: "allocator-churn", stage: "sync", knob: "pool_trim", to: "never", samples: 400},
		{name: "pinned anew", workload: c, preset: "small", set: "pinned=batch", rule: "pin-every-batch", stage: "stage", knob: "pinned", to: "on", samples: 40},
		{name: "naive collation", workload: c, preset: "naive", set: "probes=500", rule: "collate-bound", stage: "collate", knob: "impl", to: "cached", samples: 12},
		{name: "nobody loads", workload: c, preset: "small", set: "workers=0 probes=32", rule: "dataloader-stall", stage: "starved", knob: "workers", to: "auto", samples: 40},
		{name: "unfused product", workload: e, preset: "small", set: "impl=unfused batch=64", rule: "far-from-roofline", stage: "tensor_product", knob: "impl", to: "csr", samples: 20},
		{name: "an operation each", workload: g, preset: "small", set: "impl=plain flows=512", rule: "far-from-roofline", stage: "gru", knob: "impl", to: "fused", samples: 60},
		{name: "memory filled", workload: g, preset: "small", set: "impl=plain flows=512 fill=on", rule: "deterministic-fill", stage: "gru", knob: "fill", to: "off", samples: 60},
		{name: "one thread", workload: e, preset: "small", set: "threads=1", rule: "few-threads", stage: "tensor_product", knob: "threads", to: "all", samples: 12},
		{name: "small batch", workload: c, preset: "small", set: "batch=2 worker_kind=process", rule: "small-batch", stage: "step", knob: "batch", to: "4", samples: 100, sweep: []string{"1"}},

		{name: "pageable copies", workload: c, preset: "small", set: simLoad + "pinned=off", rule: "pageable-h2d", stage: "h2d", knob: "pinned", to: "on", samples: 12, sim: "slow_copy_us=2000"},
		{name: "copies in line", workload: c, preset: "small", set: simLoad + "streams=1", rule: "exposed-copy", stage: "h2d", knob: "streams", to: "2", samples: 12, sim: "slow_copy_us=5000;slow_launch_us=5000"},
		{name: "blocking copies", workload: e, preset: "small", set: simE3NN + "async_copy=off lmax=0 mul=1", rule: "blocking-copy", stage: "sync", knob: "async_copy", to: "on", samples: 12, sim: "cc=9.0"},
		{name: "launch by launch", workload: g, preset: "small", set: "flows=1 hidden=1 input=1 depth=1 layers=16 impl=plain graph=off", rule: "launch-bound", stage: "launch", knob: "graph", to: "on", samples: 400},
		{name: "reset after a wait", workload: e, preset: "small", set: simE3NN + "reset_stats=sync lmax=0 mul=1", rule: "reset-stats", stage: "sync", knob: "reset_stats", to: "off", samples: 12, sim: "cc=9.0"},
		{name: "sums in order", workload: e, preset: "small", set: "batch=4 edges=90 impl=unfused lmax=0 mul=1 deterministic=on", rule: "deterministic", stage: "scatter", knob: "deterministic", to: "off", samples: 12, sim: "slow_launch_us=500"},
		{name: "float32 products", workload: g, preset: "small", set: "flows=32 hidden=256 depth=2 impl=fused", rule: "no-tf32", stage: "gru", knob: "precision", to: "tf32", samples: 12, sim: "cc=9.0"},
		{name: "own products", workload: g, preset: "small", set: "flows=16 hidden=16 depth=3 impl=fused library=off", rule: "far-from-roofline", stage: "gru", knob: "library", to: "auto", samples: 12, sim: "cc=9.0"},
	}
}

// clean are settings with which nothing is wrong.
func clean() []problem {
	g, c, e := gruflow.New(), collate.New(), e3nn.New()
	return []problem{
		{name: "e3nn", workload: e, preset: "small", samples: 30},
		{name: "e3nn fused", workload: e, preset: "small", set: "impl=fused", samples: 30},
		{name: "e3nn large batch", workload: e, preset: "small", set: "batch=2048", samples: 20},
		{name: "e3nn as a graph", workload: e, preset: "small", set: "graph=on", samples: 30},
		{name: "gruflow", workload: g, preset: "small", samples: 200},
		{name: "gruflow in atomic sums", workload: g, preset: "small", set: "deterministic=off", samples: 200},
		{name: "gruflow in four layers", workload: g, preset: "small", set: "layers=4 hidden=128", samples: 60},
		{name: "collate", workload: c, preset: "small", samples: 100},
		{name: "collate never waiting", workload: c, preset: "small", set: "sync=never", samples: 100},
		{name: "collate in small batches", workload: c, preset: "small", set: "batch=16", samples: 150},
	}
}

// knobs are the problem's settings, with its knob at another value if there is one.
func (p problem) knobs(t testing.TB, value string) gpuprof.Settings {
	t.Helper()
	set := gpuprof.Settings{}
	for _, kv := range strings.Fields(p.set) {
		k, v, _ := strings.Cut(kv, "=")
		set[k] = v
	}
	if value != "" {
		set[p.knob] = value
	}
	knobs, err := workloads.Resolve(p.workload, p.preset, set)
	if err != nil {
		t.Fatal(err)
	}
	return knobs
}

func (p problem) base(t testing.TB) gpuprof.Settings {
	t.Helper()
	base, err := workloads.Resolve(p.workload, p.preset, nil)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// measure runs the problem with its knob at value ("" is the problem's own).
// Checks that passed once are remembered in cache.
func (p problem) measure(t testing.TB, value, cache string) *gpuprof.Run {
	t.Helper()
	d := p.open(t)
	defer d.Close()
	r, err := measure.Run(context.Background(), d, measure.Plan{
		Workload: p.workload, Preset: p.preset, Knobs: p.knobs(t, value), Seed: 1, Mode: gpuprof.Steady, NoEnergy: true,
		MaxTime: 20 * time.Second, Warmup: measure.Warmup{Steps: 3}, Samples: p.samples, CacheDir: cache, Build: "recording", Tool: wired.tables().Tool,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (p problem) open(t testing.TB) device.Device {
	t.Helper()
	if p.sim == "" {
		d, err := host.Open(host.Options{LargestCopy: 1 << 20, CeilingTries: 2})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	lib := sim.Library(t)
	sim.Reset(t, lib)
	sim.Set(t, lib, "attr.38=65536;"+p.sim) // a small cache: a few batches are enough to rotate past it
	t.Setenv("GPUPROF_CUDA_LIBRARY_PATH", sim.Libraries(lib))
	d, err := cuda.Open(cuda.Options{Library: lib, AllowSimulated: true})
	if err != nil {
		t.Fatal(err)
	}
	return noCeilings{d}
}

// noCeilings is a simulated device whose ceilings are not measured, which takes
// the CPU seconds.
type noCeilings struct{ *cuda.Device }

func (noCeilings) Ceilings(context.Context) (gpuprof.Ceilings, error) {
	return gpuprof.Ceilings{CopyBytesPerS: 4e12, FlopsPerS: 5e13}, nil
}
