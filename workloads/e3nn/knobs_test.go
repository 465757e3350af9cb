package e3nn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// run takes n steps.
func run(t *testing.T, s *session, n int) {
	t.Helper()
	for i := range n {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compute.Sync(); err != nil {
		t.Fatal(err)
	}
}

// read copies n elements of a device buffer.
func read(t *testing.T, s *session, b device.Buffer, n int) []float32 {
	t.Helper()
	v, err := s.mem.Receive(s.Compute, b, 0, n)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What a setting cannot mean is refused by its name before anything is opened.
func TestRefusals(t *testing.T) {
	host := device.Info{Kind: "host", Name: "a CPU", MaxThreads: 8}
	gpu := func(arch string, facts ...string) device.Info {
		i := device.Info{Kind: "cuda", Name: "a GPU", Arch: arch, Facts: map[string]string{"pool": "on"}}
		for k := 0; k < len(facts); k += 2 {
			i.Facts[facts[k]] = facts[k+1]
		}
		return i
	}
	hopper, blas := gpu("sm_90"), gpu("sm_90", "cublas", "12.4")
	tests := []struct {
		on   device.Info
		set  string
		want string // "" is taken
	}{
		{host, "pool_trim=every:1", "pool_trim=every:1 on device a CPU"}, {hopper, "pool_trim=every:1", ""},
		{gpu("sm_90", "pool", "off"), "pool_trim=every:3", "pool_trim=every:3"},
		{host, "reset_stats=on", "reset_stats=on on device a CPU"}, {host, "reset_stats=sync", "reset_stats=sync"}, {hopper, "reset_stats=sync", ""},
		{host, "library=on", "library=on on device a CPU"}, {hopper, "library=on", "cuBLAS was not found"}, {blas, "library=on", ""},
		{blas, "library=off,precision=bf16", "library=off with precision=bf16"}, {hopper, "library=off,precision=bf16", ""}, {host, "library=off,precision=fp16", ""},
		{gpu("sm_75"), "precision=tf32", "precision=tf32 on device a GPU (sm_75)"}, {gpu("sm_75"), "precision=bf16", "sm_80"}, {gpu("sm_75"), "precision=fp16", ""},
		{gpu("sm_75"), "precision=tf32x3", "sm_80"}, {host, "precision=tf32", ""}, {hopper, "precision=tf32", ""},
		{blas, "precision=tf32x3,library=off", "library=off with precision=tf32x3"},
		{host, "impl=unfused,autotune=on", "autotune=on with impl=unfused"}, {host, "autotune=on", ""},
		{host, "impl=fused,autotune=on", "autotune=on with impl=fused on device a CPU"}, {hopper, "impl=fused,autotune=on", ""},
		{host, "deterministic=on,autotune=on", "autotune=on with deterministic=on"}, {hopper, "deterministic=on,autotune=on", ""},
		{hopper, "threads=2", "threads=2 on device a GPU"}, {host, "threads=9", "at most 8"}, {host, "threads=8", ""},
		{hopper, "impl=fused,deterministic=on", "deterministic=on with impl=fused"},
		{host, "recompute=all", "recompute=all with pass=forward"}, {host, "pass=forces,recompute=all", ""},
		{host, "pass=forces,optimizer=loop", "optimizer=loop with pass=forces"}, {hopper, "pass=train,optimizer=loop", ""},
		{hopper, "streams=3", ""}, {host, "streams=3,pass=forces", "streams=3 with pass=forces"},
		{host, "graph=on,pinned=off,async_copy=off,streams=1", ""}, {hopper, "graph=on,pinned=off,async_copy=off,streams=1", ""},
	}
	for _, tt := range tests {
		err := New().Refuse(tt.on, resolve(t, "small", strings.Split(tt.set, ",")...).Knobs)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s on %s: %v", tt.set, tt.on.Arch, err)
		case tt.want != "" && (!errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s on %s %s: %v, want a refusal with %q", tt.set, tt.on.Kind, tt.on.Arch, err, tt.want)
		}
	}
}

// A device may lack what its facts promised.
func TestPoolIsLookedFor(t *testing.T) {
	for _, set := range []string{"pool_trim=every:2", "reset_stats=on"} {
		_, err := New().Open(context.Background(), openHost(t, 0), resolve(t, "small", set, "batch=4"))
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), set) {
			t.Errorf("%s: %v", set, err)
		}
	}
}

