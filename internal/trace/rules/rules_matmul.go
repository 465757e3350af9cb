package rules

import (
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

type matmul struct {
	kind matmulKind
	prec precision
}

type matmulKind uint8

const (
	notMatmul matmulKind = iota
	matmulGEMM
	matmulConv
	matmulAttention
)

// precision is the arithmetic of a matrix product. Rules ignore precUnknown.
type precision uint8

const (
	precUnknown  precision = iota
	precFP32               // FP32 on ordinary cores
	precTF32               // FP32 operands, TF32 on tensor cores
	precHalf               // fp16 or bf16 on tensor cores
	precHalfSIMT           // fp16 or bf16 operands on ordinary cores
	precFP8
	precFP64
	precInt8
)

// Kernel names of the libraries, all lower case:
//
//	cuBLAS   ampere_sgemm_128x64_tn, volta_h884gemm_…, ampere_bf16_s16816gemm_bf16_…,
//	         sm80_xmma_gemm_f32f32_f32f32_f32_…_ffma_…, sm90_xmma_gemm_bf16bf16_bf16f32_f32_…,
//	         nvjet_hsh_… (fp16), nvjet_tst_… (bf16), nvjet_sss_tf32_…
//	cutlass  cutlass_80_simt_sgemm_…, cutlass_80_tensorop_s1688gemm_… (TF32),
//	         cutlass_80_wmma_tensorop_bf16_s161616gemm_…, cutlass3x_sm90_tensorop_s64x128x16gemm_f16_…
//	cuDNN    volta_scudnn_…, turing_h1688cudnn_…, implicit_convolve_sgemm<float, …,
//	         dgrad_engine<float, …, sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_…
//	Tensile  (rocBLAS, hipBLASLt) Cijk_Ailk_Bljk_SB_… (FP32), …_HHS_BH_…, …_BBS_BH_…, …_DB_…, newer
//	         …_S_B_…, …_S_MX_B_… (XF32, never seen), …_H_HS_BH_…, …_B_BS_BH_…, …_F8BS_BH_…; _MI16x16x16_ is the
//	         instruction of the matrix cores
//	MIOpen   igemm_fwd_gtcx3_nhwc_bf16_…, igemm_wrw_gtc_fp32_…
//
// The digits of s1688 and the like are the shape of one tensor-core
// instruction: depth 16 exists for 16-bit types only; depth 8 on Ampere and
// later, without a type, is TF32, and before Ampere 16-bit.
var (
	mmTag  = lazyregexp.New(`gemm|nvjet|cutlass|xmma|wgmma|hmma|gemv`)
	cvTag  = lazyregexp.New(`convolve|fprop|dgrad|wgrad|scudnn|[hs]\d{3,6}cudnn|implicit_gemm|winograd_\d`)
	atTag  = lazyregexp.New(`flash_fwd|flash_bwd|fmha|flash_attn|flashattn|sdpa`)
	helper = lazyregexp.New(`splitkreduce|splitk_reduce|computeoffsets|compute\w*offsets|nchwtonhwc|nhwctonchw|im2col|col2im|reduce_wgrad|generatewinograd|winogradforward|winogradwgrad|scalepackedtensor|gemv`)

	sixteen  = lazyregexp.New(`bf16|bfloat16|fp16|(^|[^a-z0-9])f16|f16f16|half|hgemm|h\d{3,6}(gemm|cudnn)|nvjet_(sm\d+_)?[ht][a-z]{2,}`)
	eight    = lazyregexp.New(`e4m3|e5m2|fp8|float8|nvjet_(sm\d+_)?q[a-z]{2,}`)
	integer  = lazyregexp.New(`i8i8|i8i32|i8816|i16832|imma|int8|s8s8|igemm`)
	double   = lazyregexp.New(`dgemm|zgemm|d884|f64f64|cgemm|double`)
	tf32     = lazyregexp.New(`tf32`)
	mmaDeep  = lazyregexp.New(`[hs](16816|161616|16832|884)|h\d{3,6}(gemm|cudnn)|x16gemm`)
	mmaShort = lazyregexp.New(`s1688|s161608`)
	oldTensr = lazyregexp.New(`volta|turing|cutlass_7\d|sm7\d`)
	tensor   = lazyregexp.New(`tensorop|wgmma|hmma|xmma|nvjet|wmma`)
	ordinary = lazyregexp.New(`sgemm|hgemm|_engine<|gemmk1`)
	tensile  = lazyregexp.New(`^cijk_[a-z]+_[a-z]+_(4x)?(i8|[fb]8|[a-z])`)
	implicit = lazyregexp.New(`^igemm_(?:fwd|bwd|wrw)_gtc.*?_(fp32|fp16|bf16)_`)
	simtFP32 = lazyregexp.New(`sgemm|ffma|f32f32_f32f32_f32`)
	fp32Conv = lazyregexp.New(`scudnn|_engine<float,|engine_float|convolve_sgemm<float`)
)

func parseMatmul(name string) matmul {
	s := strings.ToLower(name)
	if t := tensile.FindStringSubmatch(s); t != nil {
		return matmul{matmulGEMM, parseTensilePrecision(t[2], s)}
	}
	if t := implicit.FindStringSubmatch(s); t != nil {
		if t[1] == "fp32" {
			return matmul{matmulConv, precFP32}
		}
		return matmul{matmulConv, precHalf}
	}
	m := matmul{kind: parseMatmulKind(s)}
	if m.kind == notMatmul {
		return matmul{}
	}
	if m.kind == matmulAttention {
		// Fused attention in 16 bits runs on tensor cores. In FP32 the name does not show whether it uses them.
		if sixteen.MatchString(s) {
			m.prec = precHalf
		}
		return m
	}
	m.prec = parsePrecision(s)
	return m
}

// nameKernelPrecision returns the name of the precision in which a kernel of a matrix product or convolution computes;
// "" for other kernels and unclear names.
func (c *ruleContext) nameKernelPrecision(kernel model.NameID) string {
	m := c.names[kernel].matmul
	if m.kind != notMatmul && m.prec == precHalfSIMT {
		return precisionNames[precHalf] // the bound is the peak rate of tensor cores, which the kernel could use
	}
	return precisionNames[m.prec]
}

func parseMatmulKind(s string) matmulKind {
	switch {
	case helper.MatchString(s):
		return notMatmul
	case atTag.MatchString(s):
		return matmulAttention
	case cvTag.MatchString(s):
		return matmulConv
	case mmTag.MatchString(s):
		return matmulGEMM
	}
	return notMatmul
}

func parsePrecision(s string) precision {
	if strings.Contains(s, "ffma") || strings.Contains(s, "simt") {
		// xmma and CUTLASS also make kernels for ordinary cores.
		if sixteen.MatchString(s) {
			return precHalfSIMT
		}
		if simtFP32.MatchString(s) && !tf32.MatchString(s) {
			return precFP32
		}
		return precUnknown
	}
	switch {
	case eight.MatchString(s):
		return precFP8
	case tf32.MatchString(s):
		return precTF32
	case integer.MatchString(s):
		return precInt8
	case mmaDeep.MatchString(s):
		return precHalf
	case mmaShort.MatchString(s):
		if sixteen.MatchString(s) || oldTensr.MatchString(s) {
			return precHalf
		}
		return precTF32
	case sixteen.MatchString(s):
		switch {
		case tensor.MatchString(s):
			return precHalf
		case ordinary.MatchString(s):
			return precHalfSIMT
		}
		return precUnknown // operand types alone do not show whether the kernel uses tensor cores
	case double.MatchString(s):
		return precFP64
	case simtFP32.MatchString(s), fp32Conv.MatchString(s):
		return precFP32
	}
	return precUnknown
}

func parseTensilePrecision(operands, name string) precision {
	switch operands {
	case "i8":
		return precInt8
	case "f8", "b8":
		return precFP8
	case "s":
		if strings.Contains(name, "_mx_") {
			return precTF32
		}
		return precFP32
	case "h", "b":
		if strings.Contains(name, "_mi") {
			return precHalf
		}
		return precHalfSIMT
	case "d", "c", "z":
		return precFP64
	}
	return precUnknown
}
