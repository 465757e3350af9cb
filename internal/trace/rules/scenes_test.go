package rules_test

import (
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Kernel names as the libraries write them.
const (
	sgemm     = "ampere_sgemm_128x64_tn"
	tf32gemm  = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_execute_kernel__5x_cublas"
	tf32conv  = "sm80_xmma_fprop_implicit_gemm_indexed_wo_smem_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x32x16_stage1_warpsize4x1x1_g1_tensor16x8x8_t1r3s3_execute_kernel_5x_cudnn"
	simtConv  = "ampere_scudnn_128x64_relu_xregs_large_nn_v1"
	bf16gemm  = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn"
	addKernel = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int, at::native::CUDAFunctor_add<float>)"
	fillName  = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::Array<char*, 1> >(int, at::native::FillFunctor<float>, at::detail::Array<char*, 1>)"
	radixSort = "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, long, int>::Policy800, false, long, long, int, int>(int*, int*, int*)"
	oddGEMM   = "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"
	mulKernel = "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > >(int)"
	copying   = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)"
	softmax   = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 9, false, false>(c10::BFloat16*)"
	broadcast = "ncclDevKernel_Broadcast_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
	allReduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
)

// ruleScenes are, for every rule, a program that has what it looks for and one
// that nearly has. Claims were worked out from the scene by hand: see claim.
type ruleScene struct {
	rule  string
	fires func() *scene
	// claim is what the rule claims of the steady steps, in ns.
	claim int64
	quiet func() *scene
}

