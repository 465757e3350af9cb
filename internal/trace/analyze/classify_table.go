package analyze

import (
	"slices"
	"strings"
)

// nameRule is one line of a table. A name matches if it contains a word of any, all words of all, and no word of none.
type nameRule struct {
	class uint8
	any   []string
	all   []string
	none  []string
	whole bool
}

func (w *nameRule) matchName(name string) bool {
	return w.matchWords(func(s string) bool { return strings.Contains(name, s) })
}

func (w *nameRule) matchWords(holds func(word string) bool) bool {
	for _, s := range w.all {
		if !holds(s) {
			return false
		}
	}
	return (len(w.any) == 0 || slices.ContainsFunc(w.any, holds)) && !slices.ContainsFunc(w.none, holds)
}

// opTable classifies operators by lower-case name, first match, without `aten::` and outer underscores. Names of
// backward nodes (ConvolutionBackward0) match like the operator. It includes libraries outside PyTorch (torch_scatter,
// fbgemm, cuequivariance, libtorch_tp_jit, flashTP, openequivariance, xformers).
var opTable = []nameRule{
	{class: cCommunication, any: []string{
		"c10d::", "c10d_functional", "nccl:", "nccl::", "record_param_comms", "allreduce", "all_reduce", "allgather",
		"all_gather", "reduce_scatter", "alltoall", "all_to_all", "oneccl",
	}},
	{class: OptimizerClass, any: []string{"_fused_adam", "_fused_sgd", "fused_adagrad", "foreach_addcdiv", "foreach_lerp", "optimizer.step#"}, whole: true},
	{class: cTensorProduct, whole: true, any: []string{
		"cuequivariance", "libtorch_tp_jit", "flashtp", "flash_tp", "openequivariance", "oeq::", "tensor_product",
		"tensorproduct", "uniform_1d", "segmented_polynomial", "sptp",
	}},
	{class: cMoERouting, whole: true, any: []string{"grouped_topk", "topk_softmax", "topk_sigmoid", "moe_align", "moe_sum", "moe_fused_gate"}},
	{class: cKVCache, whole: true, any: []string{"reshape_and_cache", "concat_and_cache", "store_kvcache"}},
	{class: cRotary, whole: true, any: []string{"rotary_embedding", "apply_rotary", "apply_rope"}},
	{class: cQuantize, whole: true, any: []string{"scaled_fp8_quant", "scaled_int8_quant", "scaled_fp4_quant", "per_token_group_quant"}},
	{class: cAttention, whole: true, any: []string{"attention", "flash_attn", "flashattn", "sdpa", "fmha", "multi_head", "multihead", "xformers"}},
	{class: cRNN, whole: true, any: []string{
		"cudnn_rnn", "cudnnrnn", "miopen_rnn", "miopenrnn", "lstm", "gru_cell", "rnn_tanh", "rnn_relu", "fused_gru",
	}},
	{class: cRNN, whole: true, any: []string{"aten::gru", "=gru", "=grubackward"}},
	{class: CopyClass, any: []string{"slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter", "masked_scatter_backward"}},
	{class: cScatter, whole: true, any: []string{
		"index_add", "indexadd", "scatter", "segment_reduce", "segmentreduce", "segment_coo", "segment_csr", "segment_sum",
		"segment_mean", "segment_max", "index_put", "indexput", "index_reduce", "embedding_dense_backward", "embeddingbackward",
		"embedding_backward", "embedding_bag_backward", "index_copy", "indexcopy", "index_backward", "indexbackward",
		"gatherbackward", "gather_backward", "indexselectbackward", "index_select_backward", "bincount", "histc",
	}},
	{class: cNorm, whole: true, any: []string{
		"batch_norm", "batchnorm", "layer_norm", "layernorm", "group_norm", "groupnorm", "instance_norm", "instancenorm",
		"rms_norm", "rmsnorm", "local_response_norm",
	}},
	{class: cConv, whole: true, any: []string{
		"convolution", "conv1d", "conv2d", "conv3d", "conv_transpose", "conv_depthwise", "thnn_conv", "slow_conv",
		"miopen_depthwise",
	}},
	{class: GEMMClass, any: []string{
		"=mm", "=bmm", "addmm", "addbmm", "baddbmm", "matmul", "=linear", "=linearbackward", "=einsum", "=mmbackward",
		"=bmmbackward", "=mv", "=addmv", "=addr", "=dot", "=vdot", "scaled_mm", "_int_mm", "gemm", "=ger", "=bilinear",
		"weight_int8", "weight_int4", "tensordot", "=outer", "cublas", "cutlass", "sparse_mm", "spmm",
	}},
	{class: cReduction, any: []string{
		"softmax", "=sum", "=mean", "=prod", "=max", "=min", "=amax", "=amin", "=argmax", "=argmin", "=any", "=all", "=var",
		"=std", "=norm", "=nansum", "=logsumexp", "=aminmax", "sumbackward", "meanbackward", "=var_mean", "=std_mean",
		"vector_norm", "linalg_norm", "cumsum", "cumprod", "cummax", "nll_loss", "nllloss", "=count_nonzero", "foreach_norm",
		"=logcumsumexp", "cross_entropy", "=median",
	}},
	{class: CopyClass, any: []string{
		"=copy", "=to", "=_to_copy", "=clone", "=contiguous", "=cat", "=stack", "catbackward", "stackbackward", "copybackward",
		"copyslices", "tocopybackward", "clonebackward", "=repeat", "=pin_memory", "=repeat_interleave", "slicebackward",
		"slice_backward", "selectbackward", "select_backward", "=flip", "=roll", "=fill_diagonal", "constant_pad", "=pad",
		"copy_bucket",
	}},
	{class: ElementwiseClass, any: []string{
		"=add", "=sub", "=mul", "=div", "=rsub", "=neg", "=abs", "=exp", "=exp2", "=log", "=log2", "=log10", "=log1p", "=sqrt",
		"=rsqrt", "=sin", "=cos", "=tan", "=tanh", "=pow", "=square", "=sigmoid", "=silu", "=relu", "=gelu", "=elu", "=celu",
		"=selu", "=mish", "=leaky_relu", "=hardtanh", "=hardswish", "=softplus", "=threshold", "=clamp", "=clamp_min",
		"=clamp_max", "=where", "=fill", "=zero", "=ones", "=zeros", "=full", "=eq", "=ne", "=lt", "=le", "=gt", "=ge",
		"=maximum", "=minimum", "=reciprocal", "=sign", "=floor", "=ceil", "=round", "=trunc", "=fmod", "=remainder", "=addcmul",
		"=addcdiv", "=lerp", "dropout", "bernoulli", "=uniform", "=normal", "=random", "=rand", "=randn", "=arange", "=linspace",
		"=logical_", "=bitwise_", "=masked_fill", "=atan2", "=acos", "=asin", "=atan", "=erf", "=triu", "=tril", "=isnan",
		"=isfinite", "=isinf", "=nan_to_num", "=hypot", "mse_loss", "mseloss", "l1_loss", "l1loss", "huber_loss",
		"binary_cross_entropy", "=_foreach_", "mul_out", "=empty", "mulbackward", "addbackward", "subbackward", "divbackward",
		"powbackward", "sigmoidbackward", "silubackward", "relubackward", "gelubackward", "tanhbackward", "tanh_backward",
		"sigmoid_backward", "silu_backward", "gelu_backward", "threshold_backward", "softplus_backward", "thresholdbackward",
		"expbackward", "logbackward", "sqrtbackward", "sinbackward", "cosbackward", "clampbackward", "wherebackward", "=glu",
		"glu_backward", "accumulategrad", "=linalg_cross", "=cross", "=index", "=index_select", "=gather", "=take",
		"=take_along_dim", "embedding", "=one_hot", "=complex", "=polar", "=cdist", "=polygamma", "=lgamma", "=digamma",
	}},
	{class: cOther, any: []string{
		"sort", "topk", "unique", "nonzero", "masked_select", "pool", "fft", "interpolate", "upsample", "grid_sampl",
		"searchsorted", "multinomial", "im2col", "col2im", "cholesky", "svd", "eigh", "inverse", "linalg_", "lu_factor",
	}},
}

