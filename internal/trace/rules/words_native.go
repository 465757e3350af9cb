package rules

import "github.com/gpuprof/gpuprof"

// cudaWords is the advice by rule for programs in C++ or Rust that call CUDA.
var cudaWords = adviceTable{
	gpuprof.RuleHostBound:         "less work on the host between launches, or on another thread; the step as one CUDA graph (cudaStreamBeginCapture, cudaGraphLaunch)",
	gpuprof.RuleLaunchBound:       "the step as one CUDA graph (cudaStreamBeginCapture, cudaGraphInstantiate once, cudaGraphLaunch in each step), or fewer, larger kernels: fuse those that run one after the other",
	gpuprof.RuleDataloaderStall:   "prepare the next input on another thread, in memory from cudaHostAlloc, while the device computes",
	gpuprof.RuleHiddenSync:        "copy results into memory from cudaHostAlloc (or cudaHostRegister) with cudaMemcpyAsync, and read them every N steps behind a cudaEventSynchronize; into pageable memory the call waits for the device",
	gpuprof.RuleItem:              "copy results into memory from cudaHostAlloc with cudaMemcpyAsync, and read them every N steps behind a cudaEventSynchronize",
	gpuprof.RuleBlockingCopy:      "cudaMemcpyAsync on a stream, to and from memory from cudaHostAlloc or cudaHostRegister, in place of cudaMemcpy",
	gpuprof.RuleExplicitSync:      "remove cudaDeviceSynchronize and cudaStreamSynchronize from the loop: order work by streams and cudaStreamWaitEvent, and wait once where the host needs the result",
	gpuprof.RuleDataShape:         "keep sizes on the device (cub::DeviceSelect writes its count there) and launch for the largest, in place of reading them in each step",
	gpuprof.RulePageableH2D:       "cudaHostRegister on the buffer once, or cudaHostAlloc for it, and cudaMemcpyAsync",
	gpuprof.RuleUnifiedMemory:     "cudaMemPrefetchAsync of what a kernel reads, before it; cudaMemAdvise (SetPreferredLocation, SetReadMostly) for data that both sides use; or cudaMalloc and cudaMemcpyAsync in place of cudaMallocManaged",
	gpuprof.RuleExposedCopy:       "cudaMemcpyAsync on a stream of its own, from and to memory of cudaHostAlloc, beside the kernels of another step; a copy on the device: swap two buffers instead",
	gpuprof.RuleAllocatorChurn:    "buffers that are allocated once before the loop, or cudaMallocAsync and cudaFreeAsync from a pool (cudaMemPoolAttrReleaseThreshold set high)",
	gpuprof.RuleExposedComm:       "start communication on a stream of its own as soon as its data is there, in pieces, with ncclGroupStart and ncclGroupEnd around small ones",
	gpuprof.RuleStreamWait:        "work that depends on each other on one stream, and cudaEventRecord right behind the kernel that is waited for",
	gpuprof.RuleTraceQuality:      "record again with gpuprof run --cuda, a shorter stretch (--time-window), into a folder with room; of CUDA graphs every node (--graphs node)",
	gpuprof.RuleSmallGrid:         "more blocks for each kernel: larger batches, several problems in one launch, blocks of fewer threads; independent kernels on streams of their own",
	gpuprof.RuleNoTF32:            "cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH), in cuBLASLt CUBLAS_COMPUTE_32F_FAST_TF32, in cuDNN CUDNN_TENSOR_OP_MATH",
	gpuprof.RuleNoAMP:             "inputs of the products in CUDA_R_16BF or CUDA_R_16F with CUBLAS_COMPUTE_32F (cublasGemmEx), sums in FP32",
	gpuprof.RuleTensorCores:       "sizes and leading dimensions of the products named above that are multiples of 8, aligned to 16 bytes",
	gpuprof.RuleUnfusedAttention:  "a fused attention kernel (cuDNN's scaled dot product attention, FlashAttention) in place of product, softmax and product",
	gpuprof.RuleElementwiseChain:  "one kernel for the elementwise kernels named above: each of them reads and writes the whole array",
	gpuprof.RuleDeterministic:     "sort the indices once, outside the loop",
	gpuprof.RuleDeterministicFill: "fill only what is read before it is written",
}

