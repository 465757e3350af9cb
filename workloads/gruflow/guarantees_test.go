package gruflow

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// What a step asks of the device, to the last launch and byte.
func TestCountersAreExact(t *testing.T) {
	const flows, hidden, levels = 40, 16, 10
	x, record, metrics := int64(4*flows*65), int64(4*flows*outputs), int64(4*(metFixed+levels))
	tests := []struct {
		set                []string
		launches, d2h, d2d int64
		d2hBytes, syncs    int64
		allocations        int64
	}{
		// inject; two layers of two products and a cell; flow; two of sums.
		{nil, 1 + 2*3 + 1 + 2, 2, 0, record + metrics, 0, 0},
		{[]string{"impl=plain"}, 1 + 2*(2+10) + 2 + 2, 2, 0, record + metrics, 0, 0},
		{[]string{"precision=bf16"}, 1 + 2*5 + 1 + 2, 2, 0, record + metrics, 0, 0},
		{[]string{"steps=3"}, 1 + 2*(1+3*2) + 1 + 2, 2, 0, record + metrics, 0, 0},
		{[]string{"impl=plain", "steps=3"}, 1 + 2*(1+3*12) + 2 + 2, 2, 0, record + metrics, 0, 0},
		{[]string{"deterministic=off"}, 1 + 2*3 + 1 + 2, 2, 0, record + metrics, 0, 0},
		{[]string{"graph=on"}, 1 + 2*3 + 1 + 2, 2, 0, record + metrics, 0, 0},
		{[]string{"item_reads=5"}, 1 + 2*3 + 1 + 2, 1 + 5, 0, record + 5*4, 5, 0},
		{[]string{"sync=step"}, 1 + 2*3 + 1 + 2, 2, 0, record + metrics, 1, 0},
		{[]string{"reset_stats=on"}, 1 + 2*3 + 1 + 2, 2, 0, record + metrics, 0, 0},
		{[]string{"reset_stats=sync"}, 1 + 2*3 + 1 + 2, 2, 0, record + metrics, 1, 0},
		// Every block that is taken is filled: two a layer, one for the sums.
		{[]string{"fill=on"}, 1 + 2*3 + 1 + 2 + 2*2 + 1, 2, 0, record + metrics, 0, 0},
		// All of a small step's scratch memory is in one segment.
		{[]string{"pool_trim=every:1"}, 1 + 2*3 + 1 + 2, 2, 0, record + metrics, 0, 1},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.set, ","), func(t *testing.T) {
			s := openSession(t, "small", append(tt.set, "flows=40", "hidden=16", "depth=10")...)
			run(t, s, 2)
			steps := int64(1)
			for _, kv := range tt.set {
				if kv == "steps=3" {
					steps = 3
				}
			}
			for i := 2; i < 6; i++ {
				before := s.mem.Dev.Meter()
				if err := s.Step(i, loop.Silent{}); err != nil {
					t.Fatal(err)
				}
				m := s.mem.Dev.Meter().Sub(before)
				m.BlockedNS = 0
				want := device.Meter{
					Launches: tt.launches, CopiesH2D: 1, BytesH2D: steps * x, CopiesD2H: tt.d2h, BytesD2H: tt.d2hBytes,
					SyncPoints: tt.syncs, EventWaits: 1, Allocations: tt.allocations,
				}
				if strings.HasPrefix(strings.Join(tt.set, ""), "item_reads") {
					want.BytesD2HPageable = 5 * 4
				}
				if m != want {
					t.Fatalf("step %d: %+v, want %+v", i, m, want)
				}
				parts := int64(0)
				for _, st := range s.Stages() {
					parts += st.Cost().Launches
				}
				if parts != m.Launches {
					t.Fatalf("stages list %d launches, the device counted %d", parts, m.Launches)
				}
			}
		})
	}
}

// Work of one energyflow step from the problem's own sizes.
func TestMinimumWork(t *testing.T) {
	s := openSession(t, "energyflow", "flows=16", "hidden=32")
	var flops, bytes int64
	for _, st := range s.Stages() {
		if st.Name == "gru" {
			flops, bytes = st.Minimum.Flops, st.Minimum.Bytes()
		}
	}
	const b, i, h = 16, 65, 32
	products := int64(b * (6*h*(i+h) + 2*6*h*2*h))
	pointwise := int64(3 * b * (6*h + cellFlops*h))
	if flops != products+pointwise {
		t.Errorf("%d flops, want %d", flops, products+pointwise)
	}
	weights := int64(3*h*(i+h) + 2*3*h*2*h + 3*6*h)
	if want := 4 * (weights + b*i + 2*3*b*h); bytes != want {
		t.Errorf("%d bytes, want %d", bytes, want)
	}
}

