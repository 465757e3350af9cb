//go:build !race

// Sessions of every setting and of shapes nobody thought of: ten times as long under the race detector, where
// TestTrainingPasses and TestChecksPass have each kind of goroutine.

package gruflow

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// Every knob must change something that can be counted.
func TestEveryKnobChangesWhatRuns(t *testing.T) {
	other := map[string]string{
		"flows": "11", "input": "7", "hidden": "9", "layers": "1", "depth": "3", "steps": "2", "impl": "plain", "precision": "bf16",
		"deterministic": "off", "graph": "on", "sync": "step", "item_reads": "3", "reset_stats": "sync", "pool_trim": "every:1",
		"fill": "on", "autotune": "on", "threads": "1",
		"pass": "train", "tape": "saved", "windows_kept": "2", "window": "2", "checkpoint": "2", "lr": "0.1", "clip": "0.001", "optimizer": "loop",
		"accumulate": "2", "scaler": "dynamic", "found_inf": "host", "clip_where": "host", "loss_read": "step", "zero": "fill",
	}
	training := []string{"window", "checkpoint", "windows_kept", "lr", "clip", "optimizer", "accumulate", "scaler", "found_inf", "clip_where", "loss_read", "zero"}
	picture := func(set ...string) string {
		s := openSession(t, "small", append([]string{"flows=12"}, set...)...)
		before := s.mem.Dev.Meter()
		run(t, s, 2)
		m := s.mem.Dev.Meter().Sub(before)
		m.BlockedNS = 0
		var state []float32 // the learning rate and the clipping factor
		if s.train != nil {
			state = contents(t, s, s.train.step.State())
		}
		return fmt.Sprint(state, s.Input(), s.Stages(), m, s.mem.Dev.Info().Cores)
	}
	for _, k := range New().Knobs() {
		if k.Name == "library" { // a device without one has no choice
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			v, ok := other[k.Name]
			if !ok {
				t.Fatalf("knob %s is not in this test", k.Name)
			}
			var base []string
			if slices.Contains(training, k.Name) {
				base = []string{"pass=train", "depth=3"}
			}
			if k.Name == "found_inf" {
				base = append(base, "precision=fp16", "scaler=dynamic")
			}
			if picture(base...) == picture(append(base, k.Name+"="+v)...) {
				t.Errorf("%s=%s changes nothing", k.Name, v)
			}
		})
	}
	// reset_stats=on costs nothing that is counted: it begins a new peak.
	s := openSession(t, "small", "reset_stats=on")
	run(t, s, 2)
	if now := s.memory.Stats(); now.PeakInUse != now.InUse {
		t.Errorf("reset_stats=on left a peak of %d with %d in use", now.PeakInUse, now.InUse)
	}
	s = openSession(t, "small")
	run(t, s, 2)
	if now := s.memory.Stats(); now.PeakInUse == now.InUse {
		t.Error("without a reset there is no peak")
	}
}

// Sizes nobody thought of: any shape passes its checks in any variant.
func TestAnyShapePasses(t *testing.T) {
	if !nightly {
		shapesByDay(t)
	}
	knobs := New().Knobs()
	rapid.Check(t, func(r *rapid.T) {
		flows, hidden := rapid.IntRange(1, 140).Draw(r, "flows"), rapid.IntRange(1, 40).Draw(r, "hidden")
		set := []string{
			fmt.Sprintf("flows=%d", flows), fmt.Sprintf("input=%d", rapid.IntRange(1, 20).Draw(r, "input")),
			fmt.Sprintf("hidden=%d", hidden), fmt.Sprintf("layers=%d", rapid.IntRange(1, 3).Draw(r, "layers")),
			fmt.Sprintf("depth=%d", rapid.IntRange(1, 9).Draw(r, "depth")), fmt.Sprintf("steps=%d", rapid.IntRange(1, 4).Draw(r, "steps")),
		}
		for _, k := range knobs {
			if len(k.Values) > 1 && k.Parse == nil && k.Name != "autotune" {
				v := rapid.SampledFrom(k.Values).Draw(r, k.Name)
				if v != implCuDNN {
					set = append(set, k.Name+"="+v)
				}
			}
		}
		d, err := host.Open(host.Options{Threads: 2})
		if err != nil {
			r.Fatal(err)
		}
		defer d.Close()
		if slices.Contains(set, "pass=train") { // which has one cell
			set = append(set, "impl=auto")
			if slices.Contains(set, "graph=on") { // in which nobody waits
				set = append(set, "found_inf=device", "clip_where=device")
			}
		} else {
			set = append(set, "optimizer=fused")
			if slices.Contains(set, "tape=saved") {
				set = append(set, "impl=auto")
			}
		}
		c := resolve(t, "small", set...)
		c.Mode = gpuprof.Hot
		s, err := open(context.Background(), d, c)
		if err != nil {
			r.Fatal(err)
		}
		checks, err := s.Check(context.Background())
		if err != nil {
			r.Fatal(err)
		}
		// Of a few values all may be small beside the products that they are sums of, whose
		// rounding then is no small part of them: a state of one value has shown 2 % in TF32,
		// where 0.2 % is allowed. Such a run gives no times, which is safe.
		few := flows*hidden < 64 && !slices.Contains(set, "precision=fp32")
		products := []string{"gru", "recompute", "flow_bwd", "gru_bwd", "grads", "gradient of the whole step"}
		for _, c := range checks {
			of := slices.Contains(products, c.Stage) || strings.HasPrefix(c.Stage, gpuprof.WholeStep)
			if !c.Pass && (!few || !of) {
				r.Errorf("%v: %s: relative error %.3g over %.3g", set, c.Stage, float64(c.RelativeError), c.Tolerance)
			}
		}
		if err := s.Close(); err != nil {
			r.Fatal(err)
		}
		if use := d.Memory().InUse; use != 0 {
			r.Errorf("%v: %d bytes are left", set, use)
		}
	})
}

// A wide layer.
func TestWideTrainingPasses(t *testing.T) {
	trainingPasses(t, "hidden=600,flows=3,window=2,depth=2,layers=1")
}

// shapesByDay has rapid draw a quarter of its cases, each day the same, for as long as the test runs.
func shapesByDay(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{"rapid.checks": "25", "rapid.seed": "2"} {
		f := flag.Lookup(name)
		before := f.Value.String()
		if before != f.DefValue {
			continue // asked for on the command line
		}
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(before) })
	}
}