// onePassWords is the advice by rule for C++ programs that make one pass. It names no graphs, which help only if work
// is launched again.
var onePassWords = adviceTable{
	gpuprof.RuleHostBound:   "less work on the host between launches, or on another thread beside the device",
	gpuprof.RuleLaunchBound: "fewer, larger kernels: fuse those that run one after the other; launch all of them before the host waits",
	gpuprof.RuleExposedCopy: "pinned host memory, from which copies are faster; and the data in pieces on several streams, so that one piece is copied while kernels work on another",
}

// libTorchWords is the advice by rule for programs in C++ on PyTorch's C++ library.
var libTorchWords = adviceTable{
	gpuprof.RuleHostBound:         "less work on the host between operators, or on another thread; the step as one CUDA graph (at::cuda::CUDAGraph: capture_begin and capture_end once, replay in each step)",
	gpuprof.RuleLaunchBound:       "the step as one CUDA graph (at::cuda::CUDAGraph: capture_begin and capture_end once, replay in each step); larger batches",
	gpuprof.RuleEagerDecode:       "the step for one token as a CUDA graph (at::cuda::CUDAGraph) with a cache of fixed size",
	gpuprof.RuleDecodeBytes:       "more sequences per step",
	gpuprof.RuleDataloaderStall:   "torch::data::DataLoaderOptions().workers(N), or the next batch prepared on another thread while the device computes",
	gpuprof.RuleHiddenSync:        "keep results on the device, and read them with tensor.item<float>() or tensor.cpu() every N steps",
	gpuprof.RuleItem:              "keep results on the device, and read them with tensor.item<float>() every N steps",
	gpuprof.RuleBlockingCopy:      "tensor.to(device, /*non_blocking=*/true) of tensors in pinned memory (tensor.pin_memory())",
	gpuprof.RuleExplicitSync:      "remove torch::cuda::synchronize() and cudaDeviceSynchronize from the loop, and wait once where the host needs the result",
	gpuprof.RuleDataShape:         "fixed shapes: torch::where in place of an index by a mask, and no torch::nonzero in the loop",
	gpuprof.RulePageableH2D:       "tensor.pin_memory() once, and tensor.to(device, /*non_blocking=*/true)",
	gpuprof.RuleUnifiedMemory:     "tensors in device memory in place of torch::from_blob over managed memory",
	gpuprof.RuleExposedCopy:       "tensor.to(device, /*non_blocking=*/true) from pinned memory on a stream of its own (c10::cuda::CUDAStreamGuard), beside the kernels of another step",
	gpuprof.RuleAllocatorChurn:    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, few different shapes, and no c10::cuda::CUDACachingAllocator::emptyCache() in the loop",
	gpuprof.RuleNoTF32:            "at::globalContext().setAllowTF32CuBLAS(true) and setAllowTF32CuDNN(true)",
	gpuprof.RuleNoAMP:             "model and inputs in 16 bits: module.to(torch::kBFloat16) or module.to(torch::kHalf)",
	gpuprof.RuleTensorCores:       "sizes of the products named above that are multiples of 8",
	gpuprof.RuleUnfusedAttention:  "at::scaled_dot_product_attention in place of product, softmax and product",
	gpuprof.RuleElementwiseChain:  "the model compiled by AOTInductor (torch::inductor::AOTIModelPackageLoader), or one kernel of your own for the operators named above",
	gpuprof.RuleMemoryBoundChain:  "the model compiled by AOTInductor (torch::inductor::AOTIModelPackageLoader), or one kernel of your own for the operators named above",
	gpuprof.RuleDeterministic:     "at::globalContext().setDeterministicAlgorithms(false, false)",
	gpuprof.RuleDeterministicFill: "at::globalContext().setDeterministicFillUninitializedMemory(false)",
	gpuprof.RuleSmallGrid:         "larger batches; independent work on streams of its own (c10::cuda::CUDAStreamGuard)",
	gpuprof.RuleExposedComm:       "start communication on a stream of its own as soon as its data is there, in pieces, with ncclGroupStart and ncclGroupEnd around small ones",
	gpuprof.RuleStreamWait:        "work that depends on each other on one stream, and events (at::cuda::CUDAEvent) recorded right behind the kernel that is waited for",
	gpuprof.RuleTraceQuality:      recordCUDA,
}

