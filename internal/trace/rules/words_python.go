package rules

import "github.com/gpuprof/gpuprof"

const recordCUDA = "record again with gpuprof run --cuda, a shorter stretch (--time-window)"

var jaxWords = adviceTable{
	gpuprof.RuleHostBound:        "more of the step in one function under jax.jit, loops over steps as jax.lax.scan or fori_loop, larger batches; no logging and no conversion to NumPy inside the loop",
	gpuprof.RuleLaunchBound:      "more of the step in one function under jax.jit, loops over steps as jax.lax.scan or fori_loop, larger batches",
	gpuprof.RuleSmallGrid:        "larger batches, jax.vmap over problems that run one after the other",
	gpuprof.RuleDataloaderStall:  "prepare batches ahead in threads or processes, and move the next one with jax.device_put while the device computes",
	gpuprof.RuleHiddenSync:       "keep results on the device: float(x), numpy.asarray(x) and block_until_ready() every N steps, not in each",
	gpuprof.RuleItem:             "keep results on the device: float(x) and numpy.asarray(x) every N steps, not in each",
	gpuprof.RuleBlockingCopy:     "keep results on the device, and jax.device_put the next batch while the device computes",
	gpuprof.RuleExplicitSync:     "block_until_ready() every N steps, not in each",
	gpuprof.RuleDataShape:        "fixed shapes: jnp.where in place of x[mask], and the size argument of jnp.nonzero and jnp.unique",
	gpuprof.RulePageableH2D:      "jax.device_put of the next batch while the device computes",
	gpuprof.RuleUnifiedMemory:    "leave TF_FORCE_UNIFIED_MEMORY unset and XLA_PYTHON_CLIENT_MEM_FRACTION at most 1, with a model that fits the device",
	gpuprof.RuleExposedCopy:      "jax.device_put of the next batch while the device computes; donate_argnums for buffers that a step replaces",
	gpuprof.RuleNoTF32:           `jax.config.update("jax_default_matmul_precision", "tensorfloat32")`,
	gpuprof.RuleNoAMP:            "jnp.bfloat16 inputs of the products",
	gpuprof.RuleTensorCores:      "jnp.bfloat16 inputs, and sizes that are multiples of 8",
	gpuprof.RuleAllocatorChurn:   "leave XLA_PYTHON_CLIENT_PREALLOCATE and XLA_PYTHON_CLIENT_ALLOCATOR at their defaults",
	gpuprof.RuleUnfusedAttention: "jax.nn.dot_product_attention in place of product, softmax and product",
	gpuprof.RuleElementwiseChain: "these operators in one function under jax.jit, which joins them to one kernel",
	gpuprof.RuleTraceQuality:     "record again with jax.profiler.trace, fewer steps, and jax.profiler.StepTraceAnnotation around each",
}

// xlaWords is the advice by rule for every program that XLA compiles.
var xlaWords = adviceTable{
	gpuprof.RuleExposedComm:       "XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true, and larger work for each collective",
	gpuprof.RuleStreamWait:        "XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true",
	gpuprof.RuleDeterministic:     "leave --xla_gpu_deterministic_ops out of XLA_FLAGS",
	gpuprof.RuleDeterministicFill: "leave --xla_gpu_deterministic_ops out of XLA_FLAGS",
}

var tensorFlowWords = adviceTable{
	gpuprof.RuleHostBound:        "the step in one @tf.function(jit_compile=True), several steps per call (Keras: compile(steps_per_execution=N)); no .numpy() and no logging inside the loop",
	gpuprof.RuleLaunchBound:      "@tf.function(jit_compile=True) around the step; larger batches",
	gpuprof.RuleSmallGrid:        "larger batches; @tf.function(jit_compile=True) joins small kernels",
	gpuprof.RuleDataloaderStall:  "dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE).batch(...).prefetch(tf.data.AUTOTUNE)",
	gpuprof.RuleHiddenSync:       "keep results on the device, and call .numpy() every N steps",
	gpuprof.RuleItem:             "keep results on the device, and call .numpy() every N steps",
	gpuprof.RuleExposedCopy:      `dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0"))`,
	gpuprof.RulePageableH2D:      `dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0"))`,
	gpuprof.RuleNoTF32:           "tf.config.experimental.enable_tensor_float_32_execution(True)",
	gpuprof.RuleNoAMP:            `tf.keras.mixed_precision.set_global_policy("mixed_float16")`,
	gpuprof.RuleTensorCores:      "sizes that are multiples of 8 under the mixed_float16 policy",
	gpuprof.RuleAllocatorChurn:   "TF_GPU_ALLOCATOR=cuda_malloc_async",
	gpuprof.RuleElementwiseChain: "@tf.function(jit_compile=True) around these operators",
	gpuprof.RuleTraceQuality:     "record again with tf.profiler.experimental, fewer steps",
}

