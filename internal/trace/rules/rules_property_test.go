package rules_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// hostRules claim starved time.
var hostRules = map[string]bool{
	"dataloader-stall": true, "hidden-sync": true, "explicit-sync": true, "item": true, "data-dependent-shape": true,
	"eager-decode": true, "launch-bound": true, "allocator-churn": true, "blocking-copy": true, "host-bound": true,
}

type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

// checkBounds checks what holds for the findings of any one trace: claims are
// never negative, every nanosecond is claimed once, the host's claims lie in
// starved time and the device's in busy time that nothing else overlaps. What
// goes as a whole takes the device's waits for it along, and a copy that holds
// up the host the starving after it.
func checkBounds(t failer, a *analyze.Analysis, x *analyze.Index) {
	t.Helper()
	var starved, busy, queued, kernel, compute model.Spans
	for _, d := range x.Devices {
		starved, busy, queued = starved.Or(d.Starved), busy.Or(d.Busy), queued.Or(d.Queued)
		kernel, compute = kernel.Or(d.Kernel), compute.Or(d.Compute)
	}
	starved, busy, queued = starved.And(x.Steady), busy.And(x.Steady), queued.And(x.Steady)
	var all model.Spans
	var host, device int64
	for i, f := range a.Findings {
		spans := model.Spans(a.Claimed[i])
		if f.ClaimNS > 0 && f.Share < analyze.LeastShare {
			t.Errorf("%s claims %g of the step", f.Rule, f.Share)
		}
		if f.ClaimNS < 0 || f.StepNS < 0 || f.Share < 0 || f.Share > 1 {
			t.Errorf("%s claims %d ns, %d a step, a share of %g", f.Rule, f.ClaimNS, f.StepNS, f.Share)
		}
		if spans.Total() != f.ClaimNS {
			t.Errorf("%s claims %d ns, its spans are %d ns", f.Rule, f.ClaimNS, spans.Total())
		}
		if both := all.And(spans); both.Total() > 0 {
			t.Errorf("%s claims %d ns that another rule has: %v", f.Rule, both.Total(), both)
		}
		all = all.Or(spans)
		if len(x.Devices) == 0 {
			continue
		}
		if hostRules[f.Rule] {
			host += f.ClaimNS
			late := starved
			if f.Rule == "launch-bound" || f.Rule == "host-bound" || f.Rule == "eager-decode" { // with the latency of late launches
				late = starved.Or(queued)
			}
			if out := spans.Minus(late); len(out) > 0 {
				t.Errorf("%s claims time that is not starved: %v", f.Rule, out)
			}
			continue
		}
		of := busy
		switch f.Rule {
		case "pageable-h2d", "ddp-buffers":
			of = busy.Or(queued).Or(starved)
		case "deterministic", "deterministic-fill", "unfused-attention", "elementwise-chain":
			of = busy.Or(queued)
		case "stream-wait":
			of = queued
		}
		device += spans.And(busy).Total()
		if out := spans.Minus(of); len(out) > 0 {
			t.Errorf("%s claims time in which the device does nothing: %v", f.Rule, out)
		}
		if len(x.Devices) > 1 {
			continue // one device may compute while another copies
		}
		switch f.Rule {
		case "pageable-h2d", "exposed-copy":
			if over := spans.And(kernel); len(over) > 0 {
				t.Errorf("%s claims time that kernels overlap: %v", f.Rule, over)
			}
		case "exposed-comm":
			if over := spans.And(compute); len(over) > 0 {
				t.Errorf("%s claims time that computation overlaps: %v", f.Rule, over)
			}
		}
	}
	if idle := starved.Or(queued).Total(); len(x.Devices) > 0 && host > idle {
		t.Errorf("the host's claims are %d ns, starved and queued are %d", host, idle)
	}
	if device > busy.Total() {
		t.Errorf("the device's claims are %d ns, busy are %d", device, busy.Total())
	}
}

func TestSceneBounds(t *testing.T) {
	for _, c := range ruleScenes() {
		for _, s := range []*scene{c.fires(), c.quiet()} {
			a, x := analyse(t, s.trace())
			checkBounds(t, a, x)
		}
	}
}