func ruleScenes() []ruleScene {
	return []ruleScene{
		// claims nothing
		{rule: "not-steady", claim: 0, fires: sceneStartUp(false), quiet: sceneStartUp(true)},
		// claims nothing; 400 tokens are above the balance of every device
		{rule: "decode-bytes", claim: 0, fires: sceneDecode(32, bf16gemm, false), quiet: sceneDecode(400, bf16gemm, false)},
		// 3 of the release after the last kernel, 90 the allocation, 2 starts and an end of operators
		{rule: "allocator-churn", claim: 2 * 96 * us, fires: sceneAllocator(true), quiet: sceneAllocator(false)},
		// a fetch of 3,002 us, in the first 1,383 of which the device works
		{rule: "dataloader-stall", claim: 2 * 1619 * us, fires: sceneLoader(3000 * us), quiet: sceneLoader(60 * us)},
		// 3 until the copy's call returns, 5 synchronise, 2 ends of operators, 150 work, 1 start of one
		{rule: "hidden-sync", claim: 2 * 161 * us, fires: sceneCopyBack(model.Pageable, true), quiet: sceneCopyBack(model.Pinned, false)},
		// 3 until the call returns, an end of an operator, 150 work, 1 start of one
		{rule: "blocking-copy", claim: 2 * 155 * us, fires: sceneBlockingCopy("hipMemcpyWithStream"), quiet: sceneBlockingCopy("hipMemcpyAsync")},
		// 3 until the call returns, 200 work, 1 start of an operator
		{rule: "explicit-sync", claim: 2 * 204 * us, fires: sceneSync("cudaDeviceSynchronize"), quiet: sceneSync("cudaEventQuery")},
		// 3 until the copy's call returns, 5 synchronise, 2 ends of operators, 120 work, 1 start of one
		{rule: "item", claim: 2 * 131 * us, fires: sceneItem(true), quiet: sceneItem(false)},
		// 3 until the call returns, 1 end of an operator, 80 work, 1 start of one
		{rule: "data-dependent-shape", claim: 2 * 85 * us, fires: sceneNonzero(true), quiet: sceneNonzero(false)},
		// 1 MiB at 2 bytes a ns less 1 MiB at 8; 3 until the call returns, 1 end of an operator, 1 start of one
		{rule: "pageable-h2d", claim: 2 * (1<<19 - 1<<17 + 5*us), fires: scenePageable(1 << 20), quiet: scenePageable(32 << 10)},
		// the migrations, but for what kernels overlap
		{rule: "unified-memory", claim: 2 * 400 * us, fires: sceneUnified(500 * us), quiet: sceneUnified(0)},
		// the copies
		{rule: "exposed-copy", claim: 2 * 200 * us, fires: sceneCopies(7), quiet: sceneCopies(20)},
		// the kernels before the first product
		{rule: "ddp-buffers", claim: 2 * 41 * us, fires: sceneBuffers("c10d::broadcast_", broadcast), quiet: sceneBuffers("c10d::allreduce_", allReduce)},
		// 9 gaps of 15 us between kernels of a step
		{rule: "eager-decode", claim: 3 * 9 * 15 * us, fires: sceneServing(4, false, false), quiet: sceneServing(4, true, false)},
		// twice 5 gaps of 9 us, and 2 and 11 us where the steps begin; 8 from each launch to its kernel
		{rule: "launch-bound", claim: 199 * us, fires: sceneSmallKernels(2 * us), quiet: sceneSmallKernels(40 * us)},
		// seven eighths of 160 us
		{rule: "no-tf32", claim: 2 * 2 * 140 * us, fires: sceneGEMM(8, sgemm), quiet: sceneGEMM(8, tf32gemm)},
		// seven eighths of 160 us
		{rule: "no-amp", claim: 2 * 2 * 140 * us, fires: sceneGEMM(7, "volta_sgemm_128x64_tn"), quiet: sceneGEMM(8, bf16gemm)},
		// seven eighths of 160 us
		{rule: "tensor-cores", claim: 2 * 140 * us, fires: sceneHalf(oddGEMM), quiet: sceneHalf(bf16gemm)},
		// 160 us less 2 x 512 x 4096 x 3238 FLOPs at 87 % of 312 TF/s
		{rule: "off-peak-gemm", claim: 2 * 109_966, fires: sceneShapes(512, 4096, 3238), quiet: sceneShapes(512, 4096, 3240)},
		// the sorts of index_put_, not those of sort()
		{rule: "deterministic", claim: 2 * 30 * us, fires: sceneSort("aten::_index_put_impl_"), quiet: sceneSort("aten::embedding_dense_backward")},
		// the fills
		{rule: "deterministic-fill", claim: 2 * 25 * us, fires: sceneFill("aten::empty_strided"), quiet: sceneFill("aten::zeros")},
		// scaling and softmax
		{rule: "unfused-attention", claim: 2 * 50 * us, fires: sceneAttention("aten::bmm"), quiet: sceneAttention("aten::mm")},
		// 4·8·16·2048²·128 FLOPs at 73 % of 312 TFLOP/s are 1,206.9 us of 2,000; a head of 512 has no flash kernel
		{rule: "attention-off-peak", claim: 2 * 793_124, fires: sceneCutlass(128), quiet: sceneCutlass(512)},
		// Three operators of 300 us: reading, or writing, one tensor of two, and both in the middle. In the quiet one a product stands between.
		{rule: "memory-bound-chain", claim: 2 * 600 * us, fires: sceneMemory(false), quiet: sceneMemory(true)},
		// the two shorter ones of three kernels
		{rule: "elementwise-chain", claim: 2 * 80 * us, fires: sceneChain(false), quiet: sceneChain(true)},
		// four of 50 us for 1 MB in a row, where another takes 40 us for 4 MB: 40 us too long each, but for the first
		{rule: "small-collective", claim: 2 * 3 * 40 * us, fires: sceneLoopOfCollectives(false), quiet: sceneLoopOfCollectives(true)},
		// the receives of the steps that count
		{rule: "pipeline-bubble", claim: 3 * 400 * us, fires: scenePipeline(400 * us), quiet: scenePipeline(10 * us)},
		// 600 us that begin 7 after the 500 of work
		{rule: "exposed-comm", claim: 2 * 107 * us, fires: sceneComm(600 * us), quiet: sceneComm(250 * us)},
		// from the 200 us of the kernels to the launch at 1009, and 8 to its kernel
		{rule: "host-bound", claim: 2 * 817 * us, fires: sceneHostWork(1000 * us), quiet: sceneHostWork(60 * us)},
		// all samples outside operators, which have 402 us of a step of 502; 1 ns less for rounding down
		{rule: "checkpoint-write", claim: 2 * 401_999, fires: sceneOutside(80, model.InNative, "torch", "torch/serialization.py"), quiet: sceneOutside(4, model.InNative, "torch", "torch/serialization.py")},
		{rule: "logging", claim: 2 * 401_999, fires: sceneOutside(80, model.Blocked, "other", "logging/__init__.py"), quiet: sceneOutside(4, model.Blocked, "other", "logging/__init__.py")},
		// the clocks bound the claim of a blocked line: 502 us less 300 on a CPU; the wait for a CPU follows the block
		{rule: "outside-operators", claim: 2 * 202 * us, fires: sceneOutside(80, model.Blocked, "other"), quiet: sceneOutside(4, model.InPython, "other")},
		// 60 of 100 samples of a step of 502 us
		{rule: "recomputation", claim: 2 * 301_200, fires: sceneRecompute(1 << 30), quiet: sceneRecompute(1 << 20)},
		// nine tenths of a run delay of 150 us
		{rule: "starved-machine", claim: 2 * 135 * us, fires: sampledScene(clocksOfStep(9, 1), func(*hostSampler, int) {}), quiet: sampledScene(clocksOfStep(1, 9), func(*hostSampler, int) {})},
		// half of 100 us of operators
		{rule: "float64-parameters", claim: 2 * 50 * us, fires: sceneFacts(model.HostFacts{Optimizer: &model.HostOptimizer{Class: "SGD", Parameters: 4, Float64: 4}}), quiet: sceneFacts(model.HostFacts{Optimizer: &model.HostOptimizer{Class: "SGD", Parameters: 4, Float64: 1}})},
		// claim nothing
		{rule: "too-many-threads", claim: 0, fires: sceneFacts(model.HostFacts{Threads: 16, CPUs: 2}), quiet: sceneFacts(model.HostFacts{Threads: 2, CPUs: 2})},
		{rule: "anomaly-mode", claim: 0, fires: sceneFacts(model.HostFacts{Anomaly: true}), quiet: sceneFacts(model.HostFacts{})},
		{rule: "optimizer-loop", claim: 0, fires: sceneOptimizer(false), quiet: sceneOptimizer(true)},
		// the waits for the event
		{rule: "stream-wait", claim: 2 * 400 * us, fires: sceneStreams(400 * us), quiet: sceneStreams(20 * us)},
		// 84 of 108 multiprocessors for 3 times 100 us
		{rule: "small-grid", claim: 2 * 233_334, fires: sceneGrid(24), quiet: sceneGrid(1080)},
		// claim nothing
		{rule: "one-kernel", claim: 0, fires: sceneOneKernel("main_46_gpu"), quiet: sceneOneKernel("cutlass::Kernel")},
		{rule: "prefill-in-decode", claim: 0, fires: sceneServing(7, true, true), quiet: sceneServing(5, true, false)},
		{rule: "decode-allreduce", claim: 0, fires: sceneAllReduce(sumKernel, 40*us), quiet: sceneAllReduce(sumKernel, 5*us)},
		{rule: "scheduler-gap", claim: 0, fires: sceneServingPause(500 * us), quiet: sceneServingPause(10 * us)},
		{rule: "recompilation", claim: 0, fires: sceneRecompiles(3), quiet: sceneRecompiles(0)},
		// claims nothing
		{rule: "host-operator", claim: 0, fires: sceneHostOperator(700 * us), quiet: sceneHostOperator(100 * us)},
		// claims nothing
		{rule: "trace-quality", claim: 0, fires: sceneGraph(true), quiet: sceneGraph(false)},
	}
}

