package analyze

import (
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

func TestKernelNames(t *testing.T) {
	for _, c := range []struct {
		name string
		want model.Class
	}{
		{"volta_sgemm_128x32_nt", model.GEMM},
		{"ampere_sgemm_64x64_tn", model.GEMM},
		{"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas", model.GEMM},
		{"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>(Params)", model.GEMM},
		{"void cublasLt::splitKreduce_kernel<32, 16, int>", model.GEMM},
		{"nvjet_hsh_128x64_64x8_1x2_h_bz_coopA_TNT", model.GEMM},
		{"Cijk_Ailk_Bljk_SB_MT64x64x16_SE_K1", model.GEMM},
		{"_ZN2ck16tensor_operation6device14kernel_gemm_xdl_cshuffle_v3INS_28GridwiseGemm", model.GEMM},
		{"_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_47GridwiseGemm", model.Conv},
		{"_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28GridwiseGemm", model.Conv},
		{"igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt64x64x64", model.Conv},
		{"Im2d2Col_v2", model.Conv},
		{"void fft2d_c2r_32x32<float, (bool)0>(T1 *, const float2 *, int, cudnn::reduced_divisor)", model.Conv},
		{"void flip_filter<float, float>(T2 *, const T1 *, int, int, int, int)", model.Conv},
		{"SubTensorOpWithScalar1d", model.Elementwise},
		{"MIOpenBatchNormFwdTrainSpatialNorm", model.Norm},
		{"batched_transpose_16x32_half", model.Copy},
		{"attn_fwd", model.Attention},
		{"bwd_kernel_dk_dv", model.Attention},
		{"_ZN7ck_tile6kentryILi1ENS_13FmhaFwdKernelINS_24BlockFmhaPipelineQRKSVS", model.Attention},
		{"__amd_rocclr_fillBufferAligned", model.Copy},
		{"__amd_rocclr_copyBuffer", model.Copy},
		{"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", model.Communication},
		{"rccl_main_kernel", model.Communication},
		{"void gemv2T_kernel_val<int, int, float, float>", model.GEMM},
		{"triton_mm", model.GEMM},
		{"triton_tem_fused_mm_3", model.GEMM},
		{"triton_tem_fused_convolution_1", model.Conv},
		{"triton_poi_fused_convolution_relu_2", model.Elementwise},
		{"triton_poi_fused_add_mul_0", model.Elementwise},
		{"triton_red_fused_sum_1", model.Reduction},
		{"triton_per_fused__softmax_4", model.Reduction},
		{"triton_per_fused_add_native_layer_norm_5", model.Norm},
		{"triton_poi_fused_index_add_new_zeros_7", model.Scatter},
		{"triton_poi_fused_slice_scatter_7", model.Elementwise},
		{"triton_tem_fused_flex_attention_0", model.Attention},
		{"triton__0d1d2d", model.Other},
		{"volta_scudnn_128x64_relu_interior_nn_v1", model.Conv},
		{"sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw", model.Conv},
		{"void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", model.Conv},
		{"void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>", model.Conv},
		{"void convert_fp32_to_bf16_kernel_elementwise", model.Elementwise},
		{"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", model.Communication},
		{"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", model.Communication},
		{"void vllm::cross_device_reduce_1stage<half, 2>", model.Communication},
		{"void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>", model.Attention},
		{"fmha_cutlassF_f32_aligned_64x64_rf_sm80(AttentionKernel)", model.Attention},
		{"void elemWiseRNNcell<float, float, float, (cudnnRNNMode_t)3>", model.RNN},
		{"void at::native::(anonymous namespace)::indexFuncLargeIndex<float, long>", model.Scatter},
		{"void at::native::_scatter_gather_elementwise_kernel<128, 8>", model.Scatter},
		{"void at::native::indexing_backward_kernel<float, 4>", model.Scatter},
		{"void segment_csr_kernel<float, (ReductionType)0, 1>", model.Scatter},
		{"void at::native::vectorized_layer_norm_kernel<float, float>", model.Norm},
		{"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>", model.Norm},
		{"void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>", model.Optimizer},
		{"void at::native::multi_tensor_apply_kernel<TensorListMetadata<1>, LpNormFunctor<float, NormType>>", model.Reduction},
		{"void at::native::multi_tensor_apply_kernel<TensorListMetadata<2>, UnaryOpFunctor<long, 2, 1, 1>, at::native::Copy<long, long>>", model.Copy},
		{"void at::native::reduce_kernel<512, 1, ReduceOp<float>>", model.Reduction},
		{"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", model.Elementwise},
		{"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>", model.Copy},
		{"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>", model.Copy},
		{"tensor_product_uniform_1d_jit_kernel", model.TensorProduct},
		{"void sptp_linear_fwd_kernel", model.TensorProduct},
		{"void fbgemm_gpu::bounds_check_indices_kernel<long>", model.Other},
		{"my_kernel", model.Other},
	} {
		b := newBuilder().launch(c.name, 0, 5, 10, 20)
		if got := b.index(t).Class(0); got != c.want {
			t.Errorf("%s: class %s, want %s", c.name, got, c.want)
		}
	}
}

// TestParents: the operators around a launch decide before the kernel's name.
func TestParents(t *testing.T) {
	const plain, sgemm = "vectorized_elementwise_kernel", "volta_sgemm_64x64_nn"
	for _, c := range []struct {
		name   string
		around []string // outermost first; "py:" a Python frame, "ann:" an annotation, else an operator
		kernel string
		want   model.Class
	}{
		{"convolution through a matrix product", []string{"aten::conv2d", "aten::cudnn_convolution"}, sgemm, model.Conv},
		{"bias of a convolution", []string{"aten::conv2d", "aten::_convolution", "aten::add_"}, plain, model.Elementwise},
		{"bias of a convolution without an operator of its own", []string{"aten::conv2d", "aten::convolution"}, plain, model.Elementwise},
		{"gradient of its bias", []string{"ConvolutionBackward0", "aten::convolution_backward"}, "void at::native::reduce_kernel<512, 1>", model.Reduction},
		{"a module called convolution that has none of e3nn", []string{"py:nn.Module: Convolution_0", "aten::relu"}, plain, model.Elementwise},
		{"its matrix product", []string{"py:nn.Module: Convolution_0", "aten::mm"}, sgemm, model.GEMM},
		{"e3nn convolution, its product", []string{"py:nn.Module: TensorProduct_7", "py:nn.Module: Convolution_0", "aten::einsum", "aten::bmm"}, sgemm, model.TensorProduct},
		{"cast before a convolution", []string{"aten::conv2d", "aten::to", "aten::_to_copy", "aten::copy_"}, plain, model.Copy},
		{"backward of a convolution", []string{"autograd::engine::evaluate_function: ConvolutionBackward0", "ConvolutionBackward0", "aten::convolution_backward"}, "my_engine", model.Conv},
		{"linear", []string{"aten::linear", "aten::addmm"}, sgemm, model.GEMM},
		{"einsum", []string{"aten::einsum", "aten::bmm"}, sgemm, model.GEMM},
		{"attention by matrix products", []string{"aten::scaled_dot_product_attention", "aten::_scaled_dot_product_attention_math", "aten::matmul"}, sgemm, model.Attention},
		{"lstm by matrix products", []string{"aten::lstm", "aten::linear", "aten::addmm"}, sgemm, model.RNN},
		{"gru", []string{"aten::gru", "aten::_cudnn_rnn"}, sgemm, model.RNN},
		{"grid sampler is no gru", []string{"aten::grid_sampler_2d"}, "my_sampler", model.Other},
		{"layer norm", []string{"aten::layer_norm", "aten::native_layer_norm"}, plain, model.Norm},
		{"vector norm", []string{"aten::linalg_vector_norm"}, "reduce_kernel", model.Reduction},
		{"index_add", []string{"aten::index_add_"}, plain, model.Scatter},
		{"index_put sorts", []string{"aten::index_put_", "aten::_index_put_impl_", "aten::sort"}, "radixSortKVInPlace", model.Scatter},
		{"torch_scatter", []string{"torch_scatter::scatter_sum"}, "my_kernel", model.Scatter},
		{"segment matrix products are no reduction", []string{"pyg::segment_matmul"}, "my_kernel", model.GEMM},
		{"gradient of an embedding", []string{"EmbeddingBackward0", "aten::embedding_backward", "aten::embedding_dense_backward"}, "my_sort", model.Scatter},
		{"gradient of indexing", []string{"IndexBackward0", "aten::_index_put_impl_"}, "my_kernel", model.Scatter},
		{"slice_scatter copies", []string{"aten::slice_scatter"}, plain, model.Copy},
		{"softmax", []string{"aten::_softmax"}, "softmax_warp_forward", model.Reduction},
		{"mul", []string{"aten::mul_"}, plain, model.Elementwise},
		{"exp and expand differ", []string{"ExpandBackward0", "aten::sum"}, "reduce_kernel", model.Reduction},
		{"optimizer range", []string{"ann:Optimizer.step#Adam.step", "aten::add_"}, plain, model.Optimizer},
		{"optimizer range without operators", []string{"ann:Optimizer.step#FusedAdam.step"}, "my_kernel", model.Optimizer},
		{"communication in an optimizer", []string{"ann:Optimizer.step#ZeRO.step", "c10d::allreduce_"}, "ncclKernel_AllReduce", model.Communication},
		{"compiled graph", []string{"CompiledFxGraph"}, "triton_per_fused_native_layer_norm_0", model.Norm},
		{"compiled graph, matrix product", []string{"Torch-Compiled Region: 0/0", "CompiledFunction"}, sgemm, model.GEMM},
		{"library with gemm in its name", []string{"fbgemm::permute_2D_sparse_data"}, "my_kernel", model.Other},
		{"cuequivariance", []string{"cuequivariance::tensor_product"}, "kernel_0", model.TensorProduct},
		{"openequivariance", []string{"libtorch_tp_jit::jit_tp_forward"}, "forward", model.TensorProduct},
		{"flashTP", []string{"sptp_linear::sptp_linear_fwd_v2_shared"}, "forward_kernel", model.TensorProduct},
		{"e3nn tensor product as einsum", []string{"py:nn.Module: FullyConnectedTensorProduct_3", "py:nn.Module: GraphModule_7", "aten::einsum", "aten::bmm"}, sgemm, model.TensorProduct},
		{"its products by element", []string{"py:nn.Module: TensorProduct_0", "py:nn.Module: RecursiveScriptModule_1", "aten::mul"}, plain, model.TensorProduct},
		{"a sum over neighbours inside", []string{"py:nn.Module: Convolution_0", "aten::index_add_"}, plain, model.Scatter},
		{"the radial network inside", []string{"py:nn.Module: Convolution_0", "py:nn.Module: FullyConnectedNet_0", "aten::mm"}, sgemm, model.GEMM},
		{"e3nn convolution", []string{"py:nn.Module: TensorProduct_7", "py:nn.Module: Convolution_0", "aten::mul"}, plain, model.Elementwise},
		{"torch convolution", []string{"py:nn.Module: Conv2d_0", "aten::conv2d"}, "my_kernel", model.Conv},
		{"range of e3nn", []string{"ann:FullyConnectedTensorProduct(8x0e+8x1o x 1x0e -> 8x0e | 64 paths)", "aten::bmm"}, sgemm, model.TensorProduct},
		{"plain range inside a model", []string{"ann:readout", "aten::bmm"}, sgemm, model.GEMM},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder()
			for i, n := range c.around {
				k := model.Op
				if len(n) > 3 && n[:3] == "py:" {
					k, n = model.Python, n[3:]
				} else if len(n) > 4 && n[:4] == "ann:" {
					k, n = model.Annotation, n[4:]
				}
				b.host(k, n, int64(i), int64(1000-i))
			}
			b.launch(c.kernel, 100, 5, 2000, 2100)
			if got := b.index(t).Class(0); got != c.want {
				t.Errorf("class %s, want %s", got, c.want)
			}
		})
	}
}