// tensorRTWords is the advice by rule for programs that run TensorRT engines.
var tensorRTWords = adviceTable{
	gpuprof.RuleHostBound:       "enqueueV3 captured in a CUDA graph (trtexec --useCudaGraph); inputs of the next request prepared while this one runs; larger batches",
	gpuprof.RuleLaunchBound:     "enqueueV3 captured in a CUDA graph (trtexec --useCudaGraph); larger batches",
	gpuprof.RuleSmallGrid:       "larger batches, or several execution contexts on streams of their own",
	gpuprof.RuleNoTF32:          "BuilderFlag::kTF32 (trtexec without --noTF32)",
	gpuprof.RuleNoAMP:           "a model in FP16 or BF16 (trtexec --fp16, strongly typed networks), or INT8 with calibration",
	gpuprof.RuleTensorCores:     "channels that are multiples of 8, and formats of kHWC8",
	gpuprof.RuleExposedComm:     "one engine per device where it fits",
	gpuprof.RuleDataShape:       "optimization profiles around the shapes that occur, so that outputs have a known size",
	gpuprof.RuleItem:            "bind outputs in memory from cudaHostAlloc and read them behind an event",
	gpuprof.RuleDataloaderStall: "prepare the next input on another thread, in memory from cudaHostAlloc, while the engine runs",
}

var onnxWords = adviceTable{
	gpuprof.RuleHostBound:        "IOBinding with tensors on the device, and enable_cuda_graph=1 of the CUDA execution provider; larger batches",
	gpuprof.RuleLaunchBound:      "enable_cuda_graph=1 of the CUDA execution provider, with IOBinding; larger batches",
	gpuprof.RuleSmallGrid:        "larger batches",
	gpuprof.RuleHiddenSync:       "IOBinding: outputs stay on the device (bind_output(name, \"cuda\"))",
	gpuprof.RuleBlockingCopy:     "IOBinding: inputs and outputs on the device (bind_input, bind_output with \"cuda\")",
	gpuprof.RuleExposedCopy:      "IOBinding: inputs and outputs on the device (bind_input, bind_output with \"cuda\")",
	gpuprof.RulePageableH2D:      "IOBinding with OrtValues on the device",
	gpuprof.RuleAllocatorChurn:   "arena_extend_strategy=kSameAsRequested and shapes that stay the same",
	gpuprof.RuleNoTF32:           "use_tf32=1 of the CUDA execution provider",
	gpuprof.RuleNoAMP:            "onnxconverter_common.float16.convert_float_to_float16(model)",
	gpuprof.RuleUnfusedAttention: "onnxruntime.transformers.optimizer, which fuses attention",
	gpuprof.RuleElementwiseChain: "graph_optimization_level = ORT_ENABLE_ALL",
	gpuprof.RuleTraceQuality:     recordCUDA,
}

// cupyWords is the advice by rule for CuPy and Numba.
var cupyWords = adviceTable{
	gpuprof.RuleHostBound:        "less Python between kernels: cupy.fuse or one cupy.RawKernel, arrays as a whole in place of loops; stream.begin_capture for a loop body with fixed arrays",
	gpuprof.RuleLaunchBound:      "cupy.fuse, or one cupy.RawKernel or numba.cuda kernel in place of several; stream.begin_capture for a loop body with fixed arrays",
	gpuprof.RuleHiddenSync:       "keep results on the device: x.get() and float(x) every N steps, into pinned memory (cupyx.empty_pinned)",
	gpuprof.RuleItem:             "keep results on the device: x.get() and float(x) every N steps",
	gpuprof.RuleBlockingCopy:     "x.set and x.get with a stream, from pinned memory (cupyx.empty_pinned, numba.cuda.pinned_array)",
	gpuprof.RuleExplicitSync:     "remove stream.synchronize() and cuda.synchronize() from the loop, and wait once where the host needs the result",
	gpuprof.RulePageableH2D:      "pinned memory: cupyx.empty_pinned, numba.cuda.pinned_array",
	gpuprof.RuleUnifiedMemory:    "the default memory pool of CuPy in place of cupy.cuda.malloc_managed; numba.cuda.device_array in place of managed_array",
	gpuprof.RuleExposedCopy:      "arrays that stay on the device between calls (cuda.to_device once); copies on a stream of their own from pinned memory",
	gpuprof.RuleAllocatorChurn:   "arrays that are made once before the loop (out= arguments), and the default memory pool left on",
	gpuprof.RuleSmallGrid:        "more blocks for each kernel, or larger arrays",
	gpuprof.RuleElementwiseChain: "cupy.fuse or one cupy.ElementwiseKernel for the kernels named above",
	gpuprof.RuleNoTF32:           "CUPY_TF32=1",
	gpuprof.RuleTraceQuality:     recordCUDA,
}

// tritonWords is the advice by rule for Triton kernels without a known framework.
var tritonWords = adviceTable{
	gpuprof.RuleHostBound:        "less Python between launches; kernels that do more each",
	gpuprof.RuleLaunchBound:      "fewer, larger kernels: join those that follow each other",
	gpuprof.RuleSmallGrid:        "a larger grid: smaller blocks (BLOCK_SIZE), split-K for products with few tiles",
	gpuprof.RuleElementwiseChain: "one kernel for those named above: each of them reads and writes the whole array",
	gpuprof.RuleNoTF32:           `tl.dot(a, b, input_precision="tf32")`,
	gpuprof.RuleNoAMP:            "tl.dot on operands in bfloat16 or float16",
	gpuprof.RuleTraceQuality:     recordCUDA,
}

// pythonWords is the advice by rule for Python programs without a known framework.
var pythonWords = adviceTable{
	gpuprof.RuleHostBound:      "less Python between launches: logging and checks out of the loop, loops over arrays as one call",
	gpuprof.RuleAllocatorChurn: "arrays that are allocated once before the loop",
	gpuprof.RulePageableH2D:    "copy from pinned host memory",
	gpuprof.RuleTraceQuality:   recordCUDA,
}
