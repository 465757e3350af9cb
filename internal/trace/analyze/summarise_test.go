package analyze

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

func summarise(t *testing.T, rules func(*Index, *Ledger) []Found, inputs ...*builder) *Analysis {
	t.Helper()
	var traces []*model.Trace
	for _, b := range inputs {
		traces = append(traces, b.finish())
	}
	a, err := Summarise(context.Background(), traces, Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestOperators(t *testing.T) {
	b := newBuilder()
	b.host(model.Python, "train.py(5): step", 0, 1000)
	b.host(model.Python, "nn.Module: Net_0", 0, 900).host(model.Python, "nn.Module: Linear_0", 90, 400)
	b.host(model.Op, "aten::linear", 100, 300).host(model.Op, "aten::addmm", 150, 250)
	b.launch("volta_sgemm_64x64_nn", 200, 5, 1000, 1100)
	b.host(model.Op, "aten::add", 500, 600)
	b.launch("elementwise_kernel", 510, 5, 1100, 1110)
	// An operator that calls itself counts its host time once.
	b.host(model.Op, "aten::to", 700, 800).host(model.Op, "aten::to", 710, 790)
	a := summarise(t, nil, b)
	want := []OperatorTime{
		{Name: "aten::addmm", Count: 1, HostNS: 100, SelfNS: 100, GPUNS: 100, StepSelfNS: 100, StepGPUNS: 100, Where: "train.py(5): step"},
		{Name: "aten::add", Count: 1, HostNS: 100, SelfNS: 100, GPUNS: 10, StepSelfNS: 100, StepGPUNS: 10, Where: "train.py(5): step"},
		{Name: "aten::linear", Count: 1, HostNS: 200, SelfNS: 100, StepSelfNS: 100, Where: "train.py(5): step"},
		{Name: "aten::to", Count: 2, HostNS: 100, SelfNS: 100, StepSelfNS: 100, Where: "train.py(5): step"},
	}
	if diff := cmp.Diff(want, a.Operators); diff != "" {
		t.Error(diff)
	}
	modules := []OperatorTime{
		{Name: "Linear_0", Count: 1, HostNS: 310, SelfNS: 310, GPUNS: 100, StepSelfNS: 310, StepGPUNS: 100, Where: "train.py(5): step"},
		{Name: "Net_0", Count: 1, HostNS: 900, SelfNS: 590, GPUNS: 10, StepSelfNS: 590, StepGPUNS: 10, Where: "train.py(5): step"},
	}
	if diff := cmp.Diff(modules, a.Modules); diff != "" {
		t.Error(diff)
	}
}

// TestCountedRanges: layers are shown one by one, iterations together.
func TestCountedRanges(t *testing.T) {
	b := newBuilder()
	for i := range int64(100) {
		b.host(model.Annotation, fmt.Sprintf("iteration %d", i), i*100, i*100+99)
	}
	for i := range int64(3) {
		b.host(model.Annotation, fmt.Sprintf("layer %d", i), 200+i*100, 200+i*100+50)
	}
	var names []string
	for _, m := range summarise(t, nil, b).Modules {
		names = append(names, fmt.Sprintf("%s x%d", m.Name, m.Count))
	}
	want := []string{"iteration # x99", "layer 0 x1", "layer 1 x1", "layer 2 x1"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestKernels(t *testing.T) {
	b := newBuilder().host(model.Op, "aten::mul", 0, 100).host(model.Op, "aten::add", 200, 300)
	b.launch("elementwise_kernel", 10, 5, 400, 410).launch("elementwise_kernel", 210, 5, 500, 530).launch("elementwise_kernel", 220, 5, 600, 620)
	b.gpu(model.Memcpy, "Memcpy HtoD (Pinned -> Device)", 700, 800)
	want := []KernelTime{
		{Name: "Memcpy HtoD (Pinned -> Device)", Class: model.Copy, Count: 1, NS: 100, Median: 100},
		{Name: "elementwise_kernel", Class: model.Elementwise, Count: 3, NS: 60, Median: 20, Operator: "aten::add"},
	}
	if diff := cmp.Diff(want, summarise(t, nil, b).Kernels); diff != "" {
		t.Error(diff)
	}
}

func TestCopies(t *testing.T) {
	b := newBuilder()
	copyOf := func(corr, start int64, dir model.Direction, m model.HostMemory) {
		b.host(model.API, "cudaMemcpyAsync", start, start+40, withExt(corr))
		b.gpu(model.Memcpy, "copy", start+50, start+60, func(g *model.GPU) { g.Corr, g.Dir, g.Memory, g.Bytes = corr, dir, m, 1000 })
	}
	copyOf(1, 0, model.H2D, model.Pageable)
	copyOf(2, 100, model.H2D, model.Pinned)
	copyOf(3, 200, model.D2H, model.Pageable)
	copyOf(4, 300, model.D2H, model.Pinned)
	copyOf(5, 400, model.D2D, model.UnknownMemory)
	copyOf(6, 500, model.P2P, model.UnknownMemory)
	copyOf(7, 600, model.H2D, model.UnknownMemory)
	b.host(model.API, "cudaGraphLaunch", 700, 790, withExt(8)) // many copies, one call: its time is nobody's
	for i := range int64(2) {
		b.gpu(model.Memcpy, "copy", 800+i*20, 810+i*20, func(g *model.GPU) { g.Corr, g.Dir, g.Graph = 8, model.D2D, true })
	}
	one := CopyTime{Count: 1, Bytes: 1000, GPUNS: 10, HostNS: 40}
	want := map[string]CopyTime{
		"h2d_pageable": one, "h2d_pinned": one, "d2h_pageable": one, "d2h_pinned": one, "p2p": one, "h2d_unknown": one,
		"d2d": {Count: 3, Bytes: 1000, GPUNS: 30, HostNS: 40},
	}
	if diff := cmp.Diff(want, summarise(t, nil, b).Copies); diff != "" {
		t.Error(diff)
	}
}

func TestSyncs(t *testing.T) {
	b := newBuilder().launch("k", 0, 5, 10, 20)
	b.host(model.API, "cudaStreamSynchronize", 30, 40).host(model.API, "cudaStreamSynchronize", 50, 65).host(model.API, "cudaEventQuery", 70, 75)
	b.host(model.API, "cudaDeviceSynchronize", 80, 180)
	want := map[string]CallTime{"cudaStreamSynchronize": {Count: 2, HostNS: 25}}
	if diff := cmp.Diff(want, summarise(t, nil, b).Syncs); diff != "" {
		t.Error(diff)
	}
}

func TestFindings(t *testing.T) {
	b := newBuilder()
	for i := range int64(3) {
		b.host(model.Step, fmt.Sprintf("ProfilerStep#%d", i), i*1000, (i+1)*1000)
	}
	b.launch("k", 0, 5, 0, 3000)
	rules := func(x *Index, l *Ledger) []Found {
		var out []Found
		for _, f := range []gpuprof.Finding{{Rule: "none"}, {Rule: "low", ClaimNS: 40}, {Rule: "high", ClaimNS: 200}, {Rule: "medium", ClaimNS: 60}} {
			out = append(out, Found{Finding: f})
		}
		return out
	}
	a := summarise(t, rules, b)
	var got []string
	for _, f := range a.Findings {
		got = append(got, fmt.Sprintf("%s %s %d %.2f", f.Rule, f.Severity, f.StepNS, f.Share))
	}
	want := []string{"high high 100 0.10", "medium medium 30 0.03", "low low 20 0.02", "none info 0 0.00"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "null") {
		t.Errorf("lists are null in the JSON: %s", text)
	}
}

// rankTrace is one rank: computation, then an all-reduce that took wait.
func rankTrace(rank int, compute, wait int64) *builder {
	b := newBuilder()
	b.t.Rank, b.t.World = rank, 3
	for i := range int64(3) {
		at := i * 1000
		b.host(model.Step, fmt.Sprintf("ProfilerStep#%d", i), at, at+1000)
		b.launch("volta_sgemm_64x64_nn", at+1, 2, at+10, at+10+compute)
		b.launch("ncclDevKernel_AllReduce", at+5, 2, at+compute-10, at+10+compute+wait)
	}
	return b
}

func TestRankTimes(t *testing.T) {
	a := summarise(t, nil, rankTrace(0, 300, 500), rankTrace(1, 780, 20), rankTrace(2, 320, 480))
	// Of each step 20 ns of the all-reduce lie under computation.
	want := []RankTime{
		{Rank: 0, Input: 0, StepNS: 1000, ComputeNS: 300, CommNS: 520, ExposedCommNS: 500, HiddenCommNS: 20, IdleNS: 1000 - 800},
		{Rank: 1, Input: 1, StepNS: 1000, ComputeNS: 780, CommNS: 40, ExposedCommNS: 20, HiddenCommNS: 20, IdleNS: 1000 - 800},
		{Rank: 2, Input: 2, StepNS: 1000, ComputeNS: 320, CommNS: 500, ExposedCommNS: 480, HiddenCommNS: 20, IdleNS: 1000 - 800},
	}
	if diff := cmp.Diff(want, a.Ranks); diff != "" {
		t.Error(diff)
	}
	if r := summarise(t, nil, rankTrace(0, 300, 500)).Ranks; r != nil {
		t.Errorf("a single rank is compared with itself: %+v", r)
	}
}