// hipWords is the advice by rule for programs that call HIP.
var hipWords = adviceTable{
	gpuprof.RuleHostBound:        "less work on the host between launches, or on another thread; the step as one graph (hipStreamBeginCapture, hipGraphLaunch)",
	gpuprof.RuleLaunchBound:      "the step as one graph (hipStreamBeginCapture, hipGraphInstantiate once, hipGraphLaunch in each step), or fewer, larger kernels",
	gpuprof.RuleHiddenSync:       "copy results into memory from hipHostMalloc with hipMemcpyAsync, and read them every N steps behind a hipEventSynchronize",
	gpuprof.RuleBlockingCopy:     "hipMemcpyAsync on a stream, to and from memory from hipHostMalloc, in place of hipMemcpy",
	gpuprof.RuleExplicitSync:     "remove hipDeviceSynchronize and hipStreamSynchronize from the loop: order work by streams and hipStreamWaitEvent",
	gpuprof.RulePageableH2D:      "hipHostRegister on the buffer once, or hipHostMalloc for it, and hipMemcpyAsync",
	gpuprof.RuleUnifiedMemory:    "hipMemPrefetchAsync of what a kernel reads, before it; hipMemAdvise for data that both sides use; or hipMalloc and hipMemcpyAsync in place of hipMallocManaged",
	gpuprof.RuleExposedCopy:      "hipMemcpyAsync on a stream of its own, from and to memory of hipHostMalloc, beside the kernels of another step",
	gpuprof.RuleAllocatorChurn:   "buffers that are allocated once before the loop, or hipMallocAsync and hipFreeAsync from a pool",
	gpuprof.RuleExposedComm:      "start communication on a stream of its own as soon as its data is there, in pieces",
	gpuprof.RuleStreamWait:       "work that depends on each other on one stream, and hipEventRecord right behind the kernel that is waited for",
	gpuprof.RuleSmallGrid:        "more blocks for each kernel: larger batches, several problems in one launch; independent kernels on streams of their own",
	gpuprof.RuleElementwiseChain: "one kernel for the elementwise kernels named above: each of them reads and writes the whole array",
	gpuprof.RuleTraceQuality:     "record a shorter stretch again with rocprofv3 --runtime-trace --output-format rocpd",
}

// openMPWords is the advice by rule for Fortran, C and C++ with OpenMP target regions.
var openMPWords = adviceTable{
	gpuprof.RuleHostBound:        "keep data and loops on the device: one target data region around the time loop, target regions with nowait and depend, and one taskwait at the end of a step",
	gpuprof.RuleLaunchBound:      "fewer, larger target regions: join loops that follow each other, collapse(n) nested loops, and nowait so that launches overlap",
	gpuprof.RuleHiddenSync:       "target update from only every N steps",
	gpuprof.RuleBlockingCopy:     "one target data region around the time loop, so that copies leave it; target update nowait where a copy has to stay",
	gpuprof.RuleExplicitSync:     "nowait and depend on target regions, and one taskwait where the host needs the result",
	gpuprof.RulePageableH2D:      "arrays from a pinned allocator (omp_alloc with the trait pinned), and one target data region around the time loop",
	gpuprof.RuleUnifiedMemory:    "map clauses in place of unified shared memory",
	gpuprof.RuleExposedCopy:      "one target data region (map(to:), map(alloc:)) or target enter data around the time loop, so that arrays stay on the device; swap pointers on the device between steps",
	gpuprof.RuleAllocatorChurn:   "target enter data map(alloc:) before the time loop, so that arrays are allocated once; private arrays out of the loop",
	gpuprof.RuleStreamWait:       "target regions that depend on each other in one chain of depend clauses",
	gpuprof.RuleSmallGrid:        "teams distribute parallel for with collapse(n), so that there are more teams; several problems in one region",
	gpuprof.RuleElementwiseChain: "one loop for the loops named above: each of them reads and writes the whole array",
	gpuprof.RuleExposedComm:      "MPI on device addresses (use_device_ptr), with non-blocking calls around the part that computes inside",
	gpuprof.RuleTraceQuality:     "record again with gpuprof run --cuda, a shorter stretch (--time-window)",
}

