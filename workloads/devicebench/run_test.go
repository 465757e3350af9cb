package devicebench

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// small is quick enough for a test.
func small() Options {
	return Options{Load: 150 * time.Millisecond, LinkBytes: 1 << 20, Product: 128, Tries: 2, Launches: 20}
}

func openHost() (device.Device, error) { return host.Open(host.Options{}) }

// fakeInstruments returns the readings that a test sets.
type fakeInstruments struct {
	mu       sync.Mutex
	start    time.Time
	readings []float64 // seconds at which a reading was allowed
	active   bool
	stopped  chan struct{}
	throttle float64
	foreign  int
}

func (f *fakeInstruments) Start(context.Context, time.Duration) {
	f.start, f.active, f.stopped = time.Now(), true, make(chan struct{})
	go func() {
		for {
			select {
			case <-f.stopped:
				return
			case <-time.After(time.Millisecond):
			}
			f.read()
		}
	}()
}
func (f *fakeInstruments) set(v bool) { f.mu.Lock(); f.active = v; f.mu.Unlock() }
func (f *fakeInstruments) Pause()     { f.set(false) }

// Resume reads at once: on a busy machine the next tick may come after a short phase.
func (f *fakeInstruments) Resume() { f.set(true); f.read() }

func (f *fakeInstruments) read() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active {
		f.readings = append(f.readings, time.Since(f.start).Seconds())
	}
}

func (f *fakeInstruments) Throttles() map[string]float64 {
	f.throttle += 2
	return map[string]float64{"power-cap": f.throttle}
}
func (f *fakeInstruments) Foreign() (int, bool) { return f.foreign, true }
func (f *fakeInstruments) Stop() map[string]gpuprof.Track {
	close(f.stopped)
	f.mu.Lock()
	defer f.mu.Unlock()
	track := func(v float64) gpuprof.Track {
		t := gpuprof.Track{TimeS: f.readings}
		for range f.readings {
			t.Value = append(t.Value, gpuprof.Number(v))
		}
		return t
	}
	return map[string]gpuprof.Track{"gpu_sm_clock": track(1.7e9), "gpu_power": track(612), "gpu_temperature": track(61), "gpu_pcie_gen": track(5), "gpu_pcie_width": track(8)}
}

