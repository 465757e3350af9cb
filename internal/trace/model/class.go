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
	// Classes for serving of language models. Attention whose phase is unknown stays Attention.
	AttentionPrefill Class = "attention_prefill"
	AttentionDecode  Class = "attention_decode"
	KVCache          Class = "kv_cache" // writes keys and values to the cache, or manages its tables
	Rotary           Class = "rotary"   // rotary position embedding
	Quantize         Class = "quantize" // to 8 bits or fewer, or back
	MoERouting       Class = "moe_routing"
	MoEGEMM          Class = "moe_gemm"       // products of experts
	MoEAllToAll      Class = "moe_all_to_all" // sends tokens to the ranks of their experts, or back
	Sampling         Class = "sampling"

	Elementwise   Class = "elementwise"
	Reduction     Class = "reduction"
	Copy          Class = "copy" // memcpy, memset, and kernels that only move data
	Communication Class = "communication"
	Optimizer     Class = "optimizer"
	Other         Class = "other"
)

// Classes lists all classes in the order of printing.
func Classes() []Class {
	return []Class{GEMM, Conv, TensorProduct, Scatter, RNN, Attention, Norm, Elementwise, Reduction, Copy, Communication, Optimizer, Other,
		AttentionPrefill, AttentionDecode, KVCache, Rotary, Quantize, MoERouting, MoEGEMM, MoEAllToAll, Sampling}
}

// Communicates reports whether kernels of the class move data between ranks.
func (c Class) Communicates() bool { return c == Communication || c == MoEAllToAll }
