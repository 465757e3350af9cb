package rules

import "github.com/gpuprof/gpuprof"

// jaxKnob says what to change in a JAX program for a finding, where the rule's
// own line is one of PyTorch.
func jaxKnob(rule string) string {
	switch rule {
	case gpuprof.RuleHostBound, gpuprof.RuleLaunchBound, gpuprof.RuleSmallGrid:
		return "more of the step in one function under jax.jit, loops over steps as jax.lax.scan or fori_loop, larger batches; no logging and no conversion to NumPy inside the loop"
	case gpuprof.RuleDataloaderStall:
		return "prepare batches ahead in threads or processes, and move the next one with jax.device_put while the device computes"
	case gpuprof.RuleHiddenSync, gpuprof.RuleItem, gpuprof.RuleBlockingCopy, gpuprof.RuleExplicitSync:
		return "keep results on the device: float(x), numpy.asarray(x) and block_until_ready() every N steps, not in each"
	case gpuprof.RuleDataShape:
		return "fixed shapes: jnp.where in place of x[mask], and the size argument of jnp.nonzero and jnp.unique"
	case gpuprof.RulePageableH2D, gpuprof.RuleExposedCopy:
		return "jax.device_put of the next batch while the device computes; donate_argnums for buffers that a step replaces"
	case gpuprof.RuleNoTF32, gpuprof.RuleNoAMP, gpuprof.RuleTensorCores:
		return `jax.config.update("jax_default_matmul_precision", "tensorfloat32"), or jnp.bfloat16 inputs and sizes that are multiples of 8`
	case gpuprof.RuleAllocatorChurn:
		return "leave XLA_PYTHON_CLIENT_PREALLOCATE and XLA_PYTHON_CLIENT_ALLOCATOR at their defaults"
	case gpuprof.RuleUnfusedAttention:
		return "jax.nn.dot_product_attention in place of product, softmax and product"
	case gpuprof.RuleElementwiseChain:
		return "these operators in one function under jax.jit, which joins them to one kernel"
	case gpuprof.RuleExposedComm, gpuprof.RuleStreamWait:
		return "XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true, and larger work for each collective"
	case gpuprof.RuleTraceQuality:
		return "record again with jax.profiler.trace, fewer steps, and jax.profiler.StepTraceAnnotation around each"
	case gpuprof.RuleDeterministic, gpuprof.RuleDeterministicFill:
		return "leave --xla_gpu_deterministic_ops out of XLA_FLAGS"
	}
	return ""
}
