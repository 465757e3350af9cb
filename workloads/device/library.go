package device

// ProductArgs are the arguments of a vendor library's matrix product, out [items,N] = scale a [items,K] b [K,N].
type ProductArgs struct {
	A, B, Out Ref
	K, N      Num
	Scale     Real
}

// LibraryProduct returns the vendor library's product with a and b in a precision: fp32 or tf32 (float32 values), bf16
// or fp16 (16-bit values). out is float32; one item is one row.
func LibraryProduct(precision string) *Kernel {
	k := Typed[ProductArgs](Kernel{Name: "gemm_" + precision, Lib: "gemm_" + precision})
	return &k
}
