package rules_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// The settings of a recording are those that its events show, and no others.
func TestSettingsSeen(t *testing.T) {
	graph := sceneGraph(true)
	for _, c := range []struct {
		name string
		of   func() *scene
		want map[string]string // "" not seen
	}{
		{"products in FP32", sceneGEMM(8, sgemm), map[string]string{"matrix products": "fp32", "data loader": "", "code": "eager", "attention": ""}},
		{"in TF32", sceneGEMM(8, tf32gemm), map[string]string{"matrix products": "tf32"}},
		{"in 16 bits", sceneGEMM(8, bf16gemm), map[string]string{"matrix products": "16-bit", "kernels started by": "a launch each"}},
		{"a loader without workers", sceneLoader(3000 * us), map[string]string{"data loader": "in the main process", "copies to the device": ""}},
		{"pageable copies", scenePageable(1 << 20), map[string]string{"copies to the device": "from pageable memory"}},
		{"scalars of the device", sceneItem(true), map[string]string{"scalars read per step": "1"}},
		{"scalars of the host", sceneItem(false), map[string]string{"scalars read per step": "0"}},
		{"attention of operators", sceneAttention("aten::bmm"), map[string]string{"attention": "single operators"}},
		{"a graph", graph, map[string]string{"kernels started by": "CUDA graphs"}},
		{"a fused kernel", func() *scene { return repeatedOp("aten::_flash_attention_forward", "flash_fwd_kernel") }, map[string]string{"attention": "fused"}},
		{"compiled", func() *scene { return repeatedOp("triton_poi_fused_add_0", "triton_poi_fused_add_0") }, map[string]string{"code": "compiled"}},
		{"a fused optimizer", func() *scene { return optimizerStep("aten::_fused_adamw_") }, map[string]string{"optimizer": "fused"}},
		{"foreach", func() *scene { return optimizerStep("aten::_foreach_add_", "aten::add_") }, map[string]string{"optimizer": "foreach"}},
		{"a loop", func() *scene { return optimizerStep("aten::add_", "aten::addcdiv_") }, map[string]string{"optimizer": "a loop over the parameters"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := analyse(t, c.of().trace())
			got := map[string]string{}
			for _, s := range a.Recording.Settings {
				got[s.Name] = s.Value
			}
			for name, want := range c.want {
				if got[name] != want {
					t.Errorf("%s is %q, want %q", name, got[name], want)
				}
			}
		})
	}
}

// A setting that is on is not advised: no compilation where regions of the program are compiled.
func TestCompiledProgramsAreNotToldToCompile(t *testing.T) {
	for _, compiled := range []bool{false, true} {
		s := sceneChain(false)()
		tr := s.trace()
		if compiled {
			tr.Names = append(tr.Names, "Torch-Compiled Region: 0/0")
		}
		a, _ := analyse(t, tr)
		f := mustFind(t, a, gpuprof.RuleElementwiseChain)
		if got := strings.HasPrefix(f.PyTorch, "torch.compile(model)"); got == compiled {
			t.Errorf("compiled %v: %s", compiled, f.PyTorch)
		}
	}
}

// An engine's own switch compiles its operators; where its graphs show that the switch is on, no change is known.
func TestEnginesCompileByTheirFlags(t *testing.T) {
	for _, test := range []struct {
		step, want string
		graphs     bool
	}{
		{"execute_context_0(0)_generation_8(8)", "vllm serve without --enforce-eager", false},
		{"execute_context_0(0)_generation_8(8)", analyze.NoChange, true},
		{"step[DECODE bs=8]", "python -m sglang.launch_server --enable-torch-compile", false},
	} {
		s := newScene()
		for range 5 {
			s.engineStep(test.step, func() {
				s.launches(20, decodeKernel, 20*us, test.graphs)
				for range 4 {
					s.op("aten::mul", mulKernel, 40*us)
					s.op("aten::add", addKernel, 40*us)
				}
				s.op("aten::mm", bf16gemm, 100*us)
			})
		}
		a, _ := analyse(t, s.end().trace())
		if f := mustFind(t, a, gpuprof.RuleElementwiseChain); !strings.HasPrefix(f.PyTorch, test.want) {
			t.Errorf("%s, graphs %v: %s", test.step, test.graphs, f.PyTorch)
		}
	}
}

func repeatedOp(op, kernel string) *scene {
	s := newScene()
	return s.repeat(3, func() {
		s.op("aten::add", addKernel, 40*us)
		s.op(op, kernel, 100*us)
	}).end()
}

func optimizerStep(ops ...string) *scene {
	s := newScene()
	return s.repeat(3, func() {
		s.op("aten::addmm", bf16gemm, 100*us)
		s.inKind(model.Annotation, "Optimizer.step#AdamW.step", "", func() {
			for _, op := range ops {
				s.op(op, addKernel, 20*us)
			}
		})
	}).end()
}
