package tuneprogram

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// movingCounter has the updates of a counter that moves every 100 ms at a constant power in W, from 2 s before begin on.
func movingCounter(begin time.Time, watts float64) (out []update) {
	for k := range 60 {
		at := time.Duration(k)*100*time.Millisecond - 2*time.Second
		out = append(out, update{begin.Add(at), 5000 + watts*at.Seconds()})
	}
	return out
}

// TestEnergyOfSteps: the joules of a run are the increase over its measured steps, of the GPUs that it used. Without a
// counter or with one that moves too rarely there is a reason and no figure.
func TestEnergyOfSteps(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	read := func() (float64, bool) { return 0, true }
	seen := map[string][]update{"GPU-A": movingCounter(begin, 400), "GPU-B": movingCounter(begin, 100)}
	two := map[string]func() (float64, bool){"GPU-A": read, "GPU-B": read}
	for _, c := range []struct {
		name    string
		m       Meter
		gpus    []string
		length  float64 // of the window, s
		joules  float64 // per step, of ten steps
		unknown string
	}{
		{"one GPU, by PyTorch's UUID", Meter{Counters: two}, []string{"a"}, 1.53, 400 * 0.153, ""},
		{"two GPUs", Meter{Counters: two}, []string{"GPU-A", "b"}, 1.5, 500 * 0.15, ""},
		{"a short window", Meter{Counters: two}, []string{"a"}, 0.9, 0, "too rarely"},
		{"beyond the last update", Meter{Counters: two}, []string{"a"}, 4.5, 0, "too rarely"},
		{"a part of a GPU", Meter{Counters: two}, []string{"MIG-c"}, 1.5, 0, "(MIG)"},
		{"no UUID, two GPUs", Meter{Counters: two}, []string{""}, 1.5, 0, "does not report which"},
		{"no UUID, one GPU", Meter{Counters: map[string]func() (float64, bool){"GPU-A": read}}, []string{""}, 1.5, 60, ""},
		{"no counter", Meter{Counters: map[string]func() (float64, bool){"GPU-C": read}}, []string{"c"}, 1.5, 0, "NVML reports no energy"},
		{"no NVML", Meter{Unknown: "NVML cannot be read"}, []string{"a"}, 1.5, 0, "NVML cannot be read"},
		{"no memory on a GPU", Meter{Counters: two}, nil, 1.5, 0, "which GPUs it used"},
	} {
		h := hookResult{HookReport: tune.HookReport{Steps: 10, Device: "cuda"}, GPUs: c.gpus,
			WindowAt: [2]float64{float64(begin.Unix()) + 0.25, float64(begin.Unix()) + 0.25 + c.length}}
		r := tune.ProgramRun{}
		c.m.setEnergy(&r, &h, seen)
		if math.Abs(r.Joules-c.joules) > 1e-6*c.joules || (c.unknown == "") != (r.EnergyUnknown == "") || !strings.Contains(r.EnergyUnknown, c.unknown) {
			t.Errorf("%s: %g J per step, unknown %q, want %g and %q", c.name, r.Joules, r.EnergyUnknown, c.joules, c.unknown)
		}
	}
	cpu := tune.ProgramRun{}
	(&Meter{Counters: two}).setEnergy(&cpu, &hookResult{HookReport: tune.HookReport{Steps: 10, Device: "cpu"}}, seen)
	if cpu.Joules != 0 || cpu.EnergyUnknown != "" {
		t.Errorf("a program on the CPU: %+v", cpu)
	}
}

// TestPolling: a counter's update is kept once, and a reading that fails is none.
func TestPolling(t *testing.T) {
	values, k := []float64{7, 7, 7.5, 7.5, -1, 8}, 0
	m := Meter{Counters: map[string]func() (float64, bool){"GPU-A": func() (float64, bool) {
		v := values[k]
		k++
		return v, v >= 0
	}}}
	out := map[string][]update{}
	for range values {
		m.poll(out)
	}
	var got []float64
	for i, u := range out["GPU-A"] {
		got = append(got, u.joules)
		if i > 0 && u.at.Before(out["GPU-A"][i-1].at) {
			t.Error("times go back")
		}
	}
	if len(got) != 3 || got[0] != 7 || got[1] != 7.5 || got[2] != 8 {
		t.Errorf("updates %v", got)
	}
}

// TestEnergyRatio: the ratio comes from the turns of both sides; the document has joules per step for the unchanged
// program, each setting and the recommended set.
func TestEnergyRatio(t *testing.T) {
	m := &machine{noise: 0.01, gains: map[string]float64{"num_workers=2": 2}, watts: 300}
	r, err := m.search(context.Background(), 1, 10*time.Minute, nil)
	if err != nil || recommended(r) != "num_workers=2" {
		t.Fatalf("recommended %q (%v)", recommended(r), err)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got/want-1) > 0.05 { // the noise of a run is 1 %
			t.Errorf("%s is %g, want about %g", what, got, want)
		}
	}
	near("the program's energy", r.Program.Joules, 3)
	near("the recommended energy", r.Recommended.Joules, 1.5)
	near("its ratio", r.Recommended.EnergyRatio, 0.5)
	for _, f := range r.Effects {
		if f.Knob == "num_workers" {
			near("the setting's energy", f.Joules, 1.5)
			near("the setting's ratio", f.EnergyRatio, 0.5)
		}
	}
	plain := &machine{noise: 0.01}
	if r, err = plain.search(context.Background(), 1, time.Minute, nil); err != nil || r.Program.Joules != 0 || r.Program.EnergyUnknown != "the program computes on no GPU" {
		t.Errorf("without a GPU: %g J, %q (%v)", r.Program.Joules, r.Program.EnergyUnknown, err)
	}
}
