package rules_test

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// A product with its recorded shapes and strides.
func sceneShapes(m, k, n int) func() *scene {
	return func() *scene {
		s := newScene()
		args := model.ArgsMark + strings.Join([]string{
			fmt.Sprintf("[[%d,%d],[%d,%d]]", m, k, k, n), `["c10::BFloat16","c10::BFloat16"]`, fmt.Sprintf("[[%d,1],[%d,1]]", k, n), `["",""]`,
		}, opcost.Separator)
		return s.repeat(3, func() { s.inKind(model.Op, "aten::mm", args, func() { s.kernel(bf16gemm, 160*us) }) }).end()
	}
}

// recordedArgs is the arguments of an operator as a recording has them; all tensors are dense and in bfloat16.
func recordedArgs(dims ...string) string {
	types := make([]string, len(dims))
	for i := range dims {
		if types[i] = `"c10::BFloat16"`; dims[i] == "[]" {
			types[i] = `""`
		}
	}
	return model.ArgsMark + strings.Join([]string{"[" + strings.Join(dims, ",") + "]", "[" + strings.Join(types, ",") + "]", "", ""}, opcost.Separator)
}

// Attention of 8 batches, 16 heads and 2,048 tokens by the kernel that is not the quickest.
func sceneCutlass(head int) func() *scene {
	return func() *scene {
		s := newScene()
		q := fmt.Sprintf("[8,16,2048,%d]", head)
		return s.repeat(3, func() {
			s.inKind(model.Op, "aten::_scaled_dot_product_efficient_attention", recordedArgs(q, q, q), func() {
				s.kernel("fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel)", int64(head/128)*2000*us)
			})
		}).end()
	}
}

// Operators on tensors of 256 MB, which the A100 reads or writes once in 132 us.
func sceneMemory(product bool) func() *scene {
	return func() *scene {
		s := newScene()
		x := "[8192,16384]"
		return s.repeat(3, func() {
			for i, name := range []string{"aten::gelu", "aten::relu", "aten::sigmoid"} {
				if product && i == 1 {
					s.products(1, 300*us)
				}
				s.inKind(model.Op, name, recordedArgs(x), func() { s.kernel("vectorized_elementwise_kernel<"+name+">", 300*us) })
			}
			s.products(1, 100*us)
		}).end()
	}
}

// leastCollectives in a row make a loop.
const leastCollectives = 4

// A loop over parameters; in the quiet one a product stands between.
func sceneLoopOfCollectives(products bool) func() *scene {
	return func() *scene {
		s := newScene()
		reduce := func(floats, ns int64) {
			s.in("c10d::allreduce_", func() {
				c := s.call("cudaLaunchKernel", callTime)
				s.gpu(sceneEvent{kind: model.Kernel, name: allReduce, corr: c, stream: 20, blocks: 24, floats: floats}, ns)
			})
		}
		return s.repeat(3, func() {
			s.products(1, 200*us)
			s.wait("cudaStreamSynchronize")
			reduce(1_000_000, 40*us)
			s.products(1, 20*us)
			for i := range leastCollectives {
				reduce(250_000, 50*us)
				if products && i == 1 {
					s.products(1, 20*us)
				}
			}
			s.wait("cudaStreamSynchronize")
		}).end()
	}
}