// A step of three matrix products in 16 bits, long enough to stay ahead of.
func (s *scene) products(n int, ns int64) {
	for range n {
		s.op("aten::mm", bf16gemm, ns)
	}
}

func sceneLoader(ns int64) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.loader(ns)
			s.products(3, 500*us)
			s.in("Optimizer.step#SGD.step", func() { s.work(100 * us) })
		}).end()
	}
}

func sceneCopyBack(mem model.HostMemory, blocking bool) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.products(2, 400*us)
			s.inKind(model.Op, "aten::to", "/home/me/train.py(41): step;/usr/lib/python3/dist-packages/torch/_tensor.py(10): cpu", func() {
				s.in("aten::copy_", func() {
					s.copy(7, model.D2H, mem, 4096, 4*us, blocking)
					if blocking {
						s.wait("cudaStreamSynchronize")
					}
				})
			})
			s.work(150 * us)
			s.products(1, 100*us)
		}).end()
	}
}

func sceneSync(call string) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.products(2, 400*us)
			if call == "cudaEventQuery" {
				s.call(call, callTime)
			} else {
				s.wait(call)
			}
			s.work(200 * us)
			s.products(1, 300*us)
		}).end()
	}
}

func sceneItem(onDevice bool) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.products(2, 300*us)
			if onDevice {
				s.item()
			} else {
				s.in("aten::item", func() { s.in("aten::_local_scalar_dense", func() { s.work(2 * us) }) })
			}
			s.work(120 * us)
			s.products(1, 300*us)
		}).end()
	}
}

