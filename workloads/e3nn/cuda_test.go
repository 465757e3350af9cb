package e3nn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// simulated is the simulated GPU. Without libraries it hides its cuBLAS: a
// library that one test has loaded is found by all that follow. Its compiler is hidden
// too, but where a test is of what it makes: a kernel of a small model takes it seconds.
type simulated struct {
	*cuda.Device
	libraries, compiles bool
}

func (d simulated) Compiler() (string, error) {
	if !d.compiles {
		return "", gpuprof.Errorf(gpuprof.ErrDevice, "NVRTC is hidden from this test")
	}
	return d.Device.Compiler()
}

func (d simulated) Libraries() map[string]string {
	if !d.libraries {
		return nil
	}
	return d.Device.Libraries()
}

func (d simulated) Info() device.Info {
	i := d.Device.Info()
	if !d.libraries {
		delete(i.Facts, "cublas")
	}
	return i
}

// openSimulated opens the simulated driver, with its libraries if they are asked for.
func openSimulated(t *testing.T, libraries bool) simulated {
	t.Helper()
	return simulated{Device: workloadtest.Simulated(t, libraries, "cublas"), libraries: libraries}
}

// openOn opens a session in mode hot, whose one batch a simulator can afford.
func openOn(t *testing.T, d device.Device, preset string, set ...string) *session {
	t.Helper()
	c := resolve(t, preset, set...)
	c.Mode = gpuprof.Hot
	if err := New().Refuse(d.Info(), c.Knobs); err != nil {
		t.Fatal(err)
	}
	s, err := open(context.Background(), d, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tiny is a model whose every kernel has work.
var tiny = []string{"batch=4", "edges=40", "mul=3", "lmax=1"}

// Each implementation and habit on the CUDA device: checked kernel by kernel, run, compared
// with the host device, and nothing left. TestCUDAKnobs has every knob.
func TestCUDA(t *testing.T) {
	for libraries, sets := range map[bool][]string{
		false: {
			"impl=csr,layout=mul_ir", "impl=fused", "impl=unfused,deterministic=on", "graph=on,impl=csr,streams=1",
			"pinned=off,async_copy=off,streams=1,sync=step", "item_reads=2,sync=every:2", "reset_stats=sync,pool_trim=every:2",
		},
		true: {"impl=csr", "precision=tf32x3,impl=csr", "graph=on,precision=bf16", "autotune=on,impl=fused"},
	} {
		for _, set := range sets {
			onCUDA(t, libraries, set)
		}
	}
}

// onCUDA checks a setting of the tiny model on the CUDA device, runs it and compares it with the host.
func onCUDA(t *testing.T, libraries bool, set string) {
	t.Run(fmt.Sprintf("libraries=%t,%s", libraries, set), func(t *testing.T) {
		settings := append(slices.Clone(tiny), strings.Split(set, ",")...)
		s := openOn(t, openSimulated(t, libraries), "small", settings...)
		passes(t, s)
		compareWithHost(t, s, settings)
		closed(t, s)
	})
}

func passes(t *testing.T, s *session) {
	t.Helper()
	checks, err := s.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range s.Stages() {
		if st.Kind != gpuprof.WaitStage && !slices.ContainsFunc(checks, func(c gpuprof.Check) bool { return c.Stage == st.Name }) {
			t.Errorf("stage %s was not checked", st.Name)
		}
	}
	for _, c := range checks {
		if !c.Pass {
			t.Errorf("%s: relative error %.3g over %.3g", c.Stage, float64(c.RelativeError), c.Tolerance)
		}
	}
}

func closed(t *testing.T, s *session) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if use := s.dev.Memory().InUse; use != 0 {
		t.Errorf("%d bytes are left", use)
	}
}

// compareWithHost runs four steps here and on the host device, without the
// knobs that it refuses.
func compareWithHost(t *testing.T, s *session, settings []string) {
	t.Helper()
	run(t, s, 4)
	var shared []string
	for _, kv := range settings {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.Contains([]string{"pool_trim", "reset_stats", "autotune"}, name) {
			shared = append(shared, kv)
		}
	}
	host := openOn(t, openHost(t, 0), "small", shared...)
	defer host.Close()
	run(t, host, 4)
	var e op.ErrorNorm
	for k := range depth {
		e.Add(device.Floats(s.slots[k].out), op.As[float64](device.Floats(host.slots[k].out)))
	}
	if r := e.Relative(); !(r <= tolerances[s.k.Precision]) || e.Ref == 0 {
		t.Errorf("after four steps the result is %.3g from the host's", r)
	}
}

// Batches of different sizes take turns in both slots; with graphs each has
// its own.
func TestCUDABatchesTakeTurns(t *testing.T) {
	d := openSimulated(t, true)
	outputs := func(set ...string) (out [][]float32) {
		s := openRotating(t, d, 3, append(set, "batch=3", "mul=2", "lmax=1")...)
		for i := range 7 {
			if err := s.Step(i, loop.Silent{}); err != nil {
				t.Fatal(err)
			}
			if err := s.Compute.Sync(); err != nil {
				t.Fatal(err)
			}
			out = append(out, slices.Clone(device.Floats(s.slots[i%depth].out)))
		}
		passes(t, s)
		closed(t, s)
		return out
	}
	want := outputs()
	got := outputs("graph=on")
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("step %d differs with graphs", i)
		}
	}
	// Counted since the device was opened: seven steps and the check of both slots.
	if n := sim.GetReport(t, sim.Library(t)).GraphLaunches; n != 7+depth {
		t.Errorf("%d graphs were launched", n)
	}
}

