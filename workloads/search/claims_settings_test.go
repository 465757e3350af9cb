package search

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gridsim"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
	"github.com/gpuprof/gpuprof/workloads/guides"
	"github.com/gpuprof/gpuprof/workloads/serving"
)

// Every setting that a claim about gridsim or serving compares is one of its knobs' and is
// not refused.
func TestClaimsResolve(t *testing.T) {
	d, err := host.Open(host.Options{LargestCopy: 1 << 20, CeilingTries: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	programs, n := map[string]workloads.Workload{"gridsim": gridsim.New(), "serving": serving.New(), "e3nn": e3nn.New(), "gruflow": gruflow.New()}, 0
	for _, c := range guides.Claims() {
		for _, ab := range c.AB {
			w := programs[ab.Workload]
			if w == nil || ab.On == "cuda" || !c.Host {
				continue
			}
			for _, side := range []gpuprof.Settings{ab.A, ab.B} {
				n++
				all, err := workloads.Resolve(w, ab.Preset, side)
				if err == nil {
					err = w.Refuse(d.Info(), all)
				}
				if err != nil {
					t.Errorf("%s: %v: %v", c.ID, side, err)
				}
			}
		}
	}
	if n < 80 {
		t.Errorf("%d settings", n)
	}
}

// Every pair of rx-ckpt can show what the guides claim: its second side needs less memory. The batch is a
// small one, since activations grow with it on both sides alike; the device's memory is stated.
func TestRecomputingPairsFreeMemory(t *testing.T) {
	fewer := map[string]gpuprof.Settings{"e3nn": {"batch": "8"}, "gruflow": {"flows": "6"}}
	programs, n := map[string]workloads.Workload{"e3nn": e3nn.New(), "gruflow": gruflow.New()}, 0
	for _, c := range guides.Claims() {
		if c.ID != "rx-ckpt" {
			continue
		}
		for _, ab := range c.AB {
			n++
			var peak []int64
			for _, set := range []gpuprof.Settings{ab.A, ab.B} {
				w := programs[ab.Workload]
				small := maps.Clone(set)
				maps.Copy(small, fewer[ab.Workload])
				all, err := workloads.Resolve(w, ab.Preset, small)
				if err != nil {
					t.Fatal(err)
				}
				d, err := host.Open(host.Options{Threads: 1, MemoryLimit: 256 << 20})
				if err != nil {
					t.Fatal(err)
				}
				s, err := w.Open(t.Context(), d, workloads.Config{Preset: ab.Preset, Knobs: all, Seed: 1})
				if err != nil {
					t.Fatal(err)
				}
				peak = append(peak, d.Memory().Peak)
				if err := errors.Join(s.Close(), d.Close()); err != nil {
					t.Fatal(err)
				}
			}
			if peak[1] > peak[0]*98/100 {
				t.Errorf("%s: %v takes %d bytes, %v takes %d", ab.Workload, ab.A, peak[0], ab.B, peak[1])
			}
		}
	}
	if n != 3 {
		t.Errorf("%d pairs", n)
	}
}

// What ph-detach measures: between keeping windows and dropping them lies the record of the
// windows that are kept, to the byte, which is what the finding says it saves.
func TestKeptWindowsOfAPair(t *testing.T) {
	w := gruflow.New()
	side := func(kept string) Side {
		set, err := workloads.Resolve(w, "small", gpuprof.Settings{"pass": "train", "flows": "6", "hidden": "8", "input": "5", "depth": "3", "windows_kept": kept})
		if err != nil {
			t.Fatal(err)
		}
		return Side{Workload: w, Preset: "small", Knobs: set}
	}
	bench := &InProcess{Open: func() (device.Device, error) { return host.Open(host.Options{LargestCopy: 1 << 20, CeilingTries: 2}) }, Now: stopped}
	defer bench.Close()
	o, err := bench.Compare(t.Context(), side("4"), side("1"), Limits{Goal: tune.Time, Time: time.Second, Pairs: 1})
	if err != nil || o.Verdict != "" {
		t.Fatalf("%+v, %v", o, err)
	}
	const window = 4 * (5*3 + 1) * 2 * 6 * 8 // states and gates of 3 levels of 2 layers, and the state before
	if saved := o.MemoryA - o.MemoryB; saved != 3*window {
		t.Errorf("the pair differs by %d bytes, the record of three windows is %d", saved, 3*window)
	}
}