func TestRunOnTheHost(t *testing.T) {
	in := &fakeInstruments{foreign: 1}
	var mu sync.Mutex
	var phases []string
	o := small()
	o.Progress = func(_, phase string) {
		mu.Lock()
		defer mu.Unlock()
		phases = append(phases, phase)
	}
	cards := Run(t.Context(), []Target{{Device: "host", Open: openHost, Instruments: in, Condition: health.Condition{LinkWidthMax: 16}, CPUs: []int{0}}}, o)
	c := &cards[0]
	if c.Error != "" || c.Err != nil {
		t.Fatal(c.Error)
	}
	for _, name := range health.Names() {
		library := strings.HasPrefix(name, "gemm_") && name != "gemm_fp32_own"
		if m, ok := c.Metric(name); ok == library || m.Unit != health.Unit(name) || library && m.Why == "" {
			t.Errorf("%s: %+v", name, m)
		}
	}
	for name, want := range map[string]float64{"sm_clock": 1.7e9, "power": 612, "temperature": 61} {
		if m, _ := c.Metric(name); float64(m.Value) != want {
			t.Errorf("%s is %g, want %g", name, float64(m.Value), want)
		}
	}
	if c.Condition.LinkWidth != 8 || c.Condition.LinkGen != 5 || *c.Condition.Foreign != 1 || c.Condition.ThrottledS["power-cap"] != 2 {
		t.Errorf("condition %+v", c.Condition)
	}
	if got := strings.Join(phases, " "); got != "opening memory launches products link load" {
		t.Errorf("phases %s", got)
	}
	// How the two rates compare is the machine's business: other work on it slows one and not the other.
	for _, name := range []string{"gemm_fp32_own", "sustained"} {
		if m, ok := c.Metric(name); !ok || m.Value <= 0 || math.IsInf(float64(m.Value), 0) {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func TestBatchRate(t *testing.T) {
	begin := time.Now()
	at := func(ms ...int) []time.Time {
		var out []time.Time
		for _, m := range ms {
			out = append(out, begin.Add(time.Duration(m)*time.Millisecond))
		}
		return out
	}
	half := begin.Add(100 * time.Millisecond)
	for name, c := range map[string]struct {
		done []time.Time
		want float64
	}{
		"steady":                   {at(20, 40, 60, 80, 100, 120, 140, 160, 180, 200), 50},
		"slow at first":            {at(50, 100, 110, 120, 130), 100},
		"throttled later":          {at(10, 20, 30, 120, 170, 220), 20},
		"one batch in each half":   {at(90, 190), 10},
		"a batch longer than half": {at(10, 60, 360), 1 / 0.3},
		"everything before half":   {at(10, 20, 30), 100},
	} {
		if got := batchRate(c.done, half); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("%s: %g batches/s, want %g", name, got, c.want)
		}
	}
}

// The host's product is a product.
func TestHostProduct(t *testing.T) {
	d, err := host.Open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const size = 2 * tile
	var bufs [3]device.Buffer
	for i := range bufs {
		if bufs[i], err = d.Alloc(4*size*size, device.OnDevice); err != nil {
			t.Fatal(err)
		}
		fillRandom(bufs[i].Bytes())
	}
	var a device.Args
	a.SetBuf(0, bufs[0])
	a.SetBuf(1, bufs[1])
	a.SetBuf(2, bufs[2])
	a.SetInt(3, size)
	hostProduct(&a, 0, 4)
	c, x, y := device.Floats(bufs[0]), device.Floats(bufs[1]), device.Floats(bufs[2])
	for _, at := range [][2]int{{0, 0}, {size - 1, size - 1}, {tile, tile - 1}, {17, 200}} {
		want := 0.0
		for k := range size {
			want += float64(x[at[0]*size+k]) * float64(y[k*size+at[1]])
		}
		// 256 terms of at most 4, summed in float32: 256 * 4 * 256 * 6e-8.
		if got := float64(c[at[0]*size+at[1]]); math.Abs(got-want) > 0.02 {
			t.Errorf("element %v is %g, want %g", at, got, want)
		}
	}
}

func TestRandomNumbersAreOrdinary(t *testing.T) {
	p := make([]byte, 1<<16)
	fillRandom(p)
	distinct := map[uint32]bool{}
	for i := 0; i < len(p); i += 4 {
		v := binary.LittleEndian.Uint32(p[i:])
		distinct[v] = true
		for _, f := range []float32{math.Float32frombits(v), math.Float32frombits(v << 16), math.Float32frombits(v &^ 0xffff)} {
			if a := math.Abs(float64(f)); !(a >= 0.5 && a < 2) {
				t.Fatalf("%08x reads as %g", v, f)
			}
		}
	}
	if len(distinct) < len(p)/8 {
		t.Errorf("only %d different numbers", len(distinct))
	}
}

// simulated opens device i of the simulated driver, with little memory: the
// ceilings' copies are as large as it allows.
func simulated(lib string, i int) func() (device.Device, error) {
	return func() (device.Device, error) {
		return cuda.Open(cuda.Options{Library: lib, AllowSimulated: true, Index: i, MemoryLimit: 16 << 20})
	}
}

// Two devices of the simulated driver take the whole way: loader, streams,
// library products, threads of their own. Their figures are then refused.
func TestRunOnTheSimulatedDriver(t *testing.T) {
	lib := sim.Library(t)
	t.Setenv("GPUPROF_CUDA_LIBRARY_PATH", sim.Libraries(lib))
	sim.Configure(t, lib, "devices=2;cc=8.0;attr.38=65536") // a small cache, because copies go past it; cuBLAS works in 4 MiB there
	cards := Run(t.Context(), []Target{{Device: "cuda:0", Open: simulated(lib, 0)}, {Device: "cuda:1", Open: simulated(lib, 1)}}, small())
	for i := range cards {
		c := &cards[i]
		if c.Error != "" {
			t.Fatal(c.Error)
		}
		for _, name := range []string{"copy", "h2d_pinned", "h2d_pageable", "d2h_pinned", "d2h_pageable", "gemm_fp32", "gemm_tf32", "gemm_bf16", "launch", "launch_interval", "event_pair", "sustained"} {
			if m, ok := c.Metric(name); !ok {
				t.Errorf("%s of %s is not measured: %s", name, c.Device, m.Why)
			}
		}
		if _, there := c.Metric("gemm_fp32_own"); there {
			t.Error("the own product was measured beside cuBLAS")
		}
	}
	sim.Check(t, lib)
	_, err := health.Judge(nil, cards, nil, gpuprof.Tool{})
	if !errors.Is(err, gpuprof.ErrDevice) || !strings.Contains(err.Error(), "simulated") {
		t.Errorf("figures of a simulated device are judged: %v", err)
	}
}

// Without cuBLAS the device's own product is used, and the result gives the reason.
func TestRunWithoutLibraries(t *testing.T) {
	lib := sim.Library(t)
	t.Setenv("GPUPROF_CUDA_LIBRARY_PATH", "")
	t.Setenv("LD_LIBRARY_PATH", "")
	sim.Configure(t, lib, "driver=11000") // for which no cuBLAS lies beside the simulator
	cards := Run(t.Context(), []Target{{Device: "cuda:0", Open: simulated(lib, 0)}}, small())
	c := &cards[0]
	if c.Error != "" {
		t.Fatal(c.Error)
	}
	if _, ok := c.Metric("gemm_fp32_own"); !ok {
		t.Error("no product of its own")
	}
	if m, ok := c.Metric("gemm_bf16"); ok || !strings.Contains(m.Why, "cuBLAS") {
		t.Errorf("bf16: %+v", m)
	}
	sim.Check(t, lib)
}

// What fails on one device stops no other, and is named.
func TestRunFaults(t *testing.T) {
	lib := sim.Library(t)
	t.Setenv("GPUPROF_CUDA_LIBRARY_PATH", sim.Libraries(lib))
	for name, c := range map[string]struct{ configure, says string }{
		"out of memory":   {"oom_at=3", "out of memory"},
		"a kernel dies":   {"launch_fail=30", "cuda:0"},
		"lost on the way": {"lost=400", "cuda:0"},
	} {
		t.Run(name, func(t *testing.T) {
			sim.Configure(t, lib, c.configure)
			cards := Run(t.Context(), []Target{{Device: "cuda:0", Open: simulated(lib, 0)}, {Device: "host", Open: openHost}}, small())
			if cards[0].Err == nil || cards[1].Err != nil {
				t.Fatalf("errors %q and %q", cards[0].Error, cards[1].Error)
			}
			if !strings.Contains(cards[0].Error, c.says) && !errors.Is(cards[0].Err, gpuprof.ErrMemory) {
				t.Errorf("error %q does not say %q", cards[0].Error, c.says)
			}
			if _, ok := cards[1].Metric("sustained"); !ok {
				t.Error("the other device was not measured to the end")
			}
			if m := cards[0].Metrics; len(m) < len(health.Names())-1 {
				t.Errorf("%d figures are accounted for", len(m))
			}
		})
	}
	sim.Reset(t, lib)
}

func TestRunRefusals(t *testing.T) {
	broken := func() (device.Device, error) { return nil, gpuprof.Errorf(gpuprof.ErrDevice, "opening: no") }
	panics := func() (device.Device, error) { panic("oops") }
	cards := Run(t.Context(), []Target{{Device: "a", Open: broken}, {Device: "b", Open: panics}, {Device: "c", Open: openHost}}, small())
	if cards[0].Error != "opening: no" || !strings.Contains(cards[1].Error, "oops") || cards[2].Error != "" {
		t.Errorf("%q, %q, %q", cards[0].Error, cards[1].Error, cards[2].Error)
	}
	r, err := health.Judge(nil, cards, nil, gpuprof.Tool{})
	if err != nil || r.Verdict != health.Failed || r.ExitCode != 4 || !strings.Contains(r.Reason, "a and b") {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c := Run(ctx, []Target{{Device: "a", Open: openHost}}, small()); !errors.Is(c[0].Err, context.Canceled) {
		t.Errorf("cancelled: %v", c[0].Err)
	}
	// Cancelled under load it ends soon.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	o := small()
	o.Load = time.Hour
	o.Progress = func(_, phase string) {
		if phase == "load" {
			time.AfterFunc(20*time.Millisecond, cancel)
		}
	}
	if c := Run(ctx, []Target{{Device: "a", Open: openHost}}, o); !errors.Is(c[0].Err, context.Canceled) {
		t.Errorf("cancelled under load: %v", c[0].Err)
	}
}
