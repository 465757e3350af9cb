package model

// Class is the kind of work of a device operation.
type Class string

// The classes, in the order of printing.
const (
	GEMM          Class = "gemm"
	Conv          Class = "conv"
	TensorProduct Class = "tensor_product"
	Scatter       Class = "scatter"
	RNN           Class = "rnn"
	Attention     Class = "attention"
	Norm          Class = "norm"
	// Serving of language models. Attention without a phase in its name or its step stays Attention.
	AttentionPrefill Class = "attention_prefill"
	AttentionDecode  Class = "attention_decode"
	KVCache          Class = "kv_cache" // writes keys and values to the cache, or keeps its tables
	Rotary           Class = "rotary"   // rotary position embedding
	Quantize         Class = "quantize" // to 8 bits or fewer, and back
	MoERouting       Class = "moe_routing"
	MoEGEMM          Class = "moe_gemm"       // of the experts
	MoEAllToAll      Class = "moe_all_to_all" // tokens to the ranks of their experts, and back
	Sampling         Class = "sampling"

	Elementwise   Class = "elementwise"
	Reduction     Class = "reduction"
	Copy          Class = "copy" // memcpy, memset, and kernels that only move data
	Communication Class = "communication"
	Optimizer     Class = "optimizer"
	Other         Class = "other"
)

// Classes lists every class in the order of printing.
func Classes() []Class {
	return []Class{GEMM, Conv, TensorProduct, Scatter, RNN, Attention, Norm, Elementwise, Reduction, Copy, Communication, Optimizer, Other,
		AttentionPrefill, AttentionDecode, KVCache, Rotary, Quantize, MoERouting, MoEGEMM, MoEAllToAll, Sampling}
}

// Communicates reports whether kernels of the class move data between ranks.
func (c Class) Communicates() bool { return c == Communication || c == MoEAllToAll }
