package advise_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/advise"
)

// Each habit of a service that a knob answers, planted beside a batch in which the same habit
// costs nothing: found with a bound, and not a word.
func TestServiceFindings(t *testing.T) {
	knobs := func(kv ...string) gpuprof.Settings {
		over := gpuprof.Settings{}
		for i := 0; i < len(kv); i += 2 {
			over[kv[i]] = kv[i+1]
		}
		return servingKnobs(over)
	}
	long := part{name: "other", exposed: 90_000, device: true} // beside which the same habit is nothing
	short := []part{{name: "forward", exposed: 200, device: true, launches: 40, bound: 90, kernels: map[string]float64{"resnet_conv": 190}}, {name: "backpressure"}, {name: "launch", exposed: 100, host: 120}, {name: "gap", exposed: 40}}
	im2col := part{name: "forward", exposed: 3000, device: true, launches: 60, bound: 1600, kernels: map[string]float64{"gemm": 2000, "resnet_im2col": 900}}
	for name, c := range map[string]struct {
		knobs           gpuprof.Settings
		change          []part
		counters        map[string]float64
		quiet           func(*made)
		tune            func(*gpuprof.Run)
		rule, stage     string
		knob, to        string
		atLeast, atMost float64
	}{
		"sync": {knobs: knobs("sync", "step"), change: []part{{name: "sync", exposed: 500, host: 3000}}, counters: map[string]float64{"sync_points": 1},
			rule: "explicit-sync", stage: "sync", knob: "sync", to: "never", atLeast: 490, atMost: 520},
		"item reads": {knobs: knobs("item_reads", "64"), change: []part{{name: "sync", exposed: 900, host: 3000}}, counters: map[string]float64{"sync_points": 64},
			rule: "item", stage: "sync", knob: "item_reads", to: "packed", atLeast: 890, atMost: 930},
		"blocking copies": {knobs: knobs("async_copy", "off"), change: []part{{name: "sync", exposed: 600, host: 3000}}, counters: map[string]float64{"sync_points": 2, "copies_h2d": 1, "copies_d2h": 1},
			rule: "blocking-copy", stage: "sync", knob: "async_copy", to: "on", atLeast: 590, atMost: 620},
		"pageable copies": {knobs: knobs("pinned", "off"), change: []part{{name: "h2d", exposed: 900, device: true}}, counters: map[string]float64{"copies_h2d": 1, "bytes_h2d_pageable": 6.3e6},
			tune: func(r *gpuprof.Run) { r.Telemetry = pcie(4, 16) }, rule: "pageable-h2d", stage: "h2d", knob: "pinned", to: "on", atLeast: 690, atMost: 710}, // 6.3 MB at 31.5 GB/s stay
		"copies on the network's stream": {knobs: knobs("streams", "shared"), change: []part{{name: "h2d", exposed: 700, device: true}}, counters: map[string]float64{"copies_h2d": 1},
			rule: "exposed-copy", stage: "h2d", knob: "streams", to: "own", atLeast: 690, atMost: 720},
		"launches of a small network": {knobs: knobs("pad", "on"), change: short,
			rule: "launch-bound", stage: "launch", knob: "graph", to: "on", atLeast: 120, atMost: 155},
		"norms by themselves": {knobs: knobs("bn", "apart"), change: []part{{name: "forward", exposed: 5000, device: true, launches: 60, bound: 1600, kernels: map[string]float64{"resnet_conv": 3000, "resnet_norm": 1900}}},
			quiet: func(m *made) { // the time is the convolutions'
				m.parts = with(m.parts, part{name: "forward", exposed: 5000, device: true, launches: 60, bound: 1600, kernels: map[string]float64{"resnet_conv": 4800, "resnet_norm": 190}})
			},
			rule: "far-from-roofline", stage: "forward", knob: "bn", to: "fold", atLeast: 1850, atMost: 1950},
		"own products": {knobs: knobs("impl", "im2col", "library", "off", "precision", "tf32"), change: []part{im2col},
			rule: "far-from-roofline", stage: "forward", knob: "library", to: "auto", atLeast: 1950, atMost: 2020},
		"products in float32": {knobs: knobs("impl", "im2col"), change: []part{im2col}, tune: func(r *gpuprof.Run) { r.Device.DeviceInfo = map[string]string{"cublas": "13"} },
			rule: "no-tf32", stage: "forward", knob: "precision", to: "tf32", atLeast: 1600, atMost: 1750},
		"images prepared by the host thread": {knobs: knobs("preprocess", "host"), change: []part{{name: "preprocess", exposed: 4000}, {name: "backpressure"}},
			rule: "collate-bound", stage: "preprocess", knob: "preprocess", to: "device", atLeast: 3950, atMost: 4050},
	} {
		t.Run(name, func(t *testing.T) {
			m := made{cuda: true, workload: "serving", knobs: c.knobs, parts: with(servingParts(), c.change...), counters: c.counters}
			run := func(m made) []gpuprof.Finding {
				r := m.run(t)
				if c.tune != nil {
					c.tune(r)
				}
				return only(of(r, advise.Options{Base: c.knobs}), c.rule)
			}
			found := run(m)
			if len(found) != 1 {
				t.Fatalf("%d findings", len(found))
			}
			f := found[0]
			if f.Stage != c.stage || f.Knob != c.knob || f.From != c.knobs[c.knob] || f.To != c.to || !strings.Contains(f.Command, "--set "+c.knob+"="+f.From+","+c.to) || f.PyTorch == "" {
				t.Errorf("%+v", f)
			}
			if got := f.ClaimS / us; got < c.atLeast || got > c.atMost {
				t.Errorf("bound %.0f us, want %.0f to %.0f", got, c.atLeast, c.atMost)
			}
			m.parts = slices.Clone(m.parts)
			if c.quiet != nil {
				c.quiet(&m)
			} else {
				m.parts = append(m.parts, long)
			}
			if found := run(m); len(found) != 0 {
				t.Errorf("its pair: %+v", found)
			}
			// The remedy taken, nothing is left to say about it.
			m.knobs = settings(gpuprof.Settings{c.knob: c.to}, c.knobs)
			m.parts = with(servingParts(), c.change...)
			for _, f := range run(m) {
				if f.Knob == c.knob {
					t.Errorf("with the remedy: %+v", f)
				}
			}
		})
	}
}

// A service with nothing wrong is not spoken of, and neither is one whose habits have no effect
// where it runs.
func TestCleanServicesAreSilent(t *testing.T) {
	for name, m := range map[string]made{
		"on a GPU":   {cuda: true, workload: "serving", knobs: servingKnobs(nil), parts: servingParts()},
		"on a host":  {workload: "serving", knobs: servingKnobs(gpuprof.Settings{"preprocess": "host"}), parts: with(servingParts(), part{name: "preprocess", exposed: 2000})}, // it has no other processor
		"no padding": {cuda: true, workload: "serving", knobs: servingKnobs(nil), parts: with(servingParts(), part{name: "forward", exposed: 200, device: true, launches: 40, bound: 150}, part{name: "launch", exposed: 100, host: 120})},
	} {
		if found := of(m.run(t), advise.Options{}); len(found) > 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
