package resnet

import (
	"slices"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Describe returns facts about the network for the result of a run.
func (n *Net) Describe() map[string]any {
	out := map[string]any{
		"convolutions": n.implementation(), "parameters": n.o.Parameters(), "multiply_adds": n.o.MultiplyAdds(),
		"activations": n.o.Activations(), "memory_bytes": n.o.Memory(n.info),
	}
	if a := n.Algorithms(n.o.MaxBatch); len(a) > 0 {
		out["convolution_algorithms"] = a
	}
	return out
}

// Algorithms returns the library's algorithm for each convolution at a batch size, such as
// "stem=implicit_precomp_gemm". It omits convolutions that have not run at this size.
func (n *Net) Algorithms(batch int) []string {
	var out []string
	for _, g := range n.groups {
		for i := range g.launches[0] {
			l := &g.launches[0][i]
			if f, ok := l.Func.(interface {
				Algorithm(n int, a *device.Args) string
			}); ok && g.Kind == Conv {
				if name := f.Algorithm(l.items.forBatch(batch), &l.Args); name != "" {
					out = append(out, g.Name+"="+name)
				}
			}
		}
	}
	return out
}

// UsesCuDNN reports whether cuDNN computes any convolution of the network.
func (n *Net) UsesCuDNN() bool {
	return slices.ContainsFunc(n.o.convolutions(), func(c conv) bool { return n.o.wayOf(c) == CuDNN })
}

func (n *Net) implementation() string {
	for _, c := range n.o.convolutions() {
		if n.o.wayOf(c) == CuDNN {
			return "cuDNN " + n.info.Facts["cudnn"]
		}
		if n.o.usesVendor(c, n.info) {
			return "cuBLAS " + n.info.Facts["cublas"]
		}
	}
	return "own kernels"
}