// kernelTable classifies kernels by lower-case name, first match.
var kernelTable = []nameRule{
	{class: cCommunication, any: []string{
		"nccl", "rccl", "oneccl", "cross_device_reduce", "nvshmem", "allreduce", "all_reduce", "allgather_kernel", "all_to_all",
		"alltoall", "reduce_scatter_kernel", "twoshot", "oneshot_all",
	}},
	{class: cTensorProduct, any: []string{
		"cuequivariance", "cue::", "libtorch_tp_jit", "flashtp", "flash_tp", "openequivariance", "tensor_product",
		"tensorproduct", "uniform_1d", "segmented_polynomial", "cuet::", "cuex::", "clebsch", "sptp", "fused_tp", "tp_forward",
		"tp_backward",
	}},
	{class: CopyClass, any: []string{"at::native::copy<"}}, // copies of many tensors (torch._foreach_copy_)
	{class: OptimizerClass, any: []string{
		"multi_tensor_apply", "multitensorapply", "fusedadam", "fused_adam", "adamfunctor", "lambstage", "fused_sgd", "adagrad",
	}, none: []string{"foreach_norm", "lpnorm", "embedding_backward"}},
	{class: cReduction, any: []string{"lpnormfunctor", "lp_norm", "multi_tensor_apply"}},
	{class: cAttention, any: []string{"flash", "fmha", "sdpa", "attention", "mem_eff", "mha_", "attn_fwd", "attn_bwd", "bwd_kernel_dk_dv", "bwd_kernel_dq"}},
	{class: cRNN, any: []string{"lstm", "gru_", "_gru", "rnncell", "rnn_", "persistrnn", "elemwisernn", "elementwisernn"}},
	{class: cScatter, any: []string{
		"scatter", "index_add", "indexadd", "indexfunclarge", "indexfuncsmall", "index_put", "indexing_backward",
		"segment_reduce", "segment_csr", "segment_coo", "segment_sum", "embedding_backward", "embedding_dense_backward",
		"embeddingbackward", "compute_grad_weight", "sum_and_scatter", "krn_partial_segment", "krn_partials_reduce",
		"compute_num_of_partial_segments", "write_num_of_segments", "histogram",
	}, none: []string{"gatherscatter", "gather_scatter", "reduce_scatter"}},
	{class: cNorm, any: []string{
		"batch_norm", "batchnorm", "layer_norm", "layernorm", "group_norm", "groupnorm", "instance_norm", "rms_norm", "rmsnorm",
		"bn_fw", "bn_bw", "bnfw", "bnbw", "rowwisemoments", "gammabetabackward", "cuapplylayernorm", "_norm_kernel",
	}, none: []string{"vector_norm"}},
	{class: cConv, any: []string{
		"convolve", "convolution", "conv1d", "conv2d", "conv3d", "conv_", "_conv", "::conv", "dgrad", "wgrad", "fprop",
		"winograd", "implicit_gemm", "scudnn", "cudnn_infer", "cudnn_train", "cask_cudnn", "computeoffsetskernel", "nchwtonhwc",
		"nhwctonchw", "im2col", "col2im", "depthwise", "miopenconv", "igemm_fwd", "igemm_bwd", "igemm_wrw", "first_layer_",
		"im2d2col", "col2im2d", "bwd_weight", "bwd_data", "fft1d_r2c_", "fft1d_c2r_", "fft2d_r2c_", "fft2d_c2r_", "flip_filter",
	}, none: []string{"convert", "attention"}},
	{class: GEMMClass, any: []string{
		"gemm", "cutlass", "xmma", "nvjet", "gemv", "splitk", "cijk_", "matmul", "bmm", "dot_kernel", "dot_1rows", "ampere_",
		"volta_", "turing_", "hopper_", "wmma", "cublas", "s16816", "s1688", "h16816", "i16832",
	}},
	{class: cReduction, any: []string{
		"reduce", "softmax", "scan", "cumsum", "nll_loss", "norm_kernel", "sum_kernel", "mean_kernel", "argmax", "argmin",
		"welford",
	}, none: []string{"fillfunctor"}},
	{class: CopyClass, any: []string{
		"copy_kernel", "catarraybatchedcopy", "cat_array", "direct_copy", "memcpy", "memset", "transpose", "permute",
		"copykernel", "bulk_copy", "amd_rocclr_", // kernels of the ROCm runtime for copies and fills
	}},
	{class: ElementwiseClass, any: []string{
		"elementwise", "vectorized", "pointwise", "fill", "distribution", "dropout", "where", "index_select", "indexselect", "embedding",
		"gather", "indexing", "arange", "triu", "tril", "activation", "unrolled", "gelu", "silu", "relu", "sigmoid", "tanh",
		"subtensorop", "optensor", "dtensorlite", "dtensorgeneric",
	}},
}

