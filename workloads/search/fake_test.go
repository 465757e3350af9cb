package search

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// fake is a workload whose knobs do known things: batch halves the cost at 64
// and no further, cache is worth 20 %, pipe nothing alone and 30 % with cache,
// twin and twin2 nothing but 20 bytes each and together 40 %, clash is worth 10 % alone and
// doubles the cost beside cache; mem=huge is out of memory, dev=gpu refused,
// round=bf16 wrong by 5 %; explode is 15 % faster but out of memory beside cache.
type fake struct{}

func (fake) Name() string                { return "fake" }
func (fake) Doc() string                 { return "a workload with known effects" }
func (fake) Stages() []gpuprof.Stage     { return nil }
func (fake) Presets() []workloads.Preset { return []workloads.Preset{{Name: "small"}} }
func (fake) Knobs() []workloads.Knob {
	return []workloads.Knob{
		workloads.IntKnob("size", "model", 8, 1, 64).AsModel(),
		workloads.IntKnob("batch", "items", 32, 1, 4096),
		workloads.Choice("cache", "", "off", "on"), workloads.Choice("pipe", "", "off", "on"),
		workloads.Choice("twin", "", "off", "on"), workloads.Choice("twin2", "", "off", "on"),
		workloads.Choice("clash", "", "off", "on"), workloads.Choice("explode", "", "off", "on"),
		workloads.Choice("mem", "", "small", "huge"), workloads.Choice("dev", "", "any", "gpu"),
		workloads.Choice("round", "", "fp32", "bf16"), workloads.Choice("slow", "", "off", "on"),
	}
}

func (fake) Refuse(_ device.Info, s gpuprof.Settings) error {
	if s["dev"] == "gpu" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting dev=gpu: this is no GPU; use dev=any")
	}
	return nil
}

func (fake) Open(context.Context, device.Device, workloads.Config) (workloads.Session, error) {
	return nil, gpuprof.Errorf(gpuprof.ErrDevice, "opening fake: its costs are known, there is nothing to run")
}

// trueCost is the seconds per item.
func trueCost(s gpuprof.Settings) float64 {
	c := 1e-3
	switch n := s.Int("batch"); {
	case n >= 64:
		c *= 0.5
	case n < 32:
		c *= 1.5
	}
	if s.On("cache") {
		c *= 0.8
		if s.On("pipe") {
			c *= 0.7
		}
		if s.On("clash") {
			c *= 2
		}
	}
	if s.On("twin") && s.On("twin2") {
		c *= 0.6
	}
	if s.On("clash") {
		c *= 0.9
	}
	if s.On("explode") {
		c *= 0.85
	}
	if s["round"] == "bf16" {
		c *= 0.3
	}
	if s.On("slow") {
		c *= 1.4
	}
	return c
}

func trueMemory(s gpuprof.Settings) int64 {
	n := int64(100 + s.Int("batch"))
	for _, k := range []string{"twin", "twin2"} {
		if s.On(k) {
			n -= 20
		}
	}
	return n
}

func trueError(s gpuprof.Settings) float64 {
	if s["round"] == "bf16" {
		return 0.05
	}
	return 0
}

func trueFailure(s gpuprof.Settings) error {
	if s["mem"] == "huge" || s.On("explode") && s.On("cache") {
		return gpuprof.Errorf(gpuprof.ErrMemory, "allocating 10 GiB: too much; lower batch")
	}
	return fake{}.Refuse(device.Info{}, s)
}

// fakeBench knows the costs; every comparison takes a second of a clock of its
// own. stop, when it is not nil, is called before each.
type fakeBench struct {
	clock time.Time
	rng   *rand.Rand
	noise float64
	calls []string
	stop  func(call int)
	flat  bool // no knob does anything
}

func newFakeBench(seed uint64) *fakeBench {
	return &fakeBench{clock: time.Unix(1e9, 0), rng: rand.New(rand.NewPCG(seed, 7)), noise: 0.005}
}

func (f *fakeBench) now() time.Time { return f.clock }

func (f *fakeBench) cost(s gpuprof.Settings) float64 {
	c := 1e-3
	if !f.flat {
		c = trueCost(s)
	}
	return c * math.Exp(f.noise*f.rng.NormFloat64())
}

func (f *fakeBench) Compare(ctx context.Context, a, b Side, l Limits) (*tune.Outcome, error) {
	f.calls = append(f.calls, tune.DescribeSettings(a.Knobs)+" | "+tune.DescribeSettings(b.Knobs))
	if f.stop != nil {
		f.stop(len(f.calls))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.clock = f.clock.Add(time.Second)
	o := &tune.Outcome{Unit: "items", WorkA: float64(a.Knobs.Int("batch")), WorkB: float64(b.Knobs.Int("batch")), MemoryA: trueMemory(a.Knobs), MemoryB: trueMemory(b.Knobs),
		OneTime: map[string]float64{"setup_s": 0.1}}
	if err := trueFailure(b.Knobs); err != nil {
		failOutcome(o, err)
		return o, nil
	}
	o.ErrorA, o.Error = trueError(a.Knobs), trueError(b.Knobs)
	if l.refuseAbove(o) {
		return o, nil
	}
	for range 8 {
		o.A, o.B = append(o.A, []float64{f.cost(a.Knobs)}), append(o.B, []float64{f.cost(b.Knobs)})
	}
	o.TimeA, o.TimeB = o.A, o.B
	if l.Goal == tune.Memory {
		o.A, o.B = nil, nil
		for range o.TimeA {
			o.A, o.B = append(o.A, []float64{float64(o.MemoryA)}), append(o.B, []float64{float64(o.MemoryB)})
		}
	}
	return o, nil
}

// fresh is one process.
func (f *fakeBench) fresh(_ context.Context, a, b Side, l Limits) (*tune.Outcome, error) {
	if err := trueFailure(b.Knobs); err != nil {
		return nil, err
	}
	f.clock = f.clock.Add(time.Second)
	o := &tune.Outcome{Unit: "items", WorkA: float64(a.Knobs.Int("batch")), WorkB: float64(b.Knobs.Int("batch")), MemoryA: trueMemory(a.Knobs), MemoryB: trueMemory(b.Knobs),
		Error: trueError(b.Knobs), OneTime: map[string]float64{"autotune_s": 0.5 * float64(len(changedSettings(a.Knobs, b.Knobs)))}}
	for range 8 {
		o.A, o.B = append(o.A, []float64{f.cost(a.Knobs)}), append(o.B, []float64{f.cost(b.Knobs)})
	}
	o.TimeA, o.TimeB = o.A, o.B
	if l.Goal == tune.Memory {
		o.A, o.B = [][]float64{{float64(o.MemoryA)}, {float64(o.MemoryA)}}, [][]float64{{float64(o.MemoryB)}, {float64(o.MemoryB)}}
	}
	return o, nil
}

func fakeOptions(f *fakeBench, seed uint64) Options {
	return Options{Workload: fake{}, Preset: "small", Device: "host", DeviceDoc: "fake device", Goal: tune.Time, Budget: 200 * time.Second, MaxError: 1e-2, Seed: seed,
		Bench: f, Fresh: f.fresh, Now: f.now, Tool: gpuprof.Tool{Name: "gpuprof", Version: "test"}}
}
