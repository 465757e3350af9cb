package analyze

import "testing"

// A name of each alternative of an engine's expression is found by its words too.
func TestEngineOfNames(t *testing.T) {
	for name, want := range map[string]string{
		"sglang/srt/model.py(12): forward":                 "SGLang",
		"sgl_kernel::rmsnorm":                              "SGLang",
		"step[DECODE bs=32]":                               "SGLang",
		"step[EXTEND bs=15 toks=15360]":                    "SGLang",
		"scheduler.run_batch":                              "SGLang",
		"vllm::unified_attention":                          "vLLM",
		"vllm/v1/worker.py(3): run":                        "vLLM",
		"gpu_model_runner: forward":                        "vLLM",
		"execute_new_2_cached_3":                           "vLLM",
		"execute_context_0(0)_generation_64(64)":           "vLLM",
		"tensorrt_llm/runtime.py(1): step":                 "TensorRT-LLM",
		"[Executor] _forward_step 12: 1 ctx reqs":          "TensorRT-LLM",
		"xfuser/model.py(1): forward":                      "xDiT",
		"execute_diffusion_1_256x256":                      "xDiT",
		"DeepSpeed.engine":                                 "DeepSpeed",
		"deepspeed/runtime/engine.py(5): step":             "DeepSpeed",
		"Megatron/core":                                    "Megatron",
		"[pl][profile]run_training_batch":                  "Lightning",
		"[Strategy]SingleDevice.training_step":             "Lightning",
		"pytorch_lightning/loops.py(2): run":               "Lightning",
		"lightning/pytorch/loops.py(2): run":               "Lightning",
		"mace/modules/blocks.py(1): forward":               "MACE",
		"nn.Module: ScaleShiftMACE_0":                      "MACE",
		"ScaleShiftMACE":                                   "MACE",
		"nn.Module: MACE_0":                                "MACE",
		"nequip/nn/model.py(1): forward":                   "NequIP",
		"e3nn/o3/linear.py(1): forward":                    "e3nn",
		"torch_geometric/nn/conv.py(1): forward":           "PyG",
		"torch_scatter::scatter_sum":                       "PyG",
		"transformers/generation/utils.py(1): sample":      "Hugging Face",
		"GenerationMixin":                                  "Hugging Face",
		"aten::mm":                                         "",
		"an explanation of lightning":                      "",
		"my_sglang_wrapper":                                "",
		"void at::native::vectorized_elementwise_kernel<4": "",
	} {
		if got := recognizeEngine([]string{"aten::add", name}); got != want {
			for _, m := range engineMarks {
				if m.name.MatchString(name) {
					t.Logf("the expression of %s matches", m.engine)
				}
			}
			t.Errorf("%s is of %q, want %q", name, got, want)
		}
	}
}
