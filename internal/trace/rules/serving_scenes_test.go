package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	decodeKernel  = "kernel_unified_attention_3d"
	prefillKernel = "kernel_unified_attention_2d"
)

// launches acts out the kernels of a decode step one at a time, or as one graph.
func (s *scene) launches(n int, name string, ns int64, graph bool) {
	if !graph {
		for range n {
			s.kernel(name, ns)
			s.work(12 * us) // Python
		}
		return
	}
	c := s.call("cudaGraphLaunch", callTime)
	for i := range n {
		s.gpu(sceneEvent{kind: model.Kernel, name: name, corr: c, stream: 7, blocks: 4096, graph: int64(i + 1)}, ns)
	}
}

// engineStep acts out a step by the name that an engine gives it, up to the read of its tokens.
func (s *scene) engineStep(name string, body func()) {
	s.inKind(model.Annotation, name, "", func() {
		body()
		s.wait("cudaStreamSynchronize")
	})
}

// sceneServing serves steps of vLLM: decode by graphs or kernel by kernel, and steps of prefill among them.
func sceneServing(steps int, graphs, mixed bool) func() *scene {
	return func() *scene {
		s := newScene()
		for k := range steps {
			if mixed && k%3 == 2 { // steps 2 and 5
				s.engineStep("execute_context_1(512)_generation_8(8)", func() { s.launches(2, prefillKernel, 150*us, false) })
			} else {
				s.engineStep("execute_context_0(0)_generation_8(8)", func() { s.launches(10, decodeKernel, 2*us, graphs) })
			}
			s.work(us)
		}
		return s.end()
	}
}

// An engine without requests goes through its loop too: a step in which nothing is launched is none.
func TestIdleStepsOfAnEngine(t *testing.T) {
	s := newScene()
	for range 3 {
		s.engineStep("execute_context_1(1024)_generation_0(0)", func() { s.launches(4, prefillKernel, 400*us, false) })
		s.engineStep("execute_context_0(0)_generation_0(0)", func() { s.work(120 * us) })
	}
	a, _ := analyse(t, s.end().trace())
	if a.Step.Count != 2 || a.Step.NS < 1600*us {
		t.Errorf("%d steps of %d ns", a.Step.Count, a.Step.NS)
	}
}

func sceneServingPause(pause int64) func() *scene {
	return func() *scene {
		s := newScene()
		for range 5 {
			s.engineStep("step[DECODE bs=8]", func() { s.launches(6, decodeKernel, 400*us, true) })
			s.work(pause)
		}
		return s.end()
	}
}

// sceneRecompiles compiles in so many steps after the first one.
func sceneRecompiles(n int) func() *scene {
	return func() *scene {
		s := newScene()
		for k := range 6 {
			s.step(func() {
				if k > 0 && k <= n {
					s.inKind(model.Annotation, fmt.Sprintf("Torch-Compiled Region: 0/%d", k), "", func() {
						s.inKind(model.Annotation, "compile_fx_inner (dynamo_timed)", "", func() { s.work(3000 * us) })
					})
				}
				for range 4 {
					s.op("aten::mm", bf16gemm, 100*us)
				}
			})
		}
		return s.end()
	}
}

// The evidence of the findings about engines, the flag of the engine, and silence where no engine is known.
func TestServingFindings(t *testing.T) {
	a, _ := analyse(t, sceneServing(7, true, true)().trace())
	f := mustFind(t, a, gpuprof.RulePrefillInDecode)
	evidence(t, f, map[string]any{"decode_steps": 4, "mixed_steps": 2, "prefill_steps": 0})
	if !strings.HasPrefix(f.PyTorch, "vllm serve --max-num-batched-tokens") || !strings.HasPrefix(f.Title, "2 steps with prefill between decode steps take ") {
		t.Errorf("%s: %s", f.Title, f.PyTorch)
	}
	later := f.Evidence["prefill_median_ns"].(int64) - f.Evidence["decode_median_ns"].(int64)
	if got := f.Evidence["later_ns"].(int64); got < 2*later-2*us || got > 2*later+2*us {
		t.Errorf("running requests wait %d ns longer, and 2 steps take %d ns longer each", got, later)
	}
	a, _ = analyse(t, sceneServing(4, false, false)().trace())
	f = mustFind(t, a, gpuprof.RuleEagerDecode)
	evidence(t, f, map[string]any{"decode_steps": 3, "eager_decode_steps": 3, "kernels_per_step": int64(10)})
	if !strings.Contains(f.PyTorch, "--enforce-eager") {
		t.Error(f.PyTorch)
	}
	s := newScene() // a graph of three kernels, and attention outside of it in every layer
	for range 4 {
		s.engineStep("execute_context_0(0)_generation_8(8)", func() {
			s.launches(3, decodeKernel, 2*us, true)
			s.launches(9, decodeKernel, 2*us, false)
		})
	}
	a, _ = analyse(t, s.end().trace())
	evidence(t, mustFind(t, a, gpuprof.RuleEagerDecode), map[string]any{"eager_decode_steps": 3, "kernels_per_step": int64(9), "graph_percent": 25.0})
	a, _ = analyse(t, sceneServingPause(500*us)().trace())
	f = mustFind(t, a, gpuprof.RuleSchedulerGap)
	evidence(t, f, map[string]any{"pauses": 3})
	// 500 us of the pause, two ends of the range, 3 until the wait returns, 8 from the launch to its kernel
	if got := f.Evidence["median_ns"].(int64); got < 500*us || got > 520*us {
		t.Errorf("the device is idle for %d ns between steps", got)
	}
	if !strings.Contains(f.PyTorch, "--disable-overlap-schedule") {
		t.Error(f.PyTorch)
	}
	unknown := sceneServingPause(500 * us)()
	for i := range unknown.events {
		unknown.events[i].name = strings.Replace(unknown.events[i].name, "step[DECODE bs=8]", "decode[bs=8/8 tok=8 d=8]", 1)
	}
	a, _ = analyse(t, unknown.trace())
	if f = mustFind(t, a, gpuprof.RuleSchedulerGap); f.PyTorch != "no change is known for this kind of program" {
		t.Errorf("the flags of another engine: %s", f.PyTorch)
	}
}

// A prefill before the first decode step, or after the last one, keeps no running request waiting.
func TestPrefillThatInterruptsNothing(t *testing.T) {
	s := newScene()
	prefill := func() {
		s.engineStep("step[EXTEND bs=1 toks=512]", func() { s.launches(12, prefillKernel, 50*us, false) })
	}
	prefill()
	prefill()
	for range 6 {
		s.engineStep("step[DECODE bs=8]", func() { s.launches(12, decodeKernel, 2*us, true) })
	}
	prefill()
	a, _ := analyse(t, s.end().trace())
	if f := find(a, gpuprof.RulePrefillInDecode); f != nil {
		t.Error(f.Title)
	}
}
