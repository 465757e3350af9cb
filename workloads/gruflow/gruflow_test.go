package gruflow

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

func openHost(t testing.TB, o host.Options) *host.Device {
	t.Helper()
	return workloadtest.Host(t, o)
}

// resolve makes a config from "knob=value" strings.
func resolve(t testing.TB, preset string, set ...string) workloads.Config {
	t.Helper()
	return workloadtest.Config(t, New(), preset, set...)
}

func openSession(t testing.TB, preset string, set ...string) *session {
	t.Helper()
	s, err := open(context.Background(), workloadtest.SmallCache{Device: openHost(t, host.Options{})}, resolve(t, preset, set...))
	if err != nil {
		t.Fatal(err)
	}
	return workloadtest.Closing(t, s)
}

// run takes steps 0 to n-1 and waits.
func run(t testing.TB, s *session, n int) {
	t.Helper()
	for i := range n {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.stream.Sync(); err != nil {
		t.Fatal(err)
	}
}

func contents(t testing.TB, s *session, b device.Buffer) []float32 {
	t.Helper()
	v, err := op.Receive(s.mem.Dev, s.stream, b, 0, b.Len()/4)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// With b_hn outside the reset gate's product the answer would be -0.047891924.
func TestKnownAnswer(t *testing.T) {
	const want = -0.062228456
	l := Layer{WeightIH: []float32{.1, .2, .3}, WeightHH: []float32{.4, .5, .6}, BiasIH: []float32{.01, .02, .03}, BiasHH: []float32{.04, .05, .06}}
	var ref [1]float64
	refCell([]float64{.5}, []float64{-.25}, l.WeightIH, l.WeightHH, l.BiasIH, l.BiasHH, ref[:])
	if math.Abs(ref[0]-want) > 1e-8 {
		t.Errorf("reference: %.9f, want %.9f", ref[0], want)
	}
	for _, impl := range []string{implPlain, implFused} {
		t.Run(impl, func(t *testing.T) {
			f, err := NewForward(openHost(t, host.Options{}), ForwardConfig{TimeSteps: 1, Batch: 1, Input: 1, Hidden: 1, Layers: []Layer{l}, Impl: impl, Precision: "fp32"})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Set([]float32{.5}, []float32{-.25}); err != nil {
				t.Fatal(err)
			}
			if err := f.Run(); err != nil {
				t.Fatal(err)
			}
			if out, _, err := f.Result(); err != nil || math.Abs(float64(out[0])-want) > 1e-7 {
				t.Errorf("%v %v, want %.9f", out, err, want)
			}
		})
	}
}

func TestPresetShapes(t *testing.T) {
	for preset, want := range map[string]shape{
		"small":      {T: 1, B: 256, I: 65, H: 64, L: 2, D: 40},
		"energyflow": {T: 1, B: 12544, I: 65, H: 1024, L: 3, D: 40},
		"deepbench":  {T: 1500, B: 32, I: 2816, H: 2816, L: 1, D: 1},
	} {
		if got := readSettings(resolve(t, preset).Knobs).shape; got != want {
			t.Errorf("%s: %+v, want %+v", preset, got, want)
		}
	}
}

func TestChecksPass(t *testing.T) {
	checksPass(t, [][]string{
		{"small"},
		{"small", "impl=plain"},
		{"small", "graph=on", "deterministic=off", "impl=plain", "steps=3"},
		{"small", "steps=4", "flows=30", "layers=3", "hidden=13"},
		{"small", "precision=bf16"},
		{"small", "depth=1", "flows=3", "hidden=1", "input=1", "layers=1"},
		{"small", "item_reads=16", "reset_stats=sync", "fill=on", "pool_trim=every:1"},
		{"small", "autotune=on", "threads=1"},
	})
}

// checksPass wants every stage of every setting compared with its reference.
func checksPass(t *testing.T, settings [][]string) {
	t.Helper()
	for _, set := range settings {
		t.Run(strings.Join(set, ","), func(t *testing.T) {
			s := openSession(t, set[0], set[1:]...)
			checks := workloadtest.PassesWhole(t, s)
			t.Log(fmt.Sprint(checks))
		})
	}
}

func TestSettingsAreKnobs(t *testing.T) {
	workloadtest.ReadsKnobs[struct {
		settings
		loop.Pace
	}](t, Workload{})
}
