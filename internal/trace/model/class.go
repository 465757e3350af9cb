package model

// Class is what kind of work a device operation does.
type Class string

// The classes, in the order they are shown.
const (
	GEMM          Class = "gemm"
	Conv          Class = "conv"
	TensorProduct Class = "tensor_product"
	Scatter       Class = "scatter"
	RNN           Class = "rnn"
	Attention     Class = "attention"
	Norm          Class = "norm"
	Elementwise   Class = "elementwise"
	Reduction     Class = "reduction"
	Copy          Class = "copy" // memcpy, memset, and kernels that only move data
	Communication Class = "communication"
	Optimizer     Class = "optimizer"
	Other         Class = "other"
)

// Classes lists every class in the order they are shown.
func Classes() []Class {
	return []Class{GEMM, Conv, TensorProduct, Scatter, RNN, Attention, Norm, Elementwise, Reduction, Copy, Communication, Optimizer, Other}
}
