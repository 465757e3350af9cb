package resnet

import (
	"slices"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Describe is what a run says about the network.
func (n *Net) Describe() map[string]any {
	out := map[string]any{
		"convolutions": n.computes(), "parameters": n.o.Parameters(), "multiply_adds": n.o.MultiplyAdds(),
		"activations": n.o.Activations(), "memory_bytes": n.o.Memory(n.info),
	}
	if a := n.Algorithms(n.o.MaxBatch); len(a) > 0 {
		out["convolution_algorithms"] = a
	}
	return out
}

// Algorithms are the library's choices for a batch by convolution, "stem=implicit_precomp_gemm". A convolution that has
// not run in a batch of this size is left out.
func (n *Net) Algorithms(batch int) []string {
	var out []string
	for _, g := range n.groups {
		for i := range g.launches[0] {
			l := &g.launches[0][i]
			if f, ok := l.fn.(interface {
				Algorithm(n int, a *device.Args) string
			}); ok && g.Kind == Conv {
				if name := f.Algorithm(l.items.of(batch), &l.args); name != "" {
					out = append(out, g.Name+"="+name)
				}
			}
		}
	}
	return out
}

// UsesCuDNN says that the library computes convolutions.
func (n *Net) UsesCuDNN() bool {
	return slices.ContainsFunc(n.o.convs(), func(c conv) bool { return n.o.way(c) == CuDNN })
}

// computes names what computes the convolutions.
func (n *Net) computes() string {
	for _, c := range n.o.convs() {
		if n.o.way(c) == CuDNN {
			return "cuDNN " + n.info.Facts["cudnn"]
		}
		if n.o.vendor(c, n.info) {
			return "cuBLAS " + n.info.Facts["cublas"]
		}
	}
	return "own kernels"
}
