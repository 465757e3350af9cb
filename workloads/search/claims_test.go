package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/guides"
)

// claimIDs is the list of the design, in its order; code and list must agree.
var claimIDs = []string{
	"ef-sync", "ef-reset", "ef-loader", "ef-det", "det-fill", "ef-item", "compile",
	"ae-cache", "ae-split", "ae-infer", "ae-keep", "ae-batch", "ae-lazy", "ae-down", "ae-stats", "ae-eval",
	"ph-amp", "ph-tf32", "ph-async", "ph-pin", "ph-vec", "ph-all",
	"dp-collate", "dp-split", "dp-batch", "dp-size", "dp-load",
	"rx-batch", "rx-split", "rx-stream", "rx-layout", "rx-drop", "rx-warm", "rx-power", "rx-prof", "rx-ddp",
	"rx-ckpt", "ph-amp-train", "rx-scaler", "ef-loss", "ef-accum", "ph-detach", "opt-fused",
}

func TestClaimIDs(t *testing.T) {
	var ids []string
	for _, c := range guides.Claims() {
		ids = append(ids, c.ID)
		if c.Guide == "" || c.Claim == "" || c.Figure == "" {
			t.Errorf("%s lacks a guide, a claim or a figure", c.ID)
		}
		if c.Not == "" && len(c.AB) == 0 {
			t.Errorf("%s has nothing to compare and no reason", c.ID)
		}
		if c.Not == "" && !c.Host && !c.GPU {
			t.Errorf("%s can be measured nowhere", c.ID)
		}
	}
	if !slices.Equal(ids, claimIDs) {
		t.Errorf("the claims are %v, want %v", ids, claimIDs)
	}
	n := 0
	for _, c := range guides.Claims() {
		if c.Host && c.Not == "" {
			n++
		}
	}
	if n < 14 {
		t.Errorf("the host can measure %d claims, want 14", n)
	}
}

