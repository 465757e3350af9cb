package advise_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/advise"
)

// batches is a sweep of steps that take fixed + each x batch microseconds.
func batches(t testing.TB, fixed, each float64, sizes ...int) []*gpuprof.Run {
	var out []*gpuprof.Run
	for i, b := range sizes {
		m := made{workload: "e3nn", seed: uint64(i), knobs: e3nnKnobs(gpuprof.Settings{"batch": fmt.Sprint(b)}),
			parts: []part{{name: "radial", exposed: each * float64(b), device: true, launches: 3}, {name: "tensor_product", exposed: fixed, device: true, launches: 2}}}
		out = append(out, m.run(t))
	}
	return out
}

func TestSmallBatch(t *testing.T) {
	runs := batches(t, 400, 1, 64, 128, 256)
	all := findings(runs, advise.Options{Base: e3nnKnobs(nil)})
	f := all[2]
	if len(f) != 1 || f[0].Rule != "small-batch" || f[0].Stage != "step" || f[0].From != "256" || f[0].To != "512" {
		t.Fatalf("largest batch: %+v", f)
	}
	// 656 us for 256; 912 us for 512: 200 us less for as much work.
	if got := f[0].ClaimS / us; got < 180 || got > 220 {
		t.Errorf("bound %.0f us, the model says 200", got)
	}
	if want := "gpuprof run e3nn --preset small --set batch=256,512"; f[0].Command != want {
		t.Errorf("command %q, want %q", f[0].Command, want)
	}
	// The smallest: measured against the best of the sweep. 464 us against 656 x 64 / 256.
	f = all[0]
	if len(f) != 1 || f[0].Rule != "small-batch" || f[0].To != "256" || f[0].Evidence["measured_gain_s"] == nil {
		t.Fatalf("smallest batch: %+v", f)
	}
	if got := f[0].ClaimS / us; got < 285 || got > 315 {
		t.Errorf("bound %.0f us, measured 300", got)
	}
}