// Claims stay within bounds for programs nobody would write.
func TestClaimBoundsOfAnyProgram(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		in := randomScene(r).trace()
		x, err := analyze.NewIndex(t.Context(), in)
		if err != nil {
			r.Fatal(err)
		}
		a, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{Rules: rules.Rules})
		if err != nil {
			r.Fatal(err)
		}
		checkBounds(r, a, x)
		b, err := analyze.SummariseIndexes(t.Context(), []*analyze.Index{x}, analyze.Options{Rules: rules.Rules})
		if err != nil {
			r.Fatal(err)
		}
		first, err := json.Marshal(a)
		if err != nil {
			r.Fatal(err)
		}
		second, err := json.Marshal(b)
		if err != nil {
			r.Fatal(err)
		}
		if string(first) != string(second) {
			r.Errorf("two analyses of one trace differ:\n%s\n%s", first, second)
		}
	})
}

// randomScene acts out a program of random actions on up to three devices,
// recorded with the faults that profilers have.
func randomScene(r *rapid.T) *scene {
	s := newScene()
	s.device.Major = rapid.SampledFrom([]int{0, 7, 8, 9}).Draw(r, "capability")
	s.device.SMs = rapid.SampledFrom([]int{0, 80, 108}).Draw(r, "multiprocessors")
	devices := rapid.IntRange(1, 3).Draw(r, "devices")
	action := func() {
		if devices > 1 {
			s.on = uint16(rapid.IntRange(0, devices-1).Draw(r, "device"))
		}
		s.act(r)
	}
	body := func() {
		for range rapid.IntRange(0, 8).Draw(r, "actions") {
			action()
		}
	}
	if rapid.Bool().Draw(r, "stepped") {
		s.repeat(rapid.IntRange(1, 5).Draw(r, "steps"), body)
	} else {
		body()
		body()
	}
	if rapid.Bool().Draw(r, "closed") {
		s.end()
	}
	return s
}

func (s *scene) act(r *rapid.T) {
	length := int64(rapid.IntRange(0, 2000).Draw(r, "us")) * us / 4
	kernels := []string{sgemm, tf32gemm, bf16gemm, addKernel, fillName, radixSort, allReduce, "volta_scudnn_128x64_relu_interior_nn_v1"}
	kernel := rapid.SampledFrom(kernels).Draw(r, "kernel")
	stream := rapid.SampledFrom([]int64{7, 7, 7, 20}).Draw(r, "stream")
	op := rapid.SampledFrom([]string{"aten::mm", "aten::index_put_", "aten::empty", "aten::nonzero", "aten::copy_", "aten::embedding_dense_backward"}).Draw(r, "operator")
	switch rapid.IntRange(0, 13).Draw(r, "action") {
	case 0, 1, 2:
		s.in(op, func() { s.kernelOn(stream, kernel, length, 24) })
	case 3:
		for range 8 {
			s.op(op, addKernel, length/200)
		}
	case 4:
		s.work(length)
	case 5:
		s.loader(length)
	case 6:
		s.item()
	case 7:
		s.in(op, func() {
			mem := rapid.SampledFrom([]model.HostMemory{model.Pageable, model.Pinned}).Draw(r, "memory")
			dir := rapid.SampledFrom([]model.Direction{model.H2D, model.D2H, model.D2D}).Draw(r, "direction")
			s.copy(stream, dir, mem, int64(rapid.IntRange(4, 4<<20).Draw(r, "bytes")), length, mem == model.Pageable)
		})
	case 8:
		s.in(op, func() {
			s.wait(rapid.SampledFrom([]string{"cudaStreamSynchronize", "cuCtxSynchronize", "hipEventSynchronize"}).Draw(r, "call"))
		})
	case 9:
		s.call(rapid.SampledFrom([]string{"cudaMalloc", "cudaFree", "hipFree"}).Draw(r, "call"), length)
	case 10: // a launch whose kernel is missing
		s.call("cudaLaunchKernel", callTime)
	case 11: // a kernel whose launch is missing
		s.gpu(sceneEvent{kind: model.Kernel, name: kernel, stream: stream, blocks: 10}, length)
	case 12:
		c := s.call("cudaGraphLaunch", callTime)
		for k := range int64(3) {
			s.gpu(sceneEvent{kind: model.Kernel, name: kernel, corr: c, stream: stream, blocks: 4096, graph: 1 + k}, length/4)
		}
	case 13:
		s.inKind(model.Python, fmt.Sprintf("train.py(%d): step", length), "", func() { s.op(op, kernel, length) })
	}
}