func TestCUDACountersAreExact(t *testing.T) {
	d := openSimulated(t, false)
	plain := openOn(t, d, "small", tiny...)
	defer plain.Close()
	for _, tt := range counted {
		with := openOn(t, d, "small", append(strings.Split(tt.set, ","), tiny...)...)
		compareCounters(t, tt.set, plain, with, tt.want) // on this goroutine, which has the device
		if err := with.Close(); err != nil {
			t.Error(err)
		}
	}
}

// csr gives the same bits a hundred times, whatever order threads run in.
func TestCUDABitIdentical(t *testing.T) {
	for _, set := range []string{"impl=csr", "impl=unfused,deterministic=on"} {
		t.Run(set, func(t *testing.T) {
			d := openSimulated(t, false)
			s := openOn(t, d, "small", append(strings.Split(set, ","), "batch=3", "edges=20", "mul=2", "lmax=1")...)
			defer s.Close()
			var first [depth][]float32
			for i := range 100 {
				sim.Set(t, sim.Library(t), fmt.Sprintf("order=shuffle:%d", i+1))
				if err := s.Step(i, loop.Silent{}); err != nil {
					t.Fatal(err)
				}
				if err := s.Compute.Sync(); err != nil {
					t.Fatal(err)
				}
				out := device.Floats(s.slots[i%depth].out)
				if i < depth {
					first[i] = slices.Clone(out)
				}
				if !slices.Equal(out, first[i%depth]) || out[0] != out[0] {
					t.Fatalf("run %d differs", i)
				}
			}
		})
	}
}

// Wherever memory runs out at set-up, the error says so and nothing is left.
func TestCUDAOutOfMemory(t *testing.T) {
	d := openSimulated(t, false)
	// A search allocates for every candidate: not each of its hundreds is tried.
	for set, stride := range map[string]int{"impl=csr,graph=on,pinned=off": 3, "impl=unfused": 5, "autotune=on": 29} {
		c := resolve(t, "small", append(strings.Split(set, ","), "batch=2", "edges=4", "mul=1", "lmax=1")...)
		c.Mode = gpuprof.Hot
		failed := 0
		for n := 1; ; n += stride {
			sim.Set(t, sim.Library(t), fmt.Sprintf("oom_at=%d", n))
			s, err := open(context.Background(), d, c)
			if err == nil {
				closed(t, s)
				break
			}
			failed++
			if !errors.Is(err, gpuprof.ErrMemory) {
				t.Fatalf("%s, allocation %d: %v", set, n, err)
			}
			if use := d.Memory().InUse; use != 0 {
				t.Fatalf("%s, allocation %d: %d bytes are left", set, n, use)
			}
		}
		sim.Set(t, sim.Library(t), "oom_at=0")
		if failed < 8 {
			t.Errorf("%s: only %d allocations failed", set, failed)
		}
	}
}

// A kernel that dies ends the steps, and every check from then on.
func TestCUDAKernelDies(t *testing.T) {
	for set, fault := range map[string]string{"graph=off": "launch_fail=3", "async_copy=off": "launch_fail=9", "item_reads=1": "launch_fail=1"} {
		t.Run(set, func(t *testing.T) {
			s := openOn(t, openSimulated(t, false), "small", append(slices.Clone(tiny), set)...)
			sim.Set(t, sim.Library(t), fault)
			if err := fourSteps(s); !errors.Is(err, gpuprof.ErrDevice) {
				t.Errorf("the steps ended with %v", err)
			}
			if _, err := s.Check(context.Background()); !errors.Is(err, gpuprof.ErrDevice) {
				t.Errorf("the check ended with %v", err)
			}
			_ = s.Close() // on a lost device every call says so again
		})
	}
}

// A graph that the driver refuses is reported; what there is can be closed.
func TestCUDAGraphIsRefused(t *testing.T) {
	s := openOn(t, openSimulated(t, false), "small", append(slices.Clone(tiny), "graph=on")...)
	sim.Set(t, sim.Library(t), "fail=cuGraphLaunch@3:1")
	if err := fourSteps(s); !errors.Is(err, gpuprof.ErrDevice) || !strings.Contains(err.Error(), "graph") {
		t.Errorf("the steps ended with %v", err)
	}
	closed(t, s)
}

func fourSteps(s *session) error {
	for i := range 4 {
		if err := s.Step(i, loop.Silent{}); err != nil {
			return err
		}
	}
	return s.Compute.Sync()
}

