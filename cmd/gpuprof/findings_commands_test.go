//go:build !race

// Under the race detector one goroutine that judges recorded runs takes ten times as long.

package main

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/advise"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// leastTried is the number of rules that must have reported a finding.
const leastTried = 8

// With any settings that a device takes, whatever is found: the command that is
// printed parses, and the device takes every point of its sweep.
func TestFindingCommandsRun(t *testing.T) {
	devices := []device.Info{
		{Kind: "host", Name: "host", MaxThreads: 4},
		{Kind: "cuda", Name: "a GPU", Arch: "sm_90", Facts: map[string]string{"cublas": "13.0", "cudnn": "9.1", "pool": "on"}},
		{Kind: "cuda", Name: "an older GPU", Arch: "sm_75", Facts: map[string]string{"pool": "on"}},
	}
	tried := map[string]bool{}
	try := func(r *rapid.T) {
		w := rapid.SampledFrom(wired.listWorkloads()).Draw(r, "workload")
		info := rapid.SampledFrom(devices).Draw(r, "device")
		preset := rapid.SampledFrom(w.Presets()).Draw(r, "preset").Name
		set := gpuprof.Settings{}
		for _, k := range w.Knobs() {
			if v := knobValue(r, k); v != "" {
				set[k.Name] = v
			}
		}
		knobs, err := workloads.Resolve(w, preset, set)
		if err != nil {
			r.Fatal(err)
		}
		if w.Refuse(info, knobs) != nil {
			return
		}
		run := drawnRun(r, w.Name(), preset, info, knobs)
		base, err := workloads.Resolve(w, preset, nil)
		if err != nil {
			r.Fatal(err)
		}
		for _, f := range advise.Findings([]*gpuprof.Run{run}, advise.Options{Workload: w, Base: base})[0] {
			tried[f.Rule] = true
			aim, err := commandAim(t.Context(), f.Command)
			if err != nil {
				r.Fatalf("%s: %v", f.Command, err)
			}
			if aim == nil || aim.Workload.Name() != w.Name() {
				continue
			}
			for _, point := range aim.Knobs {
				if err := w.Refuse(info, point); err != nil {
					r.Fatalf("%s: %v", f.Command, err)
				}
			}
		}
	}
	// Which rules a hundred draws reach is chance: draw on until enough were.
	for range 20 {
		rapid.Check(t, try)
		if t.Failed() || len(tried) >= leastTried {
			break
		}
	}
	if len(tried) < leastTried {
		t.Errorf("only %d rules had anything to say: %v", len(tried), tried)
	}
}

// knobValue is a value of the knob, "" to leave it as the preset has it.
func knobValue(r *rapid.T, k workloads.Knob) string {
	values := []string{""}
	if !k.Model {
		values = append(values, k.Values...)
		for _, v := range []string{"1", "2", "7", "64", "every:3"} {
			if _, err := k.Canonical(v); err == nil {
				values = append(values, v)
			}
		}
	}
	v := rapid.SampledFrom(values).Draw(r, k.Name)
	if _, err := k.Canonical(v); v != "" && err != nil {
		return "" // a name that stands for another form
	}
	return v
}

// drawnRun is a made-up run at these settings. Nothing in it was measured.
func drawnRun(r *rapid.T, workload, preset string, info device.Info, knobs gpuprof.Settings) *gpuprof.Run {
	const n, us = 24, 1e-6
	steady := func(v float64) *gpuprof.Series {
		x := make([]float64, n)
		for i := range x {
			x[i] = v
		}
		return stats.Summarise("s", x)
	}
	run := &gpuprof.Run{Status: gpuprof.Complete, Workload: workload, Preset: preset, Seed: 1, Mode: gpuprof.Steady, Knobs: knobs,
		Device:   gpuprof.Env{Kind: info.Kind, Name: info.Name, Arch: info.Arch, DeviceInfo: info.Facts, CPUCores: 4, Cores: 4, Memory: 1 << 36},
		Counters: map[string]float64{"launches": 20, "copies_h2d": 3, "copies_d2h": 1, "bytes_h2d_pageable": 1e6, "bytes_h2d": 1e6, "sync_points": 2},
		Input:    map[string]any{"workers": 1., "make_sample_s": 1e-4, "make_collate_s": 1e-3},
		Ceilings: gpuprof.Ceilings{CopyBytesPerS: 1e12, FlopsPerS: 1e13}}
	if v, err := strconv.Atoi(knobs["workers"]); err == nil {
		run.Input["workers"] = float64(v)
	}
	if info.Kind != "host" {
		run.Device.CPUCores = 16
	}
	step := 0.0
	add := func(name string, device bool, kernels ...string) {
		v := rapid.SampledFrom([]float64{0, 2, 20, 300}).Draw(r, name) * us
		step += v
		st := gpuprof.StageResult{Name: name, Parent: "step", Exposed: steady(v), Counters: map[string]float64{"launches": 4}}
		if st.Host = steady(v); device {
			st.Device = steady(v)
		}
		run.Stages = append(run.Stages, st)
		for _, k := range kernels {
			run.Stages = append(run.Stages, gpuprof.StageResult{Name: k, Parent: name, Device: steady(v / 4), Counters: map[string]float64{"launches": 1}})
		}
	}
	for _, name := range []string{"starved", "collate", "stage", "sync", "launch", "gap"} {
		add(name, false)
	}
	add("h2d", true)
	add("d2h", true)
	add("radial", true, "gemm_fp32")
	add("tensor_product", true, "tp_outer")
	add("scatter", true, "scatter_sorted")
	add("gru", true, "gemm_fp32", "gru_add", "gru_fill")
	add("metrics", true, "gru_sum", "gru_sum_final")
	run.Step = steady(max(step, us))
	run.Throughput = &gpuprof.Throughput{Unit: "items/s", Series: steady(1 / max(step, us))}
	return run
}
