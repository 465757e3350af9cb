package analyze

import (
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// llmKernels are kernels of engines for language models, by class: names of public traces and of the engines' sources.
var llmKernels = map[model.Class][]string{
	model.AttentionPrefill: {
		"fmhaSm100aKernel_QkvBfloat16OBfloat16H64PagedKvSlidingOrChunkedCausalP64VarSeqQ128Kv128PersistentContext",
		"_ZN7ck_tile6kentryILi2ENS_39FmhaBatchPrefillWithPagedKVCacheKernelINS_50BlockFmhaBatchPrefillPipelineQRKSVSAsync",
		"void flashinfer::SinglePrefillWithKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1>>",
		"sparse_attn_fwd_kernel", "mla_prefill_ps_asm_fwd",
	},
	model.AttentionDecode: {
		"fmhaSm100aKernel_QkvBfloat16OBfloat16H64PagedKvCausalP64VarSeqQ8Kv128StaticSwapsAbForGeneration",
		"void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 4u>",
		"void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0, 1, 128, 256>",
		"void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, __hip_bfloat16, 128, 128, 256, 3, false>",
		"void vllm::paged_attention_v1_kernel<unsigned short, unsigned short, 128, 16, 128>",
		"void vllm::paged_attention_v2_reduce_kernel<unsigned short, 128, 128, 512>",
		"kernel_unified_attention_3d", "reduce_segments", "_fwd_grouped_kernel_stage1", "_fwd_kernel_stage1", "_fwd_kernel_stage2",
		"void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8>>", "flash_fwd_splitkv_mla_fp8_sparse_kernel",
		"void flash_fwd_mla_combine_kernel<float>", "flash_fwd_splitkv_mla_combine_kernel", "mla_decode_stage1_asm_fwd", "mla_reduce_v1",
		"hk_mla_decode_fwd", "mla_a8w8_qh16_qseqlen1_gqaratio16", "mla_a16w16_qh16_m16x4_n16x1",
		"void mmha::masked_multihead_attention_kernel<__nv_bfloat16>",
	},
	model.Attention: {
		"void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 64, 4>>",
		"void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>",
		"void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128>>",
		"void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>>",
		"void flash::compute_attn_ws<Flash_fwd_kernel_traits<128>>",
		"void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<cute::tuple<cute::C<64>>>>",
		"void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1>>",
		"void flashinfer::BatchPrefillWithRaggedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1>>",
		"void flashinfer::mla::BatchMLAPagedAttentionKernel<flashinfer::mla::KernelTraits<false>>",
		"kernel_unified_attention_2d", "_ZN7ck_tile6kentryILi1ENS_13FmhaFwdKernelINS_24BlockFmhaPipelineQRKSVS", "fmha_fwd_hd128_bf16_rtz",
		"attn_fwd", "sage_fwd", "void qk_int_sv_f16_attn_kernel<128u, 64u, 32u, 64u, 128u, (DataType)3>",
		"fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>::Params)",
	},
	model.KVCache: {
		"void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0>",
		"void vllm::reshape_and_cache_kernel<unsigned short, unsigned short, (vllm::Fp8KVCacheDataType)0>",
		"void vllm::concat_and_cache_mla_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>",
		"void (anonymous namespace)::store_kvcache<2048l, 4, false, long>((anonymous namespace)::StoreKVCacheParams)",
		"fused_rope_store_kernel", "create_flashinfer_kv_indices_triton", "_copy_page_indices_kernel", "fused_qk_rope_concat_and_cache_mla",
		"void flashinfer::AppendPagedKVCacheKernel<128u, 8u>",
		"void tensorrt_llm::kernels::applyBiasRopeUpdateKVCacheV2<__nv_bfloat16, __nv_bfloat16, 128>",
	},
	model.Rotary: {
		"void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)",
		"void rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*, c10::BFloat16*)",
		"void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<true, 128u, 8u, 16u>", "rotary_kernel",
	},
	model.Norm: {
		"fused_qknorm_warp", "std::enable_if<(8>(0))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>",
		"void vllm::rms_norm_kernel<c10::BFloat16>", "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>",
		"void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>", "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePass",
		"_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
		"void layer_norm::ln_fwd_kernel<layer_norm::Kernel_traits<float>>", "void layer_norm::ln_bwd_kernel<layer_norm::Kernel_traits<float>>",
		"triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_1",
	},
	model.Elementwise: {
		"_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_ES3_S5_EEEEvPS3_PS4_i",
		"void vllm::silu_and_mul_kernel<c10::Half>", "swiglu_forward_weight_mask_and_per_token_cast_to_fp8_kernel", "silu_mul_quant_varlen_kernel",
		"void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)",
	},
	model.Quantize: {
		"sage_quant_kernel", "void per_token_group_quant_8bit_kernel<c10::BFloat16, c10::Float8_e4m3fn, true>", "per_token_group_quant_flat_kernel",
		"void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16>", "_static_quant_fp8", "static_scaled_fp8_quant",
		"void tensorrt_llm::kernels::quantize_with_block_size<(tensorrt_llm::BlockScaleQuantizationType)1, __nv_bfloat16>",
		"per_token_cast_to_fp8_kernel", "per_channel_cast_and_transpose_kernel", "cast_back_impl", "_dynamic_mxfp4_quant_kernel", "mxfp4_quant_moe_sort_kernel",
		"void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>", "void vllm::awq::dequantize_weights<half>", "void vllm::dynamic_per_token_scaled_fp8_quant_kernel<c10::BFloat16>",
	},
	model.MoERouting: {
		"void vllm::moe::topkGatingSoftmax<8, 64, 4, 16, 32, int>", "void moe_fused_gate_kernel<cutlass::bfloat16_t, 32, 256, 8>", "_router_triton_kernel",
		"void moe::dev::routing::routingRenormalize::routingIndicesClusterKernel<moe::dev::routing::KernelParams<float>>", "routingIndicesHistogramKernel",
		"_topk_forward", "_combined_routing_compute", "_combined_routing_memset", "_sum_bitmatrix_rows", "void vllm::moe::moe_align_block_size_kernel<int>",
		"void vllm::moe::moe_align_block_size_small_batch_expert_kernel<int>", "void vllm::moe::count_and_sort_expert_tokens_kernel<int>",
		"_ZN7ck_tile6kentryILi1ENS_16MoeSortingKernelINS_20MoeSortingProblemExIil", "get_fused_mapping_kernel", "clean_and_count_expert",
		"void deep_get_dispatch_layout_kernel<256, 32>", "_finalize_matmul_scatter_bf16",
		"void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams<cutlass::bfloat16_t>>", "void vllm::moe::moe_sum_kernel<c10::BFloat16, 6>",
		"moe_sum_reduce_kernel", "void tensorrt_llm::kernels::cutlass_kernels::finalizeMoeRoutingKernel<__nv_bfloat16>",
	},
	model.MoEGEMM: {
		"fused_moe_kernel", "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1",
		"bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x8x512u2_s3_et128x8_m128x8x32_cga1x1x4_16dp256b_TN", "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x8x512u2_s3_et128x8",
		"void fp8_gemm::m_grouped_fp8_gemm_nt_contiguous<7168>",
		"void deep_gemm::fp8_gemm_kernel<4096u, 1024u, 128u, 128u, 128u, 8u, (deep_gemm::GemmType)1>",
		"void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u, 7168u, 8u, (deep_gemm::GemmType)2>",
		"void moe_wna16_marlin_gemm_kernel", "fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256",
		"_ZN2ck15kernel_moe_gemmINS_39GridwiseMoeGemmBlockScale", "ck_moe_stage1", "void MoeFCGemm<cutlass::gemm::threadblock::MoeMmaMultistage<8>>",
	},
	model.MoEAllToAll: {
		"void deep_ep::intranode::dispatch<8, 768, 8192>", "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>",
		"void deep_ep::intranode::notify_dispatch<8>", "void deep_ep::internode_ll::dispatch<true, false, 7168>", "void deep_ep::internode_ll::combine<false, 7168, 9>",
		"void ep::internode::dispatch<4, false, 24>", "void ep::internode::combine<4, false, __nv_bfloat16, 8>", "ep::internode::notify_dispatch", "ep::internode::cached_notify",
		"void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>", "void tensorrt_llm::kernels::moe_comm::moeAllToAllKernel<4>",
	},
	model.Sampling: {
		"_gumbel_sample_kernel", "void flashinfer::sampling::TopPSamplingFromProbKernel<1024u>", "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>",
		"void flashinfer::sampling::TopKRenormProbKernel<1024u>", "top_k_renorm_probs", "void flashinfer::sampling::OnlineSoftmaxMapKernel<1024u>",
		"_combine_sampled_and_draft_tokens_kernel", "_get_num_sampled_and_rejected_kernel", "void vllm::apply_repetition_penalties_kernel<float>",
		"rejection_greedy_sample_kernel",
	},
	model.Communication: {
		"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>", "void sglang::cross_device_reduce_2stage<__nv_bfloat16, 8>",
		"void multimem_all_reduce_kernel<c10::BFloat16, 8>", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
		"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(AllReduceFusionPattern)1, __nv_bfloat16, 8>",
		"allreduce_fusion_kernel_twoshot_sync",
	},
	model.GEMM: {
		"void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 128u, (deep_gemm::GemmType)0>", "_w8a8_block_fp8_matmul", "void grouped_gemm::fp8_ptp128c<4>",
		"sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128", "nvjet_hsh_128x64_64x8_1x2_h_bz_coopA_TNT", "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x32x256",
		"void wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 1>", "void marlin::Marlin<__nv_bfloat16, 1125899906909960l, 256, 1, 8, 8>",
	},
	model.Conv: {"igemm_fwd_gtcx3_nhwc_bf16_bx0_ex0_bt256x128x32", "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3"},
}

func TestKernelsOfLanguageModels(t *testing.T) {
	for want, names := range llmKernels {
		for _, name := range names {
			x := newBuilder().launch(name, 0, 5, 10, 20).index(t)
			if got := x.Class(0); got != want {
				t.Errorf("%s: class %s, want %s", name, got, want)
			}
		}
	}
}

// otherKernels are kernels of libraries and of programs that serve no language model.
var otherKernels = []string{
	"void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>", "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float>",
	"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4>>",
	"void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4>", "void at::native::index_elementwise_kernel<128, 4>",
	"void at::native::(anonymous namespace)::grid_sampler_2d_kernel<float, int>", "void at::native::_scatter_gather_elementwise_kernel<128, 8>",
	"void at::native::(anonymous namespace)::sampleMultinomialOnce<float, float>", "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>",
	"void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>",
	"void at::native::radixSortKVInPlace<2, -1, 32, 32, float, long, unsigned int>", "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2>",
	"cublasLt::splitKreduce_kernel<32, 16, int, float>", "void cublasLt::epilogue::impl::globalKernel<8, 32, float>", "void gemmSN_NN_kernel<float, 256, 4, 2, 8, 3, 4>",
	"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16>", "void dot_kernel<float, 128, 0>", "void cublas_bmm_strided_kernel<float>",
	"cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8", "ampere_sgemm_128x64_tn", "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw",
	"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>", "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>",
	"void cudnn::engines_precompiled::nhwcToNchwKernel<__half, __half, float>", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x64x64_4x1x1",
	"void pooling_fw_4d_kernel<float, float, cudnn::maxpooling_func<float>>", "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>",
	"void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<thrust::cuda_cub::__scatter::functor>>",
	"void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__reduce::ReduceAgent<int*>, int*, int*, long>",
	"void cub::DeviceReduceSingleTileKernel<cub::DeviceReducePolicy<int>>", "void cub::DeviceSegmentedReduceKernel<float>", "void cub::DeviceScanKernel<cub::Policy>",
	"void cub::DeviceRadixSortOnesweepKernel<cub::Policy800, false, long, long, int, int>", "void cub::DeviceRadixSortHistogramKernel<cub::Policy800>",
	"void rocprim::detail::trampoline_kernel<rocprim::detail::wrapped_scan_config<int>>", "void fft_2d_r2c_64x64<float>", "regular_fft<256u>", "void cusparse::csrmv_v3_kernel<int>",
	"void fbgemm_gpu::bounds_check_indices_kernel<long>", "void fbgemm_gpu::split_embedding_codegen_forward_unweighted_kernel<float>", "permute_2D_data_kernel",
	"triton_poi_fused_add_mul_0", "triton_per_fused__softmax_4", "triton_tem_fused_mm_3", "triton_red_fused_sum_1", "triton_poi_fused_quantize_0",
	"_layer_norm_fwd_fused", "_fwd_kernel", "matmul_kernel", "softmax_kernel", "add_kernel", "__amd_rocclr_fillBufferAligned", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
	"loop_multiply_fusion", "input_reduce_fusion_1", "gemm_fusion_dot_3", "wrapped_slice", "trt_volta_scudnn_128x64_relu_interior_nn_v1", "__myl_bb1_1_ResMulAdd",
	"void property_update(double*)", "europe_grid", "bmm_rotate_points", "expert_system_step", "void momentum_kernel<float>", "segments_reduce", "rotary_motor_kernel",
	"cache_flush_kernel", "sample_rays_kernel", "dispatch_rays", "combine_images", "quantum_gate_kernel", "context_switch", "router_lookup", "paged_memory_test",
}

// No kernel of another program has a class of language models.
func TestKernelsOfOtherPrograms(t *testing.T) {
	classes := model.Classes()
	of := map[model.Class]bool{}
	for _, c := range classes[len(classes)-9:] {
		of[c] = true
	}
	if !of[model.AttentionPrefill] || !of[model.Sampling] {
		t.Fatal("the classes of language models are the last ones")
	}
	for _, name := range otherKernels {
		if got := newBuilder().launch(name, 0, 5, 10, 20).index(t).Class(0); of[got] {
			t.Errorf("%s: class %s", name, got)
		}
	}
}

// A kernel's own name decides inside operators of attention and of experts; a product among experts is theirs.
func TestLanguageModelOperators(t *testing.T) {
	for _, c := range []struct {
		around, kernel string
		want           model.Class
	}{
		{"vllm::unified_attention_with_output", "reshape_and_cache_flash_kernel", model.KVCache},
		{"vllm::unified_attention_with_output", "my_kernel", model.Attention},
		{"_C_cache_ops::reshape_and_cache_flash", "my_kernel", model.KVCache},
		{"vllm::outplace_fused_experts", "void marlin::Marlin<__nv_bfloat16, 256>", model.MoEGEMM},
		{"vllm::outplace_fused_experts", "void at::native::vectorized_elementwise_kernel<4>", model.Elementwise},
		{"vllm::grouped_topk", "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>", model.MoERouting},
		{"aten::topk", "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>", model.Elementwise},
		{"_C::rotary_embedding", "my_kernel", model.Rotary},
		{"_C::dynamic_scaled_fp8_quant", "my_kernel", model.Quantize},
	} {
		b := newBuilder().host(model.Op, c.around, 0, 1000)
		if got := b.launch(c.kernel, 100, 5, 2000, 2100).index(t).Class(0); got != c.want {
			t.Errorf("%s in %s: class %s, want %s", c.kernel, c.around, got, c.want)
		}
	}
}

// Every class has its place in the sums by class, and a kernel keeps its class in the table of kernels.
func TestClassesOfKernelTable(t *testing.T) {
	if n := len(model.Classes()); n > maxClasses {
		t.Fatalf("%d classes, and sums have room for %d", n, maxClasses)
	}
	for want, names := range llmKernels {
		x := newBuilder().launch(names[0], 0, 5, 10, 20).index(t)
		k := kernelSums{byName: map[string]*kernelSum{}}
		k.addTrace(x)
		if got := k.sortedKernels(); len(got) != 1 || got[0].Class != want {
			t.Errorf("%s: %+v, want class %s", names[0], got, want)
		}
	}
}

// The step of an engine tells the phase of attention whose name does not.
func TestAttentionOfServingSteps(t *testing.T) {
	const flash = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>"
	const argmax = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4>>"
	b := newBuilder()
	for i, name := range []string{"step[DECODE bs=4]", "step[EXTEND bs=1 toks=512]", "step[MIXED bs=4]"} {
		at := int64(i) * 1000
		b.host(model.Annotation, name, at, at+500).launch(flash, at+10, 5, at+20, at+400).launch(argmax, at+30, 5, at+400, at+450)
	}
	x := b.index(t)
	var got []model.Class
	for i := range x.T.GPU {
		got = append(got, x.Class(int32(i)))
	}
	want := []model.Class{model.AttentionDecode, model.Sampling, model.AttentionPrefill, model.Sampling, model.Attention, model.Sampling}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("operation %d: class %s, want %s", i, got[i], want[i])
		}
	}
}