// What multiplies is named; the search for launch shapes says what it tried.
func TestCUDANamesItsProducts(t *testing.T) {
	for _, tt := range []struct {
		libraries bool
		set       string
		products  string
	}{
		{true, "library=auto", "cuBLAS "}, {true, "library=on", "cuBLAS "}, {true, "library=off", "own kernels"}, {true, "precision=bf16", "cuBLAS "},
		{false, "library=auto", "own kernels"}, {false, "precision=bf16", "own kernels"},
	} {
		t.Run(fmt.Sprintf("libraries=%t,%s", tt.libraries, tt.set), func(t *testing.T) {
			s := openOn(t, openSimulated(t, tt.libraries), "small", append(slices.Clone(tiny), tt.set)...)
			if in := s.Input(); !strings.HasPrefix(in["products"].(string), tt.products) {
				t.Errorf("products is %v", in["products"])
			}
			closed(t, s)
		})
	}
}

func TestCUDAAutotune(t *testing.T) {
	d := openSimulated(t, true)
	tried := map[string]int{}
	for _, set := range []string{"impl=fused", "impl=csr", "impl=csr,deterministic=on"} {
		s := openOn(t, d, "small", append(strings.Split(set, ","), "autotune=on", "batch=2", "edges=8", "mul=2", "lmax=1")...)
		in := s.Input()
		tried[set] = in["autotune_tried"].(int)
		if c := in["autotune_chosen"].([]string); len(c) != 1 || !strings.Contains(c[0], "threads=") || in["autotune_s"].(float64) <= 0 {
			t.Errorf("%s: chosen %v in %v s", set, c, in["autotune_s"])
		}
		passes(t, s)
		closed(t, s)
	}
	// cuBLAS and three tiles of our own, five block sizes; with segments 32 to 512
	// five times as many. deterministic=on keeps cuBLAS.
	if tried["impl=fused"] != 4+5 || tried["impl=csr"] != 4+25 || tried["impl=csr,deterministic=on"] != 5 {
		t.Errorf("tried %v", tried)
	}
}

// With deterministic=on the search chooses between shapes that give the same
// bits.
func TestCUDAAutotuneKeepsBits(t *testing.T) {
	d := openSimulated(t, false)
	for _, impl := range []string{"csr"} {
		s := openOn(t, d, "small", "impl="+impl, "autotune=on", "deterministic=on", "batch=3", "edges=30", "mul=5", "lmax=2")
		run(t, s, 1)
		var first []float32
		shapes := s.candidates(0)
		for _, shape := range shapes {
			s.products[0] = shape
			b, _, err := s.bindProduct(0)
			if err != nil {
				t.Fatal(err)
			}
			if err := op.Poison(s.dev, s.Compute, s.work[0].mid); err != nil {
				t.Fatal(err)
			}
			b.SetEdges(s.in.edges[0])
			if err := b.Enqueue(s.Compute); err != nil {
				t.Fatal(err)
			}
			got := read(t, s, s.work[0].mid, s.work[0].mid.Len()/4)
			if first == nil {
				first = got
			}
			if !slices.Equal(got, first) || got[0] != got[0] {
				t.Errorf("%s: threads=%d segment=%d gives other bits", impl, shape.Threads, shape.Segment)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if len(shapes) < 3 {
			t.Errorf("%s: %d shapes", impl, len(shapes))
		}
		if ways := s.mlpCandidates(0); len(ways) < 2 { // its tiles, which give the same bits
			t.Errorf("%s: %d ways of the radial MLP", impl, len(ways))
		}
		closed(t, s)
	}
}

// The pool is trimmed every K steps and its peak starts anew.
func TestCUDAPool(t *testing.T) {
	d := openSimulated(t, false)
	s := openOn(t, d, "small", append(slices.Clone(tiny), "pool_trim=every:2", "reset_stats=on")...)
	defer s.Close()
	spare, err := d.Alloc(64<<20, device.OnDevice) // what a program has freed since
	if err != nil {
		t.Fatal(err)
	}
	if err := spare.Free(); err != nil {
		t.Fatal(err)
	}
	before := d.Reserved()
	if d.Memory().Peak < 64<<20 {
		t.Fatalf("peak %d before the step", d.Memory().Peak)
	}
	if err := s.Step(0, loop.Silent{}); err != nil {
		t.Fatal(err)
	}
	if m := d.Memory(); m.Peak != m.InUse {
		t.Errorf("peak %d after its reset, %d in use", m.Peak, m.InUse)
	}
	if d.Reserved() != before {
		t.Error("the pool was trimmed too early")
	}
	if err := s.Step(1, loop.Silent{}); err != nil {
		t.Fatal(err)
	}
	if after := d.Reserved(); after > before-64<<20 {
		t.Errorf("trimming left %d of %d bytes reserved", after, before)
	}
}

func TestCUDAVectors(t *testing.T) {
	file, err := os.ReadFile("../../testdata/e3nn/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	res, err := Workload{}.CheckVectors(context.Background(), openSimulated(t, false), file, "vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(res) < 80 {
		t.Errorf("%d results", len(res))
	}
	for _, r := range res {
		if !r.Pass {
			t.Errorf("case %d %s %s: relative error %.3g over %.3g", r.Index, r.Kind, r.Precision, float64(r.RelativeError), r.Tolerance)
		}
	}
}