func sceneNonzero(waits bool) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.products(1, 300*us)
			s.in("aten::nonzero", func() {
				s.kernel("void at_cuda_detail::cub::DeviceReduceKernel<at_cuda_detail::cub::DeviceReducePolicy<bool, int> >(bool)", 10*us)
				if waits {
					s.copy(7, model.D2H, model.Pinned, 4, 2*us, false)
					s.wait("cudaStreamSynchronize")
				}
			})
			s.work(80 * us)
			s.products(1, 300*us)
		}).end()
	}
}

// Two copies from pageable memory a step at 2 bytes a ns, and one from pinned
// memory at 8.
func scenePageable(bytes int64) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.in("aten::copy_", func() { s.copy(7, model.H2D, model.Pageable, bytes, bytes/2, true) })
			s.in("aten::copy_", func() { s.copy(7, model.H2D, model.Pinned, 64<<10, 8192, false) })
			s.products(2, 2000*us)
		}).end()
	}
}

// Copies on the kernels' own stream, or on another beside them.
func sceneCopies(stream int64) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.products(2, 400*us)
			s.in("aten::copy_", func() { s.copy(stream, model.H2D, model.Pinned, 1<<20, 200*us, false) })
			s.products(2, 400*us)
		}).end()
	}
}

func sceneSmallKernels(ns int64) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			for range 6 {
				s.op("aten::add", addKernel, ns)
				s.work(12 * us) // Python
			}
		}).end()
	}
}

func sceneGrid(blocks int64) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			for range 3 {
				s.in("aten::mm", func() { s.kernelOn(7, bf16gemm, 100*us, blocks) })
			}
		}).end()
	}
}

// A program of OpenACC with a long kernel, by its name, beside a short one.
func sceneOneKernel(name string) func() *scene {
	return func() *scene {
		s := newScene()
		s.native = true
		return s.repeat(4, func() {
			s.kernelOn(7, "main_12_gpu", 20*us, 1080)
			s.kernelOn(7, name, 400*us, 1080)
		}).end()
	}
}

func sceneGEMM(major int, name string) func() *scene {
	return func() *scene {
		s := newScene()
		s.device.Major = major
		if major == 7 {
			s.device.Name, s.device.SMs = "Tesla V100-SXM2-32GB", 80
		}
		return s.repeat(3, func() {
			for range 2 {
				s.op("aten::addmm", name, 160*us)
				s.op("aten::add", addKernel, 40*us)
			}
		}).end()
	}
}

func sceneAllocator(always bool) func() *scene {
	return func() *scene {
		s := newScene()
		n := 0
		return s.repeat(3, func() {
			s.products(2, 40*us)
			if always || n == 0 {
				s.wait("cudaFree")
				s.in("aten::empty", func() { s.call("cudaMalloc", 90*us) })
			}
			n++
			s.products(1, 40*us)
		}).end()
	}
}

func sceneSort(op string) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.products(1, 100*us)
			s.in(op, func() { s.kernel(radixSort, 30*us) })
			s.in("aten::sort", func() { s.kernel(radixSort, 20*us) })
		}).end()
	}
}

func sceneFill(op string) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.in(op, func() {
				if op == "aten::zeros" {
					s.in("aten::empty", func() {})
				}
				s.op("aten::fill_", fillName, 25*us)
			})
			s.products(2, 100*us)
		}).end()
	}
}