func TestSpellings(t *testing.T) {
	for kv, want := range map[string]string{
		"item_reads=0": "packed", "item_reads=packed": "packed", "item_reads=07": "7", "pool_trim=every:1": "every:1", "pool_trim=4": "every:4", "sync=1": "step", "sync=3": "every:3",
	} {
		name, _, _ := strings.Cut(kv, "=")
		if got := resolve(t, "small", kv).Knobs[name]; got != want {
			t.Errorf("%s became %s, want %s", kv, got, want)
		}
	}
}

func TestCycle(t *testing.T) {
	for kv, want := range map[string]int{
		"sync=never": 1, "sync=step": 1, "sync=every:6": 6, "pool_trim=every:4": 4, "sync=every:6,pool_trim=every:4": 12,
	} {
		k := resolve(t, "small", strings.Split(kv, ",")...).Knobs
		s := &session{Pace: workloads.Read[loop.Pace](k)}
		if got := s.Cycle(); got != want {
			t.Errorf("%s: cycle %d, want %d", kv, got, want)
		}
	}
}

// What the knobs add to a step's counters, over a step without them.
var counted = []struct {
	set  string
	want device.Meter
	host bool // on the host device too
}{
	{"graph=on", device.Meter{}, true},
	{"streams=1", device.Meter{}, true},
	{"streams=3", device.Meter{}, true},                                            // streams wait for each other, the caller does not
	{"pinned=off", device.Meter{BytesH2DPageable: -1, BytesD2HPageable: -1}, true}, // all of them
	{"async_copy=off", device.Meter{SyncPoints: 2}, true},
	{"async_copy=off,streams=1,graph=on", device.Meter{SyncPoints: 2}, true},
	{"sync=step", device.Meter{SyncPoints: 1}, true},
	{"item_reads=5", device.Meter{SyncPoints: 5, CopiesD2H: 5, BytesD2H: 20, BytesD2HPageable: 20}, true},
	{"deterministic=on", device.Meter{}, true},
	{"precision=tf32", device.Meter{}, true},
	{"precision=bf16", device.Meter{Launches: 1}, true}, // the second layer's weights are packed
	{"precision=fp16", device.Meter{Launches: 1}, true},
	{"precision=tf32x3", device.Meter{Launches: 1}, true},
	{"reset_stats=on", device.Meter{}, false},
	{"reset_stats=sync", device.Meter{SyncPoints: 1}, false},
	{"pool_trim=every:1", device.Meter{}, false},
}

// step is what one warm step counts, and what its stages list.
func step(t *testing.T, s *session) (m device.Meter, launches int64) {
	t.Helper()
	run(t, s, 2)
	before := s.dev.Meter()
	if err := s.Step(2, loop.Silent{}); err != nil {
		t.Fatal(err)
	}
	m = s.dev.Meter().Sub(before)
	m.BlockedNS = 0
	for _, st := range s.Stages() {
		launches += st.Cost().Launches
	}
	return m, launches
}

// compareCounters checks one of counted against a step without it.
func compareCounters(t *testing.T, what string, plain, with *session, want device.Meter) {
	t.Helper()
	base, _ := step(t, plain)
	got, listed := step(t, with)
	if got.Launches != listed {
		t.Errorf("%s: stages list %d launches, the device counted %d", what, listed, got.Launches)
	}
	if want.BytesH2DPageable < 0 {
		want.BytesH2DPageable, want.BytesD2HPageable = base.BytesH2D, base.BytesD2H
	}
	if diff := got.Sub(base); diff != want {
		t.Errorf("%s adds %+v, want %+v", what, diff, want)
	}
}