func TestBatchSilent(t *testing.T) {
	full := batches(t, 400, 1, 64, 128, 256)
	for _, r := range full {
		r.PeakMemory = r.Device.Memory / 2
	}
	for name, runs := range map[string][]*gpuprof.Run{
		"throughput is flat": batches(t, 2, 1, 512, 1024, 2048), "one size": batches(t, 400, 1, 64), "memory full": full,
	} {
		if f := findings(runs, advise.Options{})[len(runs)-1]; len(f) > 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A sweep over a knob replaces the bound by what was measured, and a value that
// did not help is not suggested.
func TestMeasuredReplacesBound(t *testing.T) {
	at := func(impl string, product float64, more ...part) *gpuprof.Run {
		parts := with(e3nnParts(), part{name: "tensor_product", exposed: product, device: true, launches: 3, bound: 90})
		return made{workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{"impl": impl}), parts: with(parts, more...)}.run(t)
	}
	slow, fast := at("unfused", 20000), at("csr", 6000)
	all := findings([]*gpuprof.Run{slow, fast}, advise.Options{})
	if len(all[1]) > 0 {
		t.Errorf("the faster one: %+v", all[1])
	}
	f := all[0]
	if len(f) != 1 || f[0].Rule != "far-from-roofline" || f[0].Stage != "tensor_product" || f[0].To != "csr" {
		t.Fatalf("%+v", f)
	}
	if got := f[0].ClaimS / us; got < 13800 || got > 14200 {
		t.Errorf("claims %.0f us, measured 14,000; the bound alone is 19,900", got)
	}
	all = findings([]*gpuprof.Run{slow, at("csr", 20100)}, advise.Options{})
	if len(all[0]) > 0 {
		t.Errorf("csr did not help, and still: %+v", all[0])
	}
}

// Runs that differ in what they compute, in two knobs or in the device say
// nothing about a knob.
func TestSweepComparesOnlyOneTuningKnob(t *testing.T) {
	base := made{workload: "e3nn", knobs: e3nnKnobs(gpuprof.Settings{"mul": "8", "layout": "ir_mul"}), parts: e3nnParts()}
	for name, change := range map[string]func(*gpuprof.Run){
		"model knob": func(r *gpuprof.Run) { r.Knobs["mul"] = "4" },
		"two knobs":  func(r *gpuprof.Run) { r.Knobs["layout"], r.Knobs["threads"] = "mul_ir", "1" },
		"device":     func(r *gpuprof.Run) { r.Knobs["layout"], r.Device.Name = "mul_ir", "another" },
		"partial":    func(r *gpuprof.Run) { r.Knobs["layout"], r.Status = "mul_ir", gpuprof.Partial },
	} {
		a := base.run(t)
		a.ModelKnobs = []string{"mul"}
		b := made{workload: "e3nn", knobs: base.knobs, parts: with(e3nnParts(), part{name: "radial", exposed: 100, device: true, launches: 3})}.run(t)
		change(b)
		if f := findings([]*gpuprof.Run{a, b}, advise.Options{})[0]; len(f) > 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	b := made{workload: "e3nn", knobs: settings(gpuprof.Settings{"layout": "mul_ir"}, base.knobs), parts: with(e3nnParts(), part{name: "radial", exposed: 100, device: true, launches: 3})}.run(t)
	if f := findings([]*gpuprof.Run{base.run(t), b}, advise.Options{})[0]; len(f) != 1 || f[0].Rule != "measured" || f[0].Knob != "layout" {
		t.Errorf("one tuning knob: %+v", f)
	}
}

// Over any run: bounds are positive shares of the exposed time they account
// for, add up to no more than the step, come in order, and do not depend on
// anything but the runs.
func TestBoundsNeverExceedTheStep(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		pick := func(knob string, values ...string) string { return rapid.SampledFrom(values).Draw(r, knob) }
		common := gpuprof.Settings{
			"sync": pick("sync", "never", "step", "every:4"), "pinned": pick("pinned", "on", "off", "batch"), "async_copy": pick("async_copy", "on", "off"),
			"streams": pick("streams", "1", "2"), "item_reads": pick("item_reads", "packed", "0", "7"), "reset_stats": pick("reset_stats", "off", "sync"),
			"pool_trim": pick("pool_trim", "never", "every:2"), "graph": pick("graph", "on", "off"), "precision": pick("precision", "fp32", "tf32"),
			"deterministic": pick("deterministic", "on", "off"), "fill": pick("fill", "on", "off"), "threads": pick("threads", "all", "1"),
			"impl": pick("impl", "unfused", "plain", "naive", "csr"), "workers": pick("workers", "0", "auto"), "persistent": pick("persistent", "on", "off"),
			"library": pick("library", "off", "auto"), "epoch": "8", "batch": "64",
		}
		time := func(name string) float64 { return rapid.SampledFrom([]float64{0, 1, 30, 400, 5000}).Draw(r, name) }
		m := made{cuda: rapid.Bool().Draw(r, "cuda"), workload: pick("workload", "e3nn", "gruflow", "collate"), knobs: common,
			counters: map[string]float64{"copies_h2d": 4, "copies_d2h": 1, "bytes_h2d_pageable": 1e6, "sync_points": 3, "bytes_h2d": 1e6},
			spiky:    rapid.Bool().Draw(r, "spiky"), seed: rapid.Uint64().Draw(r, "seed")}
		for _, name := range []string{"starved", "sample", "collate", "stage", "sync", "launch", "gap", "backpressure"} {
			m.parts = append(m.parts, part{name: name, exposed: time(name), host: time(name + " host")})
		}
		for _, name := range []string{"h2d", "radial", "tensor_product", "scatter", "gru", "metrics"} {
			x := time(name)
			m.parts = append(m.parts, part{name: name, exposed: x, device: true, launches: 4, kernels: map[string]float64{"gemm": x / 2, "gru_fill": x / 4, "gru_add": x / 8}})
		}
		m.parts = append(m.parts, part{name: "d2h", exposed: 1, device: true})
		run := m.run(t)
		run.Device.DeviceInfo = map[string]string{"cublas": "13"}
		runs := []*gpuprof.Run{run}
		if rapid.Bool().Draw(r, "sweep") {
			m.knobs = settings(gpuprof.Settings{"threads": "2"}, common)
			for i := range m.parts {
				m.parts[i].exposed *= rapid.SampledFrom([]float64{1, 0.5}).Draw(r, "scale")
			}
			runs = append(runs, m.run(t))
		}
		all := findings(runs, advise.Options{})
		for i, found := range all {
			total, last := 0.0, runs[i].Step.Median
			for _, f := range found {
				silent := f.Rule == "noise" || f.Rule == "throttled" || f.Evidence["nothing_claimed"] != nil
				if f.ClaimS <= 0 && !silent || f.ClaimS > last {
					r.Fatalf("bound %g after %g: %+v", f.ClaimS, last, f)
				}
				if len(f.Evidence) == 0 || !strings.HasPrefix(f.Command, "gpuprof ") || f.PyTorch == "" {
					r.Fatalf("no evidence, command or line: %+v", f)
				}
				total, last = total+f.ClaimS, f.ClaimS
			}
			if total > runs[i].Step.Median*(1+1e-9) {
				r.Fatalf("bounds add up to %g s of a step of %g s: %+v", total, runs[i].Step.Median, found)
			}
		}
		if d := cmp.Diff(all, findings(runs, advise.Options{})); d != "" {
			r.Fatal(d)
		}
	})
}

func TestCommandKeepsWhatTheUserSet(t *testing.T) {
	knobs := e3nnKnobs(gpuprof.Settings{"sync": "step", "batch": "64", "structure": "my cell's.xyz"})
	r := made{cuda: true, workload: "e3nn", knobs: knobs, parts: []part{{name: "radial", exposed: 500, device: true, launches: 3}, {name: "sync", exposed: 300}}}.run(t)
	r.Mode, r.Seed = gpuprof.Hot, 7
	f := of(r, advise.Options{Base: settings(gpuprof.Settings{"structure": "hfo2"}, e3nnKnobs(nil)), Flags: []string{"--device", "host"}})
	want := `gpuprof run e3nn --preset small --mode hot --seed 7 --device host --set batch=64 --set 'structure=my cell'\''s.xyz' --set sync=step,never`
	if len(f) != 1 || f[0].Command != want {
		t.Errorf("%+v\nwant %s", f, want)
	}
}