func TestJudgeClaim(t *testing.T) {
	for _, tt := range []struct {
		name    string
		speedup float64
		placebo bool
		ci      [2]float64
		want    string
	}{
		{"as promised", 1.1, false, [2]float64{1.15, 1.25}, confirmed},
		{"the interval holds the promise", 1.2, false, [2]float64{1.05, 1.25}, confirmed},
		{"less than promised", 8, false, [2]float64{1.9, 2.1}, smaller},
		{"nothing", 1.2, false, [2]float64{0.99, 1.01}, noEffect},
		{"not what was promised, and too wide for none", 2, false, [2]float64{0.9, 1.1}, open},
		{"slower", 1.2, false, [2]float64{0.75, 0.85}, opposite},
		{"too wide", 1.2, false, [2]float64{0.8, 1.5}, open},
		{"a placebo", 0, true, [2]float64{0.99, 1.015}, noEffect},
		{"a placebo measured too coarsely", 0, true, [2]float64{0.9, 1.1}, open},
		{"a promise without a figure, nothing narrow", 0, false, [2]float64{0.97, 1.04}, open},
		{"a placebo that works", 0, true, [2]float64{1.1, 1.3}, confirmed},
		{"a tiny effect of a claim without figure", 0, false, [2]float64{1.005, 1.015}, noEffect},
	} {
		if got, _ := judgeClaim(guides.Claim{Speedup: tt.speedup, Placebo: tt.placebo}, tt.ci); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestJudgeSaved(t *testing.T) {
	for saved, want := range map[float64]string{0.76: confirmed, 0.5: confirmed, 0.2: smaller, 0: noEffect, -0.5: opposite} {
		if got, why := judgeSaved(saved); got != want || why == "" {
			t.Errorf("%g: %s (%s), want %s", saved, got, why, want)
		}
	}
}

func TestJudgeMemory(t *testing.T) {
	for saved, want := range map[float64]string{0.87: confirmed, 0.03: confirmed, 0.01: noEffect, 0: noEffect, -0.01: noEffect, -0.2: opposite} {
		if got, why := judgeMemory(saved); got != want || why == "" {
			t.Errorf("%g: %s (%s), want %s", saved, got, why, want)
		}
	}
}

// claimWorkload takes every value of every knob that a claim names.
type claimWorkload struct {
	fake
	name string
}

func (w claimWorkload) Name() string { return w.name }
func (claimWorkload) Presets() []workloads.Preset {
	return []workloads.Preset{{Name: "small"}, {Name: "naive"}, {Name: "large"}, {Name: "deepaw"}, {Name: "rxvision"}}
}
func (w claimWorkload) Knobs() []workloads.Knob {
	names := map[string]bool{}
	for _, c := range guides.Claims() {
		for _, ab := range c.AB {
			for _, s := range []gpuprof.Settings{ab.A, ab.B} {
				for k := range s {
					names[k] = true
				}
			}
		}
	}
	var out []workloads.Knob
	for k := range names {
		out = append(out, workloads.Knob{Name: k, Default: "?", Parse: func(s string) (string, error) { return s, nil }})
	}
	return out
}

// claimBench finds B faster by a third wherever a knob differs.
type claimBench struct {
	*fakeBench
	stopAt int
	cancel func()
}

func (b *claimBench) Compare(ctx context.Context, x, y Side, l Limits) (*tune.Outcome, error) {
	b.calls = append(b.calls, fmt.Sprint(l.Seed, l.Sitting, x.key(), y.key()))
	if len(b.calls) == b.stopAt {
		b.cancel()
		return nil, ctx.Err()
	}
	b.clock = b.clock.Add(time.Second)
	if y.Knobs["deterministic"] == "off" {
		o := &tune.Outcome{}
		failOutcome(o, gpuprof.Errorf(gpuprof.ErrMemory, "allocating 1 TB: too much; lower batch"))
		return o, nil
	}
	o := &tune.Outcome{Unit: "items", Rate: map[tune.Goal]float64{tune.Latency: 250}[l.Goal], CountA: map[string]float64{"copies": 20}, CountB: map[string]float64{"copies": 5}}
	o.MemoryA, o.MemoryB = 800, 800
	for i := range 8 {
		a := 1 + 0.004*float64(i%3)
		c := 1 + 0.004*float64((i+1)%3)
		if len(changedSettings(x.Knobs, y.Knobs)) > 0 {
			c /= 1.5
		}
		if len(changedSettings(x.Knobs, y.Knobs)) > 0 {
			o.MemoryA, o.MemoryB = 800, 100
		}
		if x.Workload.Name() == "weights" {
			c /= 2
		}
		o.A, o.B = append(o.A, []float64{a}), append(o.B, []float64{c})
	}
	return o, nil
}

// claimRun's first answer takes three times as long without a warm-up.
func claimRun(_ context.Context, _ workloads.Workload, _ string, set gpuprof.Settings, _ time.Duration) (*gpuprof.Run, error) {
	first := 0.01
	if set["warm"] == "off" {
		first = 0.03
	}
	exposed := func(v float64) *gpuprof.Series {
		return &gpuprof.Series{Runs: [][]float64{{v, v * 1.01, v, v * 0.99, v, v, v * 1.01}}}
	}
	return &gpuprof.Run{Input: map[string]any{"first_request_s": first}, Step: exposed(10), Overhead: &gpuprof.Ratio{Ratio: 1.002, CI95: [2]float64{0.998, 1.006}},
		Stages: []gpuprof.StageResult{{Name: "tensor_product", Parent: "step", Exposed: exposed(6.5)}, {Name: "radial", Parent: "step", Exposed: exposed(3)}, {Name: "gap", Parent: "step", Exposed: exposed(0.5)}}}, nil
}

func claimOptions(b *claimBench) (Options, func(string) workloads.Workload) {
	o := Options{Device: "host", DeviceDoc: "fake device", Budget: 10 * time.Minute, Seed: 1, Bench: b, Now: b.now, MaxError: 1e-2}
	return o, func(name string) workloads.Workload { return claimWorkload{name: name} }
}

func TestShareVerdict(t *testing.T) {
	for want, ci := range map[string][2]float64{confirmed: {0.6, 0.66}, smaller: {0.4, 0.5}, larger: {0.75, 0.8}, open: {0.5, 0.65}} {
		row := &tune.ClaimRow{What: "share of tensor_product", Measured: (ci[0] + ci[1]) / 2, CI95: ci}
		if got, why := shareVerdict(row, guides.StageShare{Stage: "tensor_product", Share: 0.63}); got != want || why == "" {
			t.Errorf("%v is %s (%s), want %s", ci, got, why, want)
		}
	}
}

// What the null row finds is about the method, not about a guide.
func TestJudgeNull(t *testing.T) {
	for want, ci := range map[string][2]float64{noEffect: {0.995, 1.004}, open: {0.9, 1.1}, opposite: {1.05, 1.1}} {
		if got, why := judgeClaim(guides.Null(), ci); got != want || why == "" {
			t.Errorf("%v is %s (%s), want %s", ci, got, why, want)
		}
	}
}

func TestRunClaims(t *testing.T) {
	b := &claimBench{fakeBench: newFakeBench(1)}
	o, find := claimOptions(b)
	r, err := RunClaims(t.Context(), o, find, claimRun)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Claims) != len(claimIDs)+1 || r.Claims[0].ID != "a/a" {
		t.Fatalf("%d rows", len(r.Claims))
	}
	want := map[string]string{"a/a": noEffect, "ef-sync": confirmed, "ae-keep": confirmed, "ph-vec": smaller, "ef-det": notMeasurable, "ph-tf32": notMeasurable,
		"rx-ddp": notMeasurable, "ph-detach": confirmed, "rx-ckpt": confirmed, "ae-infer": confirmed, "ph-amp-train": notMeasurable, "rx-batch": confirmed, "rx-split": confirmed, "rx-stream": confirmed, "rx-layout": confirmed, "rx-drop": notMeasurable, "rx-warm": confirmed, "ae-eval": notMeasurable, "rx-power": noEffect, "rx-prof": noEffect, "dp-split": confirmed, "ph-amp": notMeasurable, "dp-load": confirmed}
	measured := 0
	for _, c := range r.Claims {
		if w := want[c.ID]; w != "" && c.Verdict != w {
			t.Errorf("%s: %s (%s), want %s", c.ID, c.Verdict, c.Reason, w)
		}
		if c.CI95 != [2]float64{} {
			measured++
			if c.CI95[0] > c.Measured || c.CI95[1] < c.Measured {
				t.Errorf("%s: %v is not in %v", c.ID, c.Measured, c.CI95)
			}
		} else if c.Reason == "" {
			t.Errorf("%s was not measured, without a reason", c.ID)
		}
		if c.ID == "a/a" && (c.CI95[0] > 1 || c.CI95[1] < 1) {
			t.Errorf("the A/A row is %v", c.CI95)
		}
		if c.ID == "ph-amp" && (len(c.Details) != 6 || !strings.Contains(c.Details[0], "error against float64")) {
			t.Errorf("ph-amp on the host gives errors: %q", c.Details)
		}
		if text := strings.Join(c.Details, "; "); c.ID == "rx-batch" && (strings.Count(text, "p99 at 250 requests/s x1.") != 3 || strings.Contains(text, "rxvision")) ||
			c.ID == "rx-warm" && (math.Abs(c.Measured-3) > 1e-9 || !strings.Contains(text, "first answer 30.0 ms -> 10.0 ms, medians of 6 processes each")) ||
			c.ID == "rx-stream" && !strings.Contains(text, "which is a race") || c.ID == "rx-layout" && !strings.Contains(text, "leaves Conv2d as it is") {
			t.Errorf("%s: %+v", c.ID, c)
		}
		if c.ID == "rx-drop" && !strings.Contains(c.Reason, "dropout is the identity") {
			t.Errorf("rx-drop: %s", c.Reason)
		}
		if c.ID == "ae-keep" && (c.Measured != 0.75 || c.What == "" || !strings.Contains(strings.Join(c.Details, "; "), "time: x1.49")) {
			t.Errorf("ae-keep is about transfers: %+v", c)
		}
		if text := strings.Join(c.Details, "; "); (c.ID == "ph-detach" || c.ID == "rx-ckpt") && (c.Measured != 0.875 || c.What != "lower peak memory" || !strings.Contains(text, "time: x1.49")) ||
			c.ID == "ph-detach" && (!strings.Contains(text, "no backward follows") || !strings.Contains(text, "tape=saved windows_kept=64 -> tape=off: x1.4")) || c.ID == "ae-infer" && !strings.Contains(text, "gruflow small: tape=saved -> tape=off: x1.4") {
			t.Errorf("%s: %+v", c.ID, c)
		}
		if c.ID == "rx-prof" && !slices.Contains(c.Details, "steps with probes over steps without") {
			t.Errorf("rx-prof: %q", c.Details)
		}
		if c.ID == "dp-split" && !strings.Contains(strings.Join(c.Details, ""), "radial 30.0 % (guide 8 %)") {
			t.Errorf("dp-split: %q", c.Details)
		}
		if c.ID == "dp-split" && (c.Measured < 0.64 || c.Measured > 0.66) {
			t.Errorf("dp-split: share %v", c.Measured)
		}
	}
	if measured < 14 {
		t.Errorf("%d rows with intervals, want 14", measured)
	}
	if r.Status != gpuprof.Complete || r.Rate != 0 {
		t.Errorf("%s: %s; rate %g", r.Status, r.Reason, r.Rate)
	}
}

// A row says how many of its comparisons the budget cost.
func TestClaimsWithoutTime(t *testing.T) {
	o, find := claimOptions(&claimBench{fakeBench: newFakeBench(1)})
	o.Budget = 200 * time.Second
	r, err := RunClaims(t.Context(), o, find, claimRun)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Claims {
		if text := strings.Join(c.Details, "; "); c.ID == "rx-batch" && (c.Verdict != confirmed || strings.Contains(text, "p99") || !strings.Contains(text, "no time was left for further comparisons (3); give more with --budget")) {
			t.Errorf("%+v", c)
		}
	}
}

func TestClaimsResume(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := &claimBench{fakeBench: newFakeBench(1), stopAt: 7, cancel: cancel}
	o, find := claimOptions(first)
	part, err := RunClaims(ctx, o, find, claimRun)
	if !errors.Is(err, context.Canceled) || part.Status != gpuprof.Partial || len(part.Journal) != 6 {
		t.Fatalf("%v, %s, %d measurements", err, part.Status, len(part.Journal))
	}
	second := &claimBench{fakeBench: newFakeBench(1)}
	o, find = claimOptions(second)
	o.Resume = part
	r, err := RunClaims(t.Context(), o, find, claimRun)
	if err != nil {
		t.Fatal(err)
	}
	whole := &claimBench{fakeBench: newFakeBench(1)}
	o, find = claimOptions(whole)
	if _, err := RunClaims(t.Context(), o, find, claimRun); err != nil {
		t.Fatal(err)
	}
	// The call that was interrupted is made again, and no other.
	if got := slices.Concat(first.calls[:6], second.calls); !slices.Equal(got, whole.calls) {
		t.Errorf("%d comparisons in all, %d without an interruption, or others", len(got), len(whole.calls))
	}
	if r.Status != gpuprof.Complete || r.Claims[1].Verdict != confirmed {
		t.Errorf("%s, %+v", r.Status, r.Claims[1])
	}
}