func TestCountersAreExact(t *testing.T) {
	const edges, rows = 50, 6
	plain := openSession(t, "small", "batch=6", "edges=50")
	m, listed := step(t, plain)
	want := device.Meter{
		// the MLP's layers, harmonics, tensor product and its fix-up, linear, gate
		Launches: 7, CopiesH2D: 4, BytesH2D: 4 * (5*edges + rows + 1), CopiesD2H: 1, BytesD2H: 4 * rows * int64(plain.lastLayer().Out.Dim()), EventWaits: 1,
	}
	if m != want || listed != m.Launches {
		t.Errorf("%+v, want %+v (%d launches listed)", m, want, listed)
	}
	for _, tt := range counted {
		if tt.host {
			compareCounters(t, tt.set, plain, openSession(t, "small", append(strings.Split(tt.set, ","), "batch=6", "edges=50")...), tt.want)
		}
	}
	// The radial functions are kept, and the hidden layer apart from its activation; readout, sum, the readout's, gate's and linear layer's way
	// back with its turned weights, the product's, the MLP's with turned weights, activation and two products, basis,
	// harmonics, forces.
	forces := openSession(t, "small", "batch=6", "edges=50", "pass=forces")
	const atoms = 12
	index, back := int64(4*(edges+atoms+2)), 4*(3*(atoms+rows)+1)-want.BytesD2H
	compareCounters(t, "forces", plain, forces, device.Meter{Launches: 2 + 2 + 4 + 1 + 5 + 3, CopiesH2D: 2, BytesH2D: index, CopiesD2H: 1, BytesD2H: back})
	compareCounters(t, "recompute=weights", forces, openSession(t, "small", "batch=6", "edges=50", "pass=forces", "recompute=weights"), device.Meter{Launches: 1})
	// Three launches of the MLP, the product and its fix-up, the linear layer.
	compareCounters(t, "recompute=all", forces, openSession(t, "small", "batch=6", "edges=50", "pass=forces", "recompute=all"), device.Meter{Launches: 6})
}

// One span more than MaxSpans would be lost.
type spanCounter struct{ opened map[int]int }

func (c spanCounter) Start(int) error { clear(c.opened); return nil }
func (c spanCounter) Begin(stage int, _ device.Stream) int {
	c.opened[stage]++
	return 0
}
func (spanCounter) End(int) {}

func TestSpansFit(t *testing.T) {
	for _, set := range []string{"graph=on", "async_copy=off,item_reads=3,sync=step", "impl=unfused", "graph=on,async_copy=off,sync=step",
		"pass=forces,recompute=all", "pass=forces,graph=on", "pass=train"} {
		s := openSession(t, "small", append(strings.Split(set, ","), "batch=6")...)
		c := spanCounter{map[int]int{}}
		for i := range 4 {
			if err := s.Step(i, c); err != nil {
				t.Fatal(err)
			}
		}
		for stage, n := range c.opened {
			if st := s.Stages()[stage]; n > st.MaxSpans || st.Kind == gpuprof.DeviceStage && n != st.MaxSpans {
				t.Errorf("%s: %d spans of %s, MaxSpans is %d", set, n, st.Name, st.MaxSpans)
			}
		}
		for stage, st := range s.Stages() {
			if c.opened[stage] == 0 && st.Kind != gpuprof.WaitStage {
				t.Errorf("%s: stage %s was never entered", set, st.Name)
			}
		}
	}
}

// sizedCache is a device with a cache of its own size.
type sizedCache struct {
	device.Device
	bytes int64
}

func (d sizedCache) Info() device.Info {
	i := d.Device.Info()
	i.CacheBytes = d.bytes
	return i
}

// openRotating opens a session that rotates through n batches.
func openRotating(t *testing.T, d device.Device, n int, set ...string) *session {
	t.Helper()
	c := resolve(t, "small", set...)
	one, err := open(context.Background(), sizedCache{d, 1}, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	cache := int64(1)
	for one.batchRotation(cache) < n {
		cache += 512
	}
	s, err := open(context.Background(), sizedCache{d, cache}, c)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.in.batches) != n {
		t.Fatalf("%d batches, want %d", len(s.in.batches), n)
	}
	return s
}

