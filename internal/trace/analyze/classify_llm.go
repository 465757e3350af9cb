package analyze

import (
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// llmTable classifies kernels of engines for language models (vLLM, SGLang, TensorRT-LLM, FlashInfer, FlashMLA,
// DeepEP, DeepGEMM, AITER, SageAttention, bitsandbytes), by lower-case name, first match. A word that starts with '='
// matches from the start of the name without template and parameters. A match overrides the operators around the
// launch.
var llmTable = []nameRule{
	{class: cMoEAllToAll, any: []string{
		"deep_ep::", "ep::internode", "ep::intranode", "moe_comm::", "moealltoall", "moe_all_to_all", "epdispatchintra", "epdispatchinter",
		"epcombineintra", "epcombineinter",
	}},
	{class: cCommunication, any: []string{"nccl", "rccl", "allreduce", "all_reduce", "cross_device_reduce"}},
	{class: cMoERouting, any: []string{
		"topkgatingsoftmax", "topkgatingsigmoid", "moe_fused_gate", "_router_triton_kernel", "moe::dev::routing", "moe::dev::finalize",
		"routingindices", "_topk_forward", "_combined_routing_", "_sum_bitmatrix_rows", "moe_align_block_size", "count_and_sort_expert_tokens",
		"moesorting", "moe_sorting", "get_fused_mapping", "clean_and_count_expert", "get_dispatch_layout", "grouped_topk",
		"_finalize_matmul_scatter", "finalizekernelvecload", "finalizemoerouting", "expandinputrows", "moe_sum_", "moe_permute", "moe_unpermute",
		"_fwd_kernel_ep_scatter", "_fwd_kernel_ep_gather", "expert_offsets", "expand_to_fused", "post_reorder_triton", "pre_reorder_triton",
	}, none: []string{"at::native"}},
	{class: cMoEGEMM, any: []string{
		"fused_moe_kernel", "_matmul_ogs_", "m_grouped_", "mgrouped", "moe_wna16", "fmoe_", "moe_gemm", "ck_moe", "moefcgemm", "marlin_moe",
		"=bmm_mxe4m3_", "=bmm_bfloat16_", "=bmm_e4m3_", "=bmm_e2m1_", "=bmm_fp16_",
	}},
	{class: cMoEGEMM, all: []string{"deep_gemm", "gemmtype)1"}},
	{class: cMoEGEMM, all: []string{"deep_gemm", "gemmtype)2"}},
	{class: cQuantize, any: []string{"sage_quant", "quantint8kernel"}},
	{class: cAttentionPrefill, any: []string{
		"fmhabatchprefill", "singleprefillwithkvcache", "sparse_attn_fwd", "mla_prefill",
	}},
	{class: cAttentionPrefill, all: []string{"fmhasm", "context"}},
	{class: cAttentionDecode, all: []string{"fmhasm", "generation"}},
	{class: cAttentionDecode, any: []string{
		"batchdecodewithpagedkvcache", "singledecodewithkvcache", "paged_attention_ll4mi", "paged_attention_v1", "paged_attention_v2",
		"kernel_unified_attention_3d", "=reduce_segments$", "_fwd_grouped_kernel_stage", "_fwd_kernel_stage1", "_fwd_kernel_stage2",
		"flash_fwd_splitkv_mla_", "flash_fwd_mla_combine", "mla_decode", "=mla_reduce_", "=mla_a8w8_", "=mla_a16w16_", "=mla_a16w8_",
		"masked_multihead_attention",
	}},
	{class: cAttention, any: []string{
		"kernel_unified_attention_2d", "batchprefillwithpagedkvcache", "batchprefillwithragged", "batchmlapagedattention", "qk_int_sv_f16",
		"qk_int_sv_f8", "=sage_fwd", "mergestate",
	}},
	{class: cKVCache, any: []string{
		"reshape_and_cache", "concat_and_cache", "store_kvcache", "store_kv_cache", "appendpagedkv", "fused_rope_store", "flashinfer_kv_indices",
		"_copy_page_indices", "set_mla_kv_buffer", "ropeupdatekvcache", "quant_and_cache",
	}},
	{class: cNorm, any: []string{
		"fused_add_rms_norm", "fusedaddrmsnorm", "add_rmsnorm_quant", "rmsnorm2dfwd", "vllm::rms_norm", "fused_qknorm", "fusedqknorm",
		"layer_norm::ln_",
	}},
	{class: cRotary, any: []string{
		"rotary_embedding_kernel", "qkapplyrotary", "=rotary_kernel$", "applyrope", "apply_rope_", "fused_rope_kernel", "_mrope_forward",
	}},
	{class: ElementwiseClass, any: []string{"act_and_mul", "silu_and_mul", "silu_mul_quant", "swiglu_forward", "swiglu_backward"}},
	{class: cQuantize, any: []string{
		"per_token_group_quant", "scaled_fp8_quant", "scaled_int8_quant", "_static_quant_fp8", "quantize_with_block_size", "per_token_cast_to_fp8",
		"per_channel_cast_", "cast_back_impl", "mxfp4_quant", "mxfp8_quant", "nvfp4_quant", "cvt_fp16_to_fp4", "per_token_quant_",
		"kdequantizeblockwise", "kquantizeblockwise", "awq::dequantize", "awq_dequantize",
	}, none: []string{"gemm", "matmul"}},
	{class: cSampling, any: []string{
		"_gumbel_sample", "samplingfromprob", "samplingfromlogits", "topktoppsampling", "top_k_renorm", "top_p_renorm", "topkrenormprob",
		"toppprenormprob", "topprenormprob", "topkmasklogits", "onlinesoftmaxmapkernel", "chainspeculativesampling", "rejection_random_sample",
		"rejection_greedy_sample", "sample_recovered_tokens", "_combine_sampled_and_draft", "_get_num_sampled_and_rejected",
		"apply_repetition_penalties", "topkstage2sampling", "apply_token_bitmask",
	}},
	{class: GEMMClass, any: []string{"marlin::marlin", "=marlin$"}},
}

func llmClassOf(name string) uint8 {
	head := "=" + kernelHead(name) + "$"
	for i := range llmTable {
		w := &llmTable[i]
		matches := func(s string) bool {
			if s[0] == '=' {
				return strings.HasPrefix(head, s)
			}
			return strings.Contains(name, s)
		}
		if w.matchWords(matches) {
			return w.class
		}
	}
	return NoClass
}

// kernelHead returns a kernel's name without result type, namespaces, template and parameters.
func kernelHead(name string) string {
	name = strings.ReplaceAll(strings.TrimPrefix(name, "void "), "(anonymous namespace)::", "")
	if i := strings.IndexAny(name, "<("); i >= 0 {
		name = name[:i]
	}
	return name[strings.LastIndexByte(name, ':')+1:]
}

// OnlyPrefill reports whether all requests of a serving step are in prefill.
func (s *StepSpan) OnlyPrefill() bool { return s.Prefill > 0 && s.Decode == 0 }

// OnlyDecode reports whether all requests of a serving step are in decode.
func (s *StepSpan) OnlyDecode() bool { return s.Prefill == 0 && s.Decode > 0 }

// classifyServing reads the requests of each step from its name, and finds whether the recording serves prefill, decode
// or both. Attention kernels of steps with only prefill or only decode get the class of that phase. Kernel names that
// engines share with other programs get the class that they have in engines.
func (x *Index) classifyServing(e engineStep) {
	if e.serves == nil {
		return
	}
	phase := make([]uint8, len(x.Steps))
	prefill, decode := false, false
	for k := range x.Steps {
		phase[k] = cAttention
		if m := e.name.FindStringSubmatch(x.Steps[k].Name); m != nil {
			s := &x.Steps[k]
			s.Tokens, s.Context = parseTokens(s.Name)
			switch s.Prefill, s.Decode = e.serves(m); {
			case s.OnlyPrefill():
				phase[k] = cAttentionPrefill
			case s.OnlyDecode():
				phase[k] = cAttentionDecode
			}
			prefill, decode = prefill || s.Prefill > 0, decode || s.Decode > 0
		}
	}
	x.Recording.Serving = servingPhase(prefill, decode)
	named := make([]uint8, len(x.T.Names))
	for id, name := range x.T.Names {
		named[id] = NoClass
		if x.Info[id].Kernel == cReduction && strings.Contains(name, "ArgMaxOps") {
			named[id] = cSampling
		} else if name == "_fwd_kernel" {
			named[id] = cAttention
		}
	}
	for i := range x.T.GPU {
		g := &x.T.GPU[i]
		if g.Kind != model.Kernel {
			continue
		}
		if c := named[g.Name]; c != NoClass {
			x.class[i] = c
		}
		if x.class[i] != cAttention || g.Launch < 0 {
			continue
		}
		if k := x.StepAt(x.T.Host[g.Launch].Start); k >= 0 {
			x.class[i] = phase[k]
		}
	}
}
