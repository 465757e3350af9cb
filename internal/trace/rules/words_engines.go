package rules

import (
	"cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// ruleFewerBits is the key in engineFlags for the advice to store weights in 8 bits. The rule decode-bytes appends it
// to its other advice.
const ruleFewerBits = gpuprof.RuleDecodeBytes + "/fewer-bits"

// ruleFusion is the key in engineFlags for advice to compile operators that run one by one.
const ruleFusion = "fusion"

// plainPyTorch is the key in engineFlags for PyTorch programs without a serving engine.
const plainPyTorch = ""

// engineFlags has, by engine and rule, the advised change of the engine's settings.
var engineFlags = map[string]adviceTable{
	"vLLM": {
		gpuprof.RuleLaunchBound:     "vllm serve without --enforce-eager: compiled pieces and graphs replace single launches; more requests per step (--max-num-seqs, --max-num-batched-tokens)",
		gpuprof.RulePrefillInDecode: "vllm serve --max-num-batched-tokens N with a smaller N: chunked prefill then gives each step fewer tokens of prefill; first tokens come later",
		gpuprof.RuleEagerDecode:     "vllm serve without --enforce-eager, and cudagraph_capture_sizes (--compilation-config) that reach the number of running requests",
		gpuprof.RuleSchedulerGap:    "vllm serve --async-scheduling, where it is off",
		gpuprof.RuleDecodeBytes:     "more requests per step: vllm serve --max-num-seqs N, with memory for their keys and values (--gpu-memory-utilization)",
		ruleFewerBits:               "--quantization fp8 halves the bytes of the weights",
		ruleFusion:                  "vllm serve without --enforce-eager: its compiler makes one kernel of such operators",
		gpuprof.RuleDecodeAllReduce: "vllm serve without --disable-custom-all-reduce, and a smaller --tensor-parallel-size where the model fits, with --data-parallel-size for the other GPUs",
		gpuprof.RuleExpertImbalance: "vllm serve --enable-expert-parallel --enable-eplb",
		gpuprof.RulePipelineBubble:  "vllm serve with a smaller --pipeline-parallel-size, or more running requests (--max-num-seqs), so that every stage has a batch",
	},
	"SGLang": {
		gpuprof.RuleLaunchBound:     "python -m sglang.launch_server without --disable-cuda-graph and --disable-piecewise-cuda-graph; more requests per step (--max-running-requests)",
		gpuprof.RulePrefillInDecode: "python -m sglang.launch_server --chunked-prefill-size N with a smaller N; first tokens come later",
		gpuprof.RuleEagerDecode:     "python -m sglang.launch_server without --disable-cuda-graph, and --cuda-graph-max-bs no less than the number of running requests",
		gpuprof.RuleSchedulerGap:    "python -m sglang.launch_server without --disable-overlap-schedule",
		gpuprof.RuleDecodeBytes:     "more requests per step: python -m sglang.launch_server --max-running-requests N, with memory for their keys and values (--mem-fraction-static)",
		ruleFewerBits:               "--quantization fp8 halves the bytes of the weights",
		ruleFusion:                  "python -m sglang.launch_server --enable-torch-compile makes one kernel of such operators, for small batches",
		gpuprof.RuleDecodeAllReduce: "python -m sglang.launch_server without --disable-custom-all-reduce, and a smaller --tp-size where the model fits, with --dp-size for the other GPUs",
		gpuprof.RuleExpertImbalance: "python -m sglang.launch_server --enable-eplb",
		gpuprof.RulePipelineBubble:  "python -m sglang.launch_server with a smaller --pp-size, or more running requests (--max-running-requests), so that every stage has a batch",
	},
	"TensorRT-LLM": {
		gpuprof.RuleLaunchBound:     "cuda_graph_config with batch_sizes that reach the number of running requests, and torch_compile_config; a larger max_batch_size",
		gpuprof.RulePrefillInDecode: "enable_chunked_prefill: true with a smaller max_num_tokens; first tokens come later",
		gpuprof.RuleEagerDecode:     "cuda_graph_config with batch_sizes, or max_batch_size, that reach the number of running requests",
		gpuprof.RuleSchedulerGap:    "disable_overlap_scheduler: false",
		gpuprof.RuleDecodeBytes:     "more requests per step: a larger max_batch_size, with memory for their keys and values (kv_cache_config.free_gpu_memory_fraction)",
		ruleFusion:                  "torch_compile_config makes one kernel of such operators",
		ruleFewerBits:               "a checkpoint in FP8 (TensorRT Model Optimizer) halves the bytes of the weights",
		gpuprof.RuleDecodeAllReduce: "allreduce_strategy: AUTO, and a smaller tensor_parallel_size where the model fits",
		gpuprof.RuleExpertImbalance: "moe_config.load_balancer with a configuration of expert slots",
		gpuprof.RulePipelineBubble:  "a smaller pipeline_parallel_size, or more running requests (max_batch_size), so that every stage has a batch",
	},
	"Hugging Face": {
		gpuprof.RuleEagerDecode: `model.generation_config.cache_implementation = "static" and model.forward = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)`,
		gpuprof.RuleDecodeBytes: "more prompts per call of model.generate (padding_side=\"left\"), or an engine that batches requests continuously (vLLM, SGLang)",
		ruleFewerBits:           "from_pretrained(..., quantization_config=TorchAoConfig(\"float8_weight_only\")) halves the bytes of the weights",
	},
	"DeepSpeed": {
		gpuprof.RulePipelineBubble:  "more micro-batches: gradient_accumulation_steps larger, train_micro_batch_size_per_gpu smaller",
		gpuprof.RuleExpertImbalance: "deepspeed.moe.layer.MoE(..., capacity_factor=1.0), and its load-balancing loss (l_aux) in the loss",
	},
	"Megatron": {
		gpuprof.RulePipelineBubble:  "more micro-batches (--micro-batch-size smaller), and an interleaved schedule (--num-layers-per-virtual-pipeline-stage)",
		gpuprof.RuleExpertImbalance: "--moe-router-load-balancing-type aux_loss with a larger --moe-aux-loss-coeff, or --moe-expert-capacity-factor",
	},
	plainPyTorch: {
		gpuprof.RuleEagerDecode:     `torch.compile(decode_one_token, mode="reduce-overhead", fullgraph=True) with a cache of fixed size`,
		gpuprof.RuleDecodeBytes:     "more sequences per step",
		ruleFewerBits:               "torchao.quantization.quantize_(model, Float8WeightOnlyConfig()) halves the bytes of the weights",
		gpuprof.RulePipelineBubble:  "more micro-batches (n_microbatches), and an interleaved schedule (torch.distributed.pipelining.ScheduleInterleaved1F1B)",
		gpuprof.RuleExpertImbalance: "a load-balancing loss on the router, or a capacity per expert",
	},
}

// adviseParallelism returns the advice for a rule about several ranks: the engine's settings, else the advice for plain
// PyTorch.
func adviseParallelism(x *analyze.Index, rule string) string {
	return cmp.Or(adviseEngineOf(x, rule), engineFlags[plainPyTorch][rule])
}

// adviseEngine returns the advice of a rule as settings of the program's engine, or "" if the engine is unknown or has
// no such setting.
func (c *ruleContext) adviseEngine(rule string) string { return adviseEngineOf(c.x, rule) }

// adviseEngineOf returns the advice of a rule as settings of the program's engine; "" without one. PyTorch programs
// without an engine have a row in engineFlags too.
func adviseEngineOf(x *analyze.Index, rule string) string {
	if x.Recording.Engine == plainPyTorch && (x.Recording.Program != analyze.PyTorch || x.ServesRequests()) {
		return ""
	}
	return engineFlags[x.Recording.Engine][rule]
}
