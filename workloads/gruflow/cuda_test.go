package gruflow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// openSimulated opens the simulated driver, with its libraries if they are asked for.
func openSimulated(t *testing.T, libraries bool) *cuda.Device {
	t.Helper()
	return workloadtest.Simulated(t, libraries, "cublas", "cudnn")
}

func openOn(t *testing.T, d device.Device, preset string, set ...string) *session {
	t.Helper()
	c := resolve(t, preset, set...)
	c.Mode = gpuprof.Hot // few batches: the simulator's cache is none
	if err := New().Refuse(d.Info(), c.Knobs); err != nil {
		t.Fatal(err)
	}
	s, err := open(context.Background(), d, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each implementation and habit on the CUDA device; TestCUDASettings has every variant of a step.
func TestCUDA(t *testing.T) {
	onCUDA(t, "", "steps=3,precision=fp16", "graph=on", "fill=on,pool_trim=every:1,reset_stats=sync,item_reads=2", "autotune=on", "impl=plain,graph=on")
}

// onCUDA looks at settings with and without the vendor's libraries: checked kernel by kernel, then
// run, compared with the host device, and closed without a trace.
func onCUDA(t *testing.T, sets ...string) {
	t.Helper()
	for _, libraries := range []bool{false, true} {
		for _, set := range sets {
			t.Run(fmt.Sprintf("libraries=%t,%s", libraries, set), func(t *testing.T) {
				settings := []string{"flows=70", "hidden=24", "input=9", "depth=5", "layers=2"}
				if set != "" {
					settings = append(settings, strings.Split(set, ",")...)
				}
				s := openOn(t, openSimulated(t, libraries), "small", settings...)
				workloadtest.Passes(t, s)
				compareWithHost(t, s, settings)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if use := s.mem.Dev.Memory().InUse; use != 0 {
					t.Errorf("%d bytes are left", use)
				}
			})
		}
	}
}

// The library's cell is compared too: with another weight in the reference it
// must fail, whichever way its layers are compared.
func TestCUDACheckCatches(t *testing.T) {
	for _, set := range []string{"steps=1", "steps=3", "steps=3,layers=1", "steps=2,precision=bf16"} {
		t.Run(set, func(t *testing.T) {
			s := openOn(t, openSimulated(t, true), "small", append(strings.Split(set, ","), "flows=8", "hidden=8", "input=3")...)
			if s.net.lib == nil {
				t.Fatal("this is not the library's cell")
			}
			for i := range s.params.layers[0].wh[:8] { // a unit's reset gate; bf16 hides less than that
				s.params.layers[0].wh[i] += 20
			}
			checks, err := s.Check(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(checks, func(c gpuprof.Check) bool { return c.Stage == "gru" })
			if i < 0 || checks[i].Pass {
				t.Errorf("the check passed: %+v", checks)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// compareWithHost runs six steps here and on the host device.
func compareWithHost(t *testing.T, s *session, settings []string) {
	t.Helper()
	run(t, s, 6)
	host := openSession(t, "small", append(slices.Clone(settings), "impl=fused")...)
	host.batches = s.batches
	run(t, host, 6)
	var e op.ErrorNorm
	e.Add(device.Floats(s.slots[1].out), op.As[float64](device.Floats(host.slots[1].out)))
	e.Add(contents(t, s, s.flow.metrics), op.As[float64](contents(t, host, host.flow.metrics)))
	e.Add(contents(t, s, s.slots[1].net.h), op.As[float64](contents(t, host, host.net.h)))
	if r := e.Relative(); !(r <= 4*s.prec.tolerance()) {
		t.Errorf("after six steps the result is %.3g from the host's", r)
	}
}

// What computes is named, and a library that is not there is refused by name.
func TestCUDANamesItsLibraries(t *testing.T) {
	for _, tt := range []struct {
		libraries bool
		set       string
		impl      string
		products  string
	}{
		{true, "impl=auto", implCuDNN, "cuDNN "}, {true, "impl=fused", implFused, "cuBLAS "}, {true, "library=off", implFused, "own kernels"},
		{false, "impl=auto", implFused, "own kernels"},
	} {
		t.Run(fmt.Sprintf("libraries=%t,%s", tt.libraries, tt.set), func(t *testing.T) {
			s := openOn(t, openSimulated(t, tt.libraries), "small", "flows=8", "hidden=8", tt.set)
			in := s.Input()
			if in["impl"] != tt.impl || !strings.HasPrefix(in["products"].(string), tt.products) {
				t.Errorf("impl %v, products %v", in["impl"], in["products"])
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	d := openSimulated(t, false)
	for _, set := range []string{"impl=cudnn", "library=on"} {
		if err := New().Refuse(d.Info(), resolve(t, "small", set).Knobs); err == nil || !strings.Contains(err.Error(), set) {
			t.Errorf("%s without the libraries: %v", set, err)
		}
	}
}

// plainDevice hides the further interfaces of a device, so that only device.Device remains.
type plainDevice struct{ device.Device }

// A device that has the library but does not hand out its GRU gets our own
// cell where the choice is free, and a refusal where it is not.
func TestCUDAWithoutMaker(t *testing.T) {
	d := plainDevice{openSimulated(t, true)}
	s := openOn(t, d, "small", "flows=8", "hidden=8")
	if in := s.Input(); in["impl"] != implFused || !strings.HasPrefix(in["products"].(string), "cuBLAS") {
		t.Errorf("impl %v, products %v", in["impl"], in["products"])
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	_, err := open(context.Background(), d, resolve(t, "small", "impl=cudnn"))
	if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "impl=cudnn") {
		t.Errorf("impl=cudnn: %v", err)
	}
}

// The device's own pool is trimmed and its peak reset where it has one.
func TestCUDAPool(t *testing.T) {
	s := openOn(t, openSimulated(t, false), "small", "flows=8", "hidden=8", "reset_stats=on", "pool_trim=every:2")
	if s.devPool == nil {
		t.Fatal("the device's pool was not found")
	}
	pool, ok := s.mem.Dev.(device.Pool)
	if !ok {
		t.Fatal("the device has no pool")
	}
	run(t, s, 1)
	before := pool.Reserved()
	if err := s.Step(1, loop.Silent{}); err != nil {
		t.Fatal(err)
	}
	if after := pool.Reserved(); after >= before {
		t.Errorf("trimming left %d of %d bytes reserved", after, before)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestCUDAVectors(t *testing.T) {
	file, err := os.ReadFile("../../testdata/gruflow/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, libraries := range []bool{false, true} {
		t.Run(fmt.Sprintf("libraries=%t", libraries), func(t *testing.T) {
			d := openSimulated(t, libraries)
			res, err := Workload{}.CheckVectors(context.Background(), d, file, "vectors.json")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range res {
				if !r.Pass {
					t.Errorf("case %d %s: relative error %.3g over %.3g", r.Index, r.Precision, float64(r.RelativeError), r.Tolerance)
				}
			}
		})
	}
}