func TestCopiesAreCopies(t *testing.T) {
	b := newBuilder().host(model.Op, "aten::mm", 0, 100).
		gpu(model.Memcpy, "Memcpy DtoD (Device -> Device)", 10, 20).gpu(model.Memset, "Memset (Device)", 30, 40)
	x := b.index(t)
	for i := range x.T.GPU {
		if x.Class(int32(i)) != model.Copy {
			t.Errorf("event %d: class %s, want copy", i, x.Class(int32(i)))
		}
	}
}

// TestBackwardModule: kernels of the backward pass run on a thread of their
// own and belong to the module whose gradient they compute.
func TestBackwardModule(t *testing.T) {
	b := newBuilder()
	b.host(model.Python, "train.py(7): step", 0, 500)
	b.host(model.Python, "nn.Module: TensorProduct_0", 10, 200)
	b.host(model.Op, "aten::bmm", 20, 100, withSeq(8))
	b.launch("volta_sgemm_64x64_nn", 30, 5, 300, 400)
	b.host(model.Python, "nn.Module: Linear_0", 210, 300).host(model.Op, "aten::addmm", 220, 290, withSeq(9))
	b.host(model.Op, "autograd::engine::evaluate_function: BmmBackward0", 600, 800, onLane(1), withSeq(8))
	b.host(model.Op, "BmmBackward0", 610, 790, onLane(1), withSeq(8))
	b.host(model.Op, "aten::bmm", 620, 700, onLane(1))
	b.launch("volta_sgemm_64x64_nt", 630, 5, 900, 1000, onLane(1))
	x := b.index(t)
	g := x.findGPU(t, "volta_sgemm_64x64_nt")
	launch := x.T.GPU[g].Launch
	if got := x.Module(launch); got != "TensorProduct_0" {
		t.Errorf("module %q, want TensorProduct_0", got)
	}
	if got := x.Class(g); got != model.TensorProduct {
		t.Errorf("class %s, want tensor_product", got)
	}
	if got, want := x.Site(launch), "train.py(7): step (backward)"; got != want {
		t.Errorf("site %q, want %q", got, want)
	}
	if got := x.Module(x.find(t, "train.py(7): step")); got != "" {
		t.Errorf("module of the outermost frame %q, want none", got)
	}
}
