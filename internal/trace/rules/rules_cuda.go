package rules

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// cudaKnob says what to change in a program that calls CUDA itself, in C++, Julia, Rust or CuPy,
// where the rule's own line is one of PyTorch.
func cudaKnob(rule string) string {
	switch rule {
	case gpuprof.RuleNoTF32, gpuprof.RuleNoAMP, gpuprof.RuleTensorCores, gpuprof.RuleUnfusedAttention, gpuprof.RuleElementwiseChain, gpuprof.RuleSmallGrid, gpuprof.RuleDeterministic, gpuprof.RuleDeterministicFill:
		return cudaKernelKnob(rule)
	case gpuprof.RuleHostBound:
		return "less work on the host between launches, or on another thread; the step as one CUDA graph (cudaStreamBeginCapture, cudaGraphLaunch)"
	case gpuprof.RuleLaunchBound:
		return "the step as one CUDA graph (cudaStreamBeginCapture, cudaGraphInstantiate once, cudaGraphLaunch in each step), or fewer, larger kernels: fuse those that run one after the other"
	case gpuprof.RuleDataloaderStall:
		return "prepare the next input on another thread, in memory from cudaHostAlloc, while the device computes"
	case gpuprof.RuleHiddenSync, gpuprof.RuleItem:
		return "copy results into memory from cudaHostAlloc (or cudaHostRegister) with cudaMemcpyAsync, and read them every N steps behind a cudaEventSynchronize; into pageable memory the call waits for the device"
	case gpuprof.RuleBlockingCopy:
		return "cudaMemcpyAsync on a stream, to and from memory from cudaHostAlloc or cudaHostRegister, in place of cudaMemcpy"
	case gpuprof.RuleExplicitSync:
		return "remove cudaDeviceSynchronize and cudaStreamSynchronize from the loop: order work by streams and cudaStreamWaitEvent, and wait once where the host needs the result"
	case gpuprof.RuleDataShape:
		return "keep sizes on the device (cub::DeviceSelect writes its count there) and launch for the largest, in place of reading them in each step"
	case gpuprof.RulePageableH2D:
		return "cudaHostRegister on the buffer once, or cudaHostAlloc for it, and cudaMemcpyAsync"
	case gpuprof.RuleExposedCopy:
		return "the next step's cudaMemcpyAsync on a stream of its own, from memory of cudaHostAlloc, while this step computes; a copy on the device: swap two buffers instead"
	case gpuprof.RuleAllocatorChurn:
		return "cudaMallocAsync and cudaFreeAsync from a pool (cudaMemPoolAttrReleaseThreshold set high), or buffers that are allocated once before the loop"
	case gpuprof.RuleExposedComm:
		return "start communication on a stream of its own as soon as its data is there, in pieces, with ncclGroupStart and ncclGroupEnd around small ones"
	case gpuprof.RuleStreamWait:
		return "work that depends on each other on one stream, and cudaEventRecord right behind the kernel that is waited for"
	case gpuprof.RuleTraceQuality:
		return "record again with gpuprof run --cuda, a shorter stretch (--time-window), into a folder with room; of CUDA graphs every node (--graphs node)"
	}
	return ""
}

// cudaKernelKnob is cudaKnob for what kernels do, whatever the host does.
func cudaKernelKnob(rule string) string {
	switch rule {
	case gpuprof.RuleSmallGrid:
		return "more blocks for each kernel: larger batches, several problems in one launch, blocks of fewer threads; independent kernels on streams of their own"
	case gpuprof.RuleNoTF32:
		return "cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH), in cuBLASLt CUBLAS_COMPUTE_32F_FAST_TF32, in cuDNN CUDNN_TENSOR_OP_MATH"
	case gpuprof.RuleNoAMP:
		return "inputs of the products in CUDA_R_16BF or CUDA_R_16F with CUBLAS_COMPUTE_32F (cublasGemmEx), sums in FP32"
	case gpuprof.RuleTensorCores:
		return "sizes and leading dimensions of the products named above that are multiples of 8, aligned to 16 bytes"
	case gpuprof.RuleUnfusedAttention:
		return "a fused attention kernel (cuDNN's scaled dot product attention, FlashAttention) in place of product, softmax and product"
	case gpuprof.RuleElementwiseChain:
		return "one kernel for the elementwise kernels named above: each of them reads and writes the whole array"
	case gpuprof.RuleDeterministic, gpuprof.RuleDeterministicFill:
		return "sort the indices once, outside the loop, and fill only what is read before it is written"
	}
	return ""
}

// wording is what to change for a finding in the words of what the program is made with; own is
// the rule's line, for PyTorch.
func wording(t *model.Trace, rule, own string) string {
	switch {
	case t.Format == model.XLA || t.Format == model.CUDA && t.Framework == model.JAX:
		return jaxKnob(rule)
	case t.Format != model.CUDA:
		return own
	case t.Framework == model.OtherFramework, rule == gpuprof.RuleTraceQuality:
		return cudaKnob(rule)
	}
	return own
}