// A reduction of gradients beside 500 us of work on another stream.
func sceneComm(ns int64) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.products(1, 500*us)
			s.in("c10d::allreduce_", func() { s.kernelOn(20, allReduce, ns, 24) })
			s.wait("cudaStreamSynchronize")
		}).end()
	}
}

func sceneGraph(graph bool) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.products(1, 100*us)
			if graph {
				c := s.call("cudaGraphLaunch", 20*us)
				for k := range int64(4) {
					s.gpu(sceneEvent{kind: model.Kernel, name: addKernel, corr: c, stream: 7, blocks: 4096, graph: 11 + k}, 5*us)
				}
			} else {
				s.products(4, 5*us)
			}
		}).end()
	}
}

// The creation of a context, and then kernels: in steps, or in one pass.
func sceneStartUp(steps bool) func() *scene {
	return func() *scene {
		s := newScene()
		s.call("cudaMalloc", 200_000*us)
		if steps {
			return s.repeat(3, func() { s.products(3, 500*us) }).end()
		}
		s.products(3, 500*us)
		return s.end()
	}
}

// A step on the host alone, in which one operator takes so long and others 100 us each.
func sceneHostOperator(ns int64) func() *scene {
	return func() *scene {
		s := newScene()
		s.device.Name = ""
		return s.repeat(3, func() {
			s.in("aten::conv2d", func() { s.in("aten::_slow_conv2d_forward", func() { s.work(ns) }) })
			for _, op := range []string{"aten::relu", "aten::add", "aten::mul", "aten::max_pool2d"} {
				s.in(op, func() { s.work(100 * us) })
			}
		}).end()
	}
}

// A copy to the host as PyTorch for ROCm makes it: the trace does not say from
// what memory.
func sceneBlockingCopy(call string) func() *scene {
	return func() *scene {
		s := newScene()
		s.device.Name, s.device.Major, s.device.SMs = "AMD Instinct MI300X", 9, 304
		return s.repeat(3, func() {
			s.products(2, 400*us)
			s.in("aten::copy_", func() {
				i := len(s.events)
				c := s.call(call, callTime)
				s.gpu(sceneEvent{kind: model.Memcpy, name: "CopyDeviceToHost", corr: c, stream: 7, bytes: 4096, dir: model.D2H}, 4*us)
				if call == "hipMemcpyWithStream" {
					s.now = max(s.now, s.free[7]+latency)
					s.events[i].end = s.now
				}
			})
			s.work(150 * us)
			s.products(1, 100*us)
		}).end()
	}
}

// What DistributedDataParallel does before a forward pass of a module with buffers.
func sceneBuffers(op, kernel string) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.inKind(model.Annotation, "DistributedDataParallel.forward", "", func() {
				s.op("aten::flatten_dense_tensors", copying, 5*us)
				s.in(op, func() { s.kernelOn(7, kernel, 30*us, 24) })
				s.in("aten::unflatten_dense_tensors", func() {})
				for range 3 {
					s.op("aten::copy_", copying, 2*us)
				}
				s.products(2, 200*us)
			})
		}).end()
	}
}

func sceneHalf(other string) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.products(1, 100*us)
			s.op("aten::addmm", other, 160*us)
		}).end()
	}
}

func sceneAttention(product string) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.op(product, bf16gemm, 100*us)
			s.op("aten::mul", mulKernel, 20*us)
			s.op("aten::_softmax", softmax, 30*us)
			s.op(product, bf16gemm, 100*us)
		}).end()
	}
}

func sceneChain(apart bool) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.products(1, 100*us)
			s.op("aten::mul", mulKernel, 40*us)
			s.op("aten::add", addKernel, 40*us)
			if apart {
				s.products(1, 100*us)
			}
			s.op("aten::to", copying, 60*us)
		}).end()
	}
}

// Work of the host between two long kernels.
func sceneHostWork(ns int64) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.products(1, 100*us)
			s.work(ns)
			s.products(1, 100*us)
		}).end()
	}
}

// A kernel that waits for an event for so long.
func sceneStreams(ns int64) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(3, func() {
			s.products(1, 100*us)
			s.call("cudaStreamWaitEvent", us)
			s.free[7] = max(s.free[7], s.now) + ns
			s.products(1, 100*us)
		}).end()
	}
}