// tritonTable classifies kernels that TorchInductor fused, by the operators in the kernel name
// (triton_red_fused_native_layer_norm_3), first match: the most expensive operator decides, else the kind of kernel.
var tritonTable = []nameRule{
	{class: cAttention, any: []string{"attention"}},
	{class: cScatter, any: []string{
		"scatter", "index_add", "index_put", "embedding_dense_backward", "segment_reduce",
	}, none: []string{"slice_scatter", "select_scatter"}},
	{class: cConv, any: []string{"triton_tem_fused_convolution", "triton_tem_fused__convolution", "triton_convolution"}},
	{class: GEMMClass, any: []string{"triton_tem", "triton_mm", "triton_bmm", "triton_gemm"}},
	{class: cNorm, any: []string{"batch_norm", "layer_norm", "group_norm", "rms_norm"}},
	{class: cNorm, all: []string{"mean", "pow", "rsqrt"}}, // root mean square
	{class: cReduction, any: []string{"triton_red_", "triton_per_", "triton_spl_"}},
	{class: ElementwiseClass, any: []string{"triton_poi_", "triton_for_"}},
}

// libraryShortener shortens names of libraries that contain a word of the tables, so that the word does not match them.
var libraryShortener = strings.NewReplacer("fbgemm", "fbg", "flashinfer::", "fi::")