// Item reads and a sync each step block the caller; a packed read does not.
func TestReadsBlock(t *testing.T) {
	blocked := func(set ...string) (syncs, ns int64) {
		s := openSession(t, "small", set...)
		run(t, s, 20)
		before := s.mem.Dev.Meter()
		for i := 20; i < 60; i++ {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
		}
		m := s.mem.Dev.Meter().Sub(before)
		return m.SyncPoints, m.BlockedNS
	}
	if n, _ := blocked(); n != 0 {
		t.Errorf("packed: %d synchronisations", n)
	}
	if n, ns := blocked("item_reads=16"); n != 40*16 || ns <= 0 {
		t.Errorf("item_reads=16: %d synchronisations, %d ns blocked", n, ns)
	}
	if n, ns := blocked("sync=every:4"); n != 10 || ns <= 0 {
		t.Errorf("sync=every:4: %d synchronisations, %d ns blocked", n, ns)
	}
}

func TestCycle(t *testing.T) {
	for kv, want := range map[string]int{
		"": 1, "sync=step": 1, "sync=every:6": 6, "pool_trim=every:4": 4, "sync=every:6,pool_trim=every:4": 12, "sync=every:3,pool_trim=every:1": 3,
	} {
		s := &session{}
		var set []string
		if kv != "" {
			set = strings.Split(kv, ",")
		}
		k := resolve(t, "small", set...).Knobs
		s.Every, s.Trims = k.Every("sync"), k.Every("pool_trim")
		if got := s.Cycle(); got != want {
			t.Errorf("%s: cycle %d, want %d", kv, got, want)
		}
	}
}

func TestNothingIsLeft(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	d, err := host.Open(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range [][]string{{}, {"impl=plain", "steps=2"}, {"pool_trim=every:2"}, {"graph=on"}, {"autotune=on"}} {
		s, err := open(context.Background(), d, resolve(t, "small", append(set, "flows=20")...))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if use := d.Memory().InUse; use != 0 {
			t.Errorf("%v: %d bytes are left", set, use)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	// A goroutine that was told to end takes until it is scheduled.
	for end := time.Now().Add(4 * time.Minute); runtime.NumGoroutine() > goroutines && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, there were %d", n, goroutines)
	}
}

func TestRounding(t *testing.T) {
	tests := []struct {
		p        precision
		in, want float64
	}{
		{tf32, 1 + 0x1p-10, 1 + 0x1p-10}, {tf32, 1 + 0x1p-11, 1}, {tf32, 1 + 3*0x1p-11, 1 + 0x1p-9}, {tf32, 1 + 0x1.8p-11, 1 + 0x1p-10},
		{bf16, 1 + 0x1p-7, 1 + 0x1p-7}, {bf16, 1 + 0x1p-8, 1}, {bf16, -1 - 3*0x1p-8, -1 - 0x1p-6}, {bf16, 3e38, 226 * 0x1p120},
		{fp16, 1 + 0x1p-10, 1 + 0x1p-10}, {fp16, 1 + 0x1p-11, 1}, {fp16, 65504, 65504}, {fp16, 65519, 65504}, {fp16, 65520, math.Inf(1)},
		{fp16, -70000, math.Inf(-1)}, {fp16, 0x1p-24, 0x1p-24}, {fp16, 0x1p-25, 0}, {fp16, 0x1.8p-25, 0x1p-24}, {fp16, -0x1.4p-15, -0x1.4p-15},
		{fp16, 1e-30, 0}, {tf32, math.Inf(1), math.Inf(1)}, {bf16, math.Inf(-1), math.Inf(-1)}, {fp32, 0.1, 0.1},
	}
	for _, tt := range tests {
		v := []float32{float32(tt.in), float32(math.NaN())}
		tt.p.round(v, v)
		if got := float64(v[0]); got != float64(float32(tt.want)) && math.Abs(got/tt.want-1) > 1e-4 {
			t.Errorf("precision %d: %v became %v, want %v", tt.p, tt.in, got, tt.want)
		}
		if v[1] == v[1] {
			t.Errorf("precision %d: not a number became %v", tt.p, v[1])
		}
	}
	// Half a unit in the last place is the most a value may move.
	rng := rand.New(rand.NewPCG(1, 1))
	for p, bits := range map[precision]float64{tf32: 11, bf16: 8, fp16: 11} {
		for range 2000 {
			x := float32(math.Exp(8*rng.Float64() - 4))
			v := []float32{x}
			p.round(v, v)
			if r := math.Abs(float64(v[0])/float64(x) - 1); r > math.Pow(2, -bits) {
				t.Fatalf("precision %d moved %v by %g", p, x, r)
			}
		}
	}
}

func TestAutotuneReports(t *testing.T) {
	for _, impl := range []string{implFused} {
		s := openSession(t, "small", "autotune=on", "impl="+impl)
		in := s.Input()
		if v, ok := in["autotune_s"].(float64); !ok || v <= 0 {
			t.Errorf("autotune_s is %v", in["autotune_s"])
		}
		if s.net.tile == 0 || in["autotune_tile"] != s.net.tile {
			t.Errorf("autotune_tile is %v", in["autotune_tile"])
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := open(ctx, openHost(t, host.Options{}), resolve(t, "small", "autotune=on")); err == nil {
		t.Error("a search that was interrupted went on")
	}
}
