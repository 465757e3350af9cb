package rules

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

func TestMatmulOf(t *testing.T) {
	gemm := func(p precision) matmul { return matmul{matmulGEMM, p} }
	conv := func(p precision) matmul { return matmul{matmulConv, p} }
	none := matmul{}
	for name, want := range map[string]matmul{
		// FP32 on the ordinary cores.
		"ampere_sgemm_128x64_tn":          gemm(precFP32),
		"volta_sgemm_64x32_sliced1x4_tn":  gemm(precFP32),
		"ampere_sgemm_32x32_sliced1x4_nt": gemm(precFP32),
		"maxwell_sgemm_128x64_nn":         gemm(precFP32),
		"sgemm_largek_lds64":              gemm(precFP32),
		"void magma_sgemmEx_kernel<float, float, float, false, true, 6, 4, 6, 3, 4>(int)":                                           gemm(precFP32),
		"void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(cutlass_80_simt_sgemm_128x64_8x5_nn_align1::Params)":     gemm(precFP32),
		"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas": gemm(precFP32),
		"volta_scudnn_128x64_relu_interior_nn_v1":                                                                                                            conv(precFP32),
		"cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1":                                                                                            conv(precFP32),
		"cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1":                                                                            conv(precFP32),
		"void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>":                                                              conv(precFP32),
		"void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int)":                                                                  conv(precFP32),
		"void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)":                                                                     conv(precFP32),
		"sm80_xmma_fprop_implicit_gemm_indexed_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_stage3_warpsize1x2x1_g1_ffma_t1r3s3_execute_kernel__5x_cudnn": conv(precFP32),
		// TF32.
		"sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_execute_kernel__5x_cublas":                gemm(precTF32),
		"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>(cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4::Params)": gemm(precTF32),
		"ampere_s1688gemm_128x128_ldg8_stages_32x3_tn":                                          gemm(precTF32),
		"cutlass_80_tensorop_s1688tf32gemm_256x128_16x3_nn_align4":                              gemm(precTF32),
		"nvjet_sss_tf32_128x256_64x4_2x1_v_bz_TNT":                                              gemm(precTF32),
		"sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16":    conv(precTF32),
		"void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x64_16x6>": conv(precTF32),
		// 16 bits on tensor cores.
		"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn":                                                                       gemm(precHalf),
		"ampere_fp16_s16816gemm_fp16_256x128_ldg8_relu_f2f_stages_64x3_tn":                                                                 gemm(precHalf),
		"ampere_h16816gemm_256x128_ldg8_stages_32x3_tn":                                                                                    gemm(precHalf),
		"turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn":                                                                                   gemm(precHalf),
		"turing_h1688gemm_128x128_ldg8_stages_32x1_nn":                                                                                     gemm(precHalf),
		"volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn":                                                                                      gemm(precHalf),
		"volta_h884gemm_64x128_ldg8_nn":                                                                                                    gemm(precHalf),
		"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas":             gemm(precHalf),
		"sm80_xmma_gemm_f16f16_f16f32_f32_nn_n_tilesize96x128x32_stage4":                                                                   gemm(precHalf),
		"void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>":                                      gemm(precHalf),
		"cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x128x64":                                                            gemm(precHalf),
		"cutlass_75_tensorop_s1688gemm_f16_256x128_nt_align8":                                                                              gemm(precHalf),
		"nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT":                                                                                        gemm(precHalf),
		"nvjet_tst_192x8_64x8_4x1_v_bz_TNT":                                                                                                gemm(precHalf),
		"nvjet_sm90_hss_320x128_64x3_1x2_h_bz_coopB_NNN":                                                                                   gemm(precHalf),
		"turing_h1688cudnn_256x64_sliced1x2_ldg8_relu_exp_interior_nhwc_tn_v1":                                                             conv(precHalf),
		"volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1":                                                         conv(precHalf),
		"sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_stage3":                                          conv(precHalf),
		"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>>": {matmulAttention, precHalf},
		"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64":                                                     {matmulAttention, precHalf},
		"fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention)":                                                                  {matmulAttention, precUnknown},
		// 16 bits on the ordinary cores: an xmma kernel with ffma uses no tensor core.
		"sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas": gemm(precHalfSIMT),
		"volta_sgemm_fp16_128x64_tn":                                     gemm(precHalfSIMT),
		"void implicit_convolve_sgemm<__half, __half, 1024, 5, 5, 3, 3>": conv(precHalfSIMT),
		// Other arithmetic.
		"sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128":             gemm(precFP8),
		"nvjet_qqtst_128x128_128x6_2x1_v_bz_TNT":                                   gemm(precFP8),
		"ampere_dgemm_64x64_tn":                                                    gemm(precFP64),
		"void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x64_16x4_nt_align1>": gemm(precFP64),
		"ampere_igemm_int8_128x128_ldg4_nn":                                        gemm(precInt8),
		// Unknown stays unknown.
		"triton_tem_fused_mm_0":               none,
		"nvjet_sss_128x128_64x4_2x1_v_bz_TNT": gemm(precUnknown),
		"void fused_moe::run_global<fused_moe::Fused_Moe_Kernel_sm80<cutlass::bfloat16_t, cutlass::bfloat16_t, cutlass::bfloat16_t, 32, 128, 64, 2>>": gemm(precUnknown),
		// rocBLAS, hipBLASLt, MIOpen and composable kernels, in public traces of an MI300X.
		"Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT16x16x128_MI16x16x1_SN_LDSB1":                 gemm(precFP32),
		"Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x32_MI16x16x1_SN_LDSB1":            gemm(precHalf),
		"Cijk_Ailk_Bjlk_BBS_BH_MT32x32x64_MI16x16x16x1_SN_1LDSB0_APM1":                             gemm(precHalf),
		"igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1_wr2x2":                     conv(precHalf),
		"_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_47GridwiseGemm": gemm(precUnknown),
		// Made up after the naming of the same libraries: no recording of these was at hand.
		"Cijk_Ailk_Bljk_SB_MT128x128x16_MI16x16x4x1_SN_1LDSB0":                   gemm(precFP32),
		"Cijk_Alik_Bljk_S_MX_B_Bias_HA_S_SAV_UserArgs_MT128x128x32_MI16x16x1_SN": gemm(precTF32),
		"Cijk_Ailk_Bljk_HHS_BH_MT64x64x16_SE_K1":                                 gemm(precHalfSIMT),
		"Cijk_Ailk_Bljk_DB_MT64x64x16_MI16x16x4x1_SN":                            gemm(precFP64),
		"Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x128_MI16x16x1":  gemm(precFP8),
		"Cijk_Alik_Bljk_I8II_BH_MT128x128x64_MI32x32x8x1":                        gemm(precInt8),
		"igemm_wrw_gtc_fp32_bt128x128x16_ws1":                                    conv(precFP32),
		"void cutlass::device_kernel<MyKernel<int>>(MyKernel)":                   gemm(precUnknown),
		// Not products: layout, set-up, splits, vectors, and things that only sound like it.
		"void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, false, false, false>(cublasLt::cublasSplitKParams<float>)": none,
		"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 2, 2, false, false>":                                             none,
		"std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float, float, float>":                                    none,
		"cask_cudnn::computeWgradSplitKOffsetsKernel(cask_cudnn::ComputeSplitKOffsetsParams)":                                                   none,
		"void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(int)":                                                              none,
		"void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(int)":                                                              none,
		"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::convert>":                   none,
		"void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>":                                                      none,
		"void segment_reduce_forward_kernel<float>":                                                                                             none,
	} {
		if got := parseMatmul(name); got != want {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
}

func TestMarksOf(t *testing.T) {
	for name, want := range map[string]nameMark{
		"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__":   markLoader,
		"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__": markLoader,
		"enumerate(DataPipe)#ShufflerIterDataPipe":                      markLoader,
		"enumerate(Other)#x":             0,
		"cudaStreamSynchronize":          markSync,
		"cudaStreamSynchronize_v3020":    markSync,
		"cudaStreamSynchronize_ptsz":     markSync,
		"cuCtxSynchronize":               markSync,
		"cuStreamSynchronize":            markSync,
		"hipDeviceSynchronize":           markSync,
		"cudaThreadSynchronize_v3020":    markSync,
		"cudaEventSynchronize":           markSync,
		"cudaEventQuery":                 0,
		"cudaStreamWaitEvent":            0,
		"cudaLaunchKernel":               markLaunch | markKernel,
		"cudaLaunchKernel_v7000":         markLaunch | markKernel,
		"cudaLaunchKernelExC":            markLaunch | markKernel,
		"cuLaunchKernelEx":               markLaunch | markKernel,
		"hipExtModuleLaunchKernel":       markLaunch | markKernel,
		"hipModuleLaunchKernel":          markLaunch | markKernel,
		"cudaLaunchCooperativeKernel":    markLaunch | markKernel,
		"cudaGraphLaunch":                markLaunch | markGraph,
		"cuGraphLaunch":                  markLaunch | markGraph,
		"cudaMemcpyAsync":                markLaunch,
		"cuMemcpyDtoHAsync_v2":           markLaunch,
		"cudaMemsetAsync":                markLaunch,
		"cudaMalloc":                     markAlloc,
		"cuMemAlloc_v2":                  markAlloc,
		"hipMalloc":                      markAlloc,
		"cudaMallocHost":                 0,
		"cudaMallocAsync":                markPool,
		"cuMemAllocFromPoolAsync_ptsz":   markPool,
		"hipMallocAsync":                 markPool,
		"cudaFree":                       markFree,
		"cudaFreeHost":                   0,
		"hipFree":                        markFree,
		"cudaStreamBeginCapture_v10000":  markCapture,
		"aten::_local_scalar_dense":      markItem,
		"aten::item":                     0,
		"aten::nonzero":                  markShape,
		"aten::_unique2":                 markShape,
		"aten::unique_consecutive":       markShape,
		"aten::masked_select":            markShape,
		"aten::nonzero_static":           0,
		"aten::index_put_":               markSortUser,
		"aten::_index_put_impl_":         markSortUser,
		"aten::scatter_add_":             markSortUser,
		"aten::index_add_":               markSortUser,
		"aten::embedding_dense_backward": markEmbedding,
		"aten::empty":                    markEmpty,
		"aten::empty_like":               markEmpty,
		"aten::empty_strided":            markEmpty,
		"aten::new_empty":                markEmpty,
		"aten::resize_":                  markEmpty,
		"aten::zeros":                    0,
		"aten::fill_":                    0,
		"void cub::DeviceRadixSortOnesweepKernel<cub::Policy>(int*)":                        markSort,
		"void at::native::bitonicSortKVInPlace<2, -1, 16, 16>(int)":                         markSort,
		"void at::native::radixSortKVInPlace<2, -1, 32, 32>(int)":                           markSort,
		"void thrust::cuda_cub::merge_sort::block_sort(int)":                                markSort,
		"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>": markFill,
		"void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>":  0,
	} {
		if got := parseMarks(name); got != want {
			t.Errorf("%s has marks %b, want %b", name, got, want)
		}
	}
}

func TestArchOfNames(t *testing.T) {
	for name, want := range map[string]int{
		"ampere_sgemm_128x64_tn":                                               80,
		"volta_sgemm_32x32_sliced1x4_nn":                                       70,
		"turing_fp16_s1688gemm_fp16_ldg8":                                      75,
		"nvjet_tst_128x256_64x4_1x2_h_bz":                                      90,
		"sm80_xmma_gemm_bf16bf16_bf16f32_":                                     80,
		"void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(x)": 80,
		"cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32":                   90,
		"sm100_xmma_gemm_f32":                                                  100,
		"void at::native::vectorized_kernel":                                   0,
		"Cijk_Ailk_Bljk_SB_MT64x64x32":                                         0,
		"my_plasm80_kernel":                                                    0,
		"sm8000_thing":                                                         0,
	} {
		if got := parseArch(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// A kernel in a sentence has its name alone, wherever C++ puts brackets.
func TestShortNames(t *testing.T) {
	long := strings.Repeat("Cijk_Ailk_", 20)
	for name, want := range map[string]string{
		"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)":     "at::native::vectorized_elementwise_kernel",
		"void (anonymous namespace)::elementwise_kernel_with_index<int, f(c10::Scalar const&)>(int)": "elementwise_kernel_with_index",
		"void at::native::(anonymous namespace)::max_pool_forward_nchw<float>(int, float const*)":    "at::native::max_pool_forward_nchw",
		"ampere_sgemm_128x64_tn": "ampere_sgemm_128x64_tn",
		long:                     long[:79] + "…",
	} {
		if got := analyze.ShortName(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