// parseOpName classifies the name of an operator. A table word that starts with '=' matches the bare name, with or
// without underscores at the end ("=add" matches aten::add and aten::add_).
func parseOpName(name string) opMeaning {
	full := libraryShortener.Replace(strings.ToLower(name))
	full = strings.TrimPrefix(full, "autograd::engine::evaluate_function: ")
	full = strings.TrimPrefix(full, "torch::autograd::")
	bare := full
	if i := strings.LastIndex(bare, "::"); i >= 0 {
		bare = bare[i+2:]
	}
	bare = strings.TrimSuffix(strings.TrimRight(bare, "_0123456789"), "_")
	exact := "=" + bare + "$"
	for i := range opTable {
		w := &opTable[i]
		for _, s := range w.any {
			if s[0] == '=' {
				if matchBare(exact, s) {
					return opMeaning{w.class, w.whole}
				}
			} else if strings.Contains(full, s) {
				return opMeaning{w.class, w.whole}
			}
		}
	}
	return opMeaning{class: NoClass}
}

// matchBare reports whether exact ("=name$") matches a word of the table. A word that ends in '_' matches the start of
// the name, any other word the whole name.
func matchBare(exact, word string) bool {
	if strings.HasSuffix(word, "_") {
		return strings.HasPrefix(exact, word)
	}
	return len(exact) == len(word)+1 && strings.HasPrefix(exact, word)
}

// kernelClassOf classifies the name of a kernel; NoClass without a match. inLLMTable reports a match in llmTable, which
// decides the class whatever operators are around the launch.
func kernelClassOf(name string) (class uint8, inLLMTable bool) {
	s := libraryShortener.Replace(strings.ToLower(name))
	table := kernelTable
	if strings.HasPrefix(s, "triton_") {
		table = tritonTable
	} else if class := llmClassOf(s); class != NoClass {
		return class, true
	}
	for i := range table {
		if table[i].matchName(s) {
			return table[i].class, false
		}
	}
	return NoClass, false
}

// productModules are modules of e3nn, and of packages built on it, that compute tensor products of irreducible
// representations.
var productModules = []string{"tensorproduct", "tensor_product", "tensorsquare", "symmetriccontraction", "symmetric_contraction",
	"equivariantproduct", "so2_conv", "so2conv", "clebschgordan", "conv_tp", "tensor product"}

// neutralModules are wrappers that compilers and tracers make.
var neutralModules = []string{"graphmodule", "recursivescriptmodule", "scriptmodule", "scriptfunction", "topleveltracedmodule", "tracedmodule",
	"optimizedmodule", "codegenmixin", "_compiled_main", "lambda"}

func parseModuleName(name string) moduleKind {
	s := strings.ToLower(strings.TrimPrefix(name, modulePrefix))
	for _, w := range productModules {
		if strings.Contains(s, w) {
			return moduleTensorProduct
		}
	}
	// "convolution" is e3nn's convolution over neighbours, but also a module of image models.
	if s = strings.TrimRight(s, "_0123456789"); s == "convolution" || s == "contraction" {
		return moduleConvolution
	}
	for _, w := range neutralModules {
		if strings.HasPrefix(s, w) {
			return moduleNeutral
		}
	}
	return modulePlain
}