// A graph is made for every slot and number of edges, and replays what the
// launches do, bit for bit.
func TestGraphsFollowTheBatches(t *testing.T) {
	outputs := func(set ...string) (out [][]float32, s *session) {
		s = openRotating(t, openHost(t, 0), 5, append(set, "batch=40")...)
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		for i := range 11 {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
			if err := s.Compute.Sync(); err != nil {
				t.Fatal(err)
			}
			out = append(out, slices.Clone(device.Floats(s.slots[i%depth].out)))
		}
		return out, s
	}
	want, s := outputs()
	got, g := outputs("graph=on")
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("step %d differs", i)
		}
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(s.in.edges)))
	if len(distinct) < 2 {
		t.Fatalf("the batches have %v edges; the test needs different ones", s.in.edges)
	}
	if in := g.Input(); in["graphs"] != depth*len(distinct) || in["graph_setup_s"].(float64) <= 0 {
		t.Errorf("%v graphs in %v s for edges %v", in["graphs"], in["graph_setup_s"], s.in.edges)
	}
}

func TestAutotuneReports(t *testing.T) {
	s := openSession(t, "small", "autotune=on", "batch=64")
	in := s.Input()
	if v, ok := in["autotune_s"].(float64); !ok || v <= 0 {
		t.Errorf("autotune_s is %v", in["autotune_s"])
	}
	if in["autotune_tried"] != 5 { // segments of 32 to 512 edges
		t.Errorf("autotune_tried is %v", in["autotune_tried"])
	}
	if c, ok := in["autotune_chosen"].([]string); !ok || len(c) != 1 || !strings.Contains(c[0], "segment=") {
		t.Errorf("autotune_chosen is %v", in["autotune_chosen"])
	}
	if in["products"] != "own kernels" {
		t.Errorf("products is %v", in["products"])
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := resolve(t, "small", "autotune=on", "batch=4")
	c.Mode = gpuprof.Hot
	d := openHost(t, 0)
	if _, err := open(ctx, d, c); err == nil {
		t.Error("a search that was interrupted went on")
	}
	if use := d.Memory().InUse; use != 0 {
		t.Errorf("%d bytes are left", use)
	}
}

// A session takes the memory that it announced, for every way to compute.
func TestNeedIsEnough(t *testing.T) {
	for _, set := range []string{"impl=csr", "impl=fused", "impl=unfused", "precision=bf16", "autotune=on", "layout=mul_ir", "precision=tf32x3",
		"pass=forces", "pass=forces,layout=mul_ir", "pass=forces,impl=unfused,recompute=all", "pass=forces,precision=fp16,recompute=weights",
		"pass=train", "pass=train,optimizer=loop,layout=mul_ir", "pass=train,recompute=all"} {
		s := openSession(t, "small", append(strings.Split(set, ","), "batch=50")...)
		need, err := s.countMemory(t.Context(), int64(s.edges))
		if use := inUse(s); err != nil || need < use || need > use+use/8 {
			t.Errorf("%s: %d bytes are in use, %d were foreseen, %v", set, use, need, err)
		}
	}
}

// inUse returns the bytes of a session on the host, device memory and host memory.
func inUse(s *session) int64 {
	return s.dev.Memory().InUse + s.dev.(interface{ HostMemory() device.Memory }).HostMemory().InUse
}

func noAllocations(t *testing.T, s *session) {
	t.Helper()
	run(t, s, 4)
	before := s.dev.Meter().Allocations
	i := 4
	if n := testing.AllocsPerRun(10, func() {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
		i++
	}); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
	if n := s.dev.Meter().Allocations - before; n != 0 {
		t.Errorf("%d device allocations", n)
	}
	if err := s.Compute.Sync(); err != nil {
		t.Fatal(err)
	}
}

func TestSettingsAreKnobs(t *testing.T) {
	workloadtest.ReadsKnobs[struct {
		settings
		loop.Pace
	}](t, Workload{})
}