// openACCWords is the advice by rule for Fortran, C and C++ with OpenACC directives.
var openACCWords = adviceTable{
	gpuprof.RuleHostBound:        "keep data and loops on the device: one data region around the time loop, parallel regions with async(queue), and wait once at the end of a step",
	gpuprof.RuleLaunchBound:      "fewer, larger regions: join loops that follow each other into one parallel region, collapse(n) nested loops, and async(queue) so that launches overlap",
	gpuprof.RuleHiddenSync:       "update host only every N steps, with async(queue), from arrays that are pinned (-gpu=pinned)",
	gpuprof.RuleBlockingCopy:     "one data region around the time loop, so that copies leave it; update with async(queue) where a copy has to stay",
	gpuprof.RuleExplicitSync:     "async(queue) on parallel regions and update, and one wait(queue) where the host needs the result",
	gpuprof.RulePageableH2D:      "pinned arrays (-gpu=pinned), and one data region around the time loop",
	gpuprof.RuleUnifiedMemory:    "data regions (!$acc data copyin, create) in place of managed memory, compiled with -gpu=mem:separate",
	gpuprof.RuleExposedCopy:      "one data region (!$acc data copyin, create) around the time loop, with present in the regions inside, so that arrays stay on the device",
	gpuprof.RuleAllocatorChurn:   "!$acc enter data create before the time loop and present inside it, so that arrays are allocated once; automatic arrays and private copies out of the loop",
	gpuprof.RuleStreamWait:       "regions that depend on each other on one async queue",
	gpuprof.RuleSmallGrid:        "collapse(n) nested loops, so that there are more gangs; several problems in one region",
	gpuprof.RuleElementwiseChain: "one loop for the loops named above: each of them reads and writes the whole array",
	gpuprof.RuleExposedComm:      "MPI on device addresses (host_data use_device), with non-blocking calls around the part that computes inside",
	gpuprof.RuleTraceQuality:     "record again with gpuprof run --cuda, a shorter stretch (--time-window)",
}

var juliaWords = adviceTable{
	gpuprof.RuleHostBound:        "type-stable code between kernels, no scalar indexing (CUDA.allowscalar(false)), fewer and larger broadcasts; CUDA.@captured for a loop body with fixed arrays",
	gpuprof.RuleLaunchBound:      "one fused broadcast (@.) or one @cuda kernel in place of several; CUDA.@captured for a loop body with fixed arrays",
	gpuprof.RuleHiddenSync:       "copy results into pinned arrays (CUDA.pin) and read them every N steps",
	gpuprof.RuleBlockingCopy:     "copyto! between device and pinned host arrays (CUDA.pin)",
	gpuprof.RuleExplicitSync:     "remove CUDA.@sync and synchronize() from the loop, and wait once where the host needs the result",
	gpuprof.RuleItem:             "no scalar indexing of a CuArray in the loop (CUDA.allowscalar(false)): reduce on the device and read the result every N steps",
	gpuprof.RulePageableH2D:      "CUDA.pin(array) once, and copyto! from it",
	gpuprof.RuleUnifiedMemory:    "CuArrays in device memory (cu(x; unified=false)) in place of unified ones, and no access to their elements on the host",
	gpuprof.RuleExposedCopy:      "arrays that stay on the device between steps; copyto! from pinned arrays on a task of its own while the step computes",
	gpuprof.RuleAllocatorChurn:   "arrays that are made once before the loop, with in-place functions (mul!, .=) inside it; CUDA.unsafe_free! for large temporaries",
	gpuprof.RuleSmallGrid:        "more blocks for each kernel (launch_configuration gives a size), or larger arrays",
	gpuprof.RuleElementwiseChain: "one fused broadcast (@.) for the kernels named above",
	gpuprof.RuleNoTF32:           "CUDA.math_mode!(CUDA.FAST_MATH)",
	gpuprof.RuleNoAMP:            "CuArrays of Float16 or BFloat16 for the inputs of the products",
	gpuprof.RuleTraceQuality:     "record again with gpuprof run --cuda, a shorter stretch (--time-window)",
}
