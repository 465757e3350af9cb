package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	expertKernel  = "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu"
	sumKernel     = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)"
	sendKernel    = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
	groupedKernel = "fused_moe_kernel"
)

// sceneDecode decodes n tokens per step of vLLM: products of 4,096 x 4,096 weights with their shapes, or kernels of a
// graph.
func sceneDecode(n int, kernel string, graph bool) func() *scene {
	return func() *scene {
		s := newScene()
		for range 4 {
			s.engineStep(fmt.Sprintf("execute_context_0(0)_generation_%d(%d)", n, n), func() {
				if graph {
					s.launches(5, kernel, 40*us, true)
					return
				}
				for range 5 {
					s.inKind(model.Op, "aten::mm", recordedArgs(fmt.Sprintf("[%d,4096]", n), "[4096,4096]"), func() { s.kernel(kernel, 40*us) })
				}
			})
		}
		return s.end()
	}
}

// sceneAllReduce decodes with an all-reduce of a length behind each product.
func sceneAllReduce(kernel string, ns int64) func() *scene {
	return func() *scene {
		s := newScene()
		for range 4 {
			s.engineStep("step[DECODE bs=8]", func() {
				for range 3 {
					s.kernel(bf16gemm, 100*us)
					s.in("sgl_kernel::all_reduce", func() { s.kernel(kernel, ns) })
				}
			})
		}
		return s.end()
	}
}

// scenePipeline is a stage that receives for a time before it computes.
func scenePipeline(ns int64) func() *scene {
	return func() *scene {
		s := newScene()
		return s.repeat(4, func() {
			s.in("c10d::recv_", func() { s.kernel(sendKernel, ns) })
			s.products(4, 300*us)
		}).end()
	}
}

// The bytes where shapes are recorded, the reason where they are not, and the flags of the engine.
func TestDecodeBytes(t *testing.T) {
	a, _ := analyse(t, sceneDecode(32, bf16gemm, false)().trace())
	f := mustFind(t, a, gpuprof.RuleDecodeBytes)
	evidence(t, f, map[string]any{"decode_steps": 3, "tokens_per_step": int64(32), "weights": "16-bit"})
	// five products read 4,096 x 4,096 weights and 32 rows, and write 32 rows, of 2 bytes
	want := 5 * 2. * (4096*4096 + 2*32*4096)
	if got := f.Evidence["weight_bytes"].(float64); got < 0.999*want || got > 1.001*want {
		t.Errorf("%g bytes per step, want %g", got, want)
	}
	if got, rate := f.Evidence["bytes_per_s"].(float64), want/(5*40e-6); got < 0.999*rate || got > 1.001*rate {
		t.Errorf("%g bytes/s, want %g", got, rate)
	}
	// 312 TFLOP/s over 2,039 GB/s, 2 bytes a weight: 153 tokens
	if got := f.Evidence["balance_tokens"].(float64); got < 152 || got > 154 {
		t.Errorf("arithmetic bounds from %g tokens on", got)
	}
	if f.ClaimNS != 0 || !strings.Contains(f.PyTorch, "--max-num-seqs") || !strings.Contains(f.PyTorch, "--quantization fp8") {
		t.Errorf("claims %d ns: %s", f.ClaimNS, f.PyTorch)
	}
	if answer := a.Answer(); answer.Verdict != "bound by memory" || !strings.Contains(answer.Sentence, "bytes of the weights") {
		t.Errorf("%s: %s", answer.Verdict, answer.Sentence)
	}

	a, _ = analyse(t, sceneDecode(32, expertKernel, true)().trace())
	f = mustFind(t, a, gpuprof.RuleDecodeBytes)
	if !strings.Contains(caveats(f), "a graph replays them without operators") || strings.Contains(f.PyTorch, "fp8") {
		t.Errorf("%s: %s", caveats(f), f.PyTorch)
	}
	evidence(t, f, map[string]any{"weights": "mxfp4"})
	if a.Answer().Verdict != "bound by memory" {
		t.Error(a.Answer().Verdict)
	}
}

// A device without a data sheet, or a kernel without a format, proves nothing.
func TestDecodeBytesNeedsRates(t *testing.T) {
	s := sceneDecode(32, bf16gemm, false)()
	s.device.Name = "NVIDIA X1"
	a, _ := analyse(t, s.trace())
	if f := find(a, gpuprof.RuleDecodeBytes); f != nil {
		t.Error(f.Title)
	}
	a, _ = analyse(t, sceneDecode(32, groupedKernel, true)().trace())
	if f := find(a, gpuprof.RuleDecodeBytes); f != nil {
		t.Error(f.Title)
	}
}

// generate acts out a loop of steps with attention of one query and one more key each, behind a prefill.
func generate(grow int, marked bool) *scene {
	s := newScene()
	for k := range 6 {
		step := s.step
		if !marked {
			step = func(body func()) {
				body()
				s.op("aten::argmax", "reduce_kernel<512, 1, ArgMaxOps<float>>", 5*us)
				s.item()
			}
		}
		step(func() {
			queries, rows := 1, 4
			if k == 0 {
				queries, rows = 64, 256
			}
			for range 4 {
				s.inKind(model.Op, "aten::linear", recordedArgs(fmt.Sprintf("[4,%d,4096]", queries), "[4096,4096]"), func() {
					s.inKind(model.Op, "aten::mm", recordedArgs(fmt.Sprintf("[%d,4096]", rows), "[4096,4096]"), func() { s.kernel(bf16gemm, 40*us) })
				})
				q, kv := fmt.Sprintf("[4,32,%d,128]", queries), fmt.Sprintf("[4,32,%d,128]", 64+k*grow)
				s.inKind(model.Op, "aten::scaled_dot_product_attention", recordedArgs(q, kv, kv), func() { s.kernel("flash_fwd_splitkv_kernel<bf16>", 5*us) })
			}
		})
	}
	return s.end()
}

// A program without an engine decodes where attention has one query and the keys grow by a token from step to step.
func TestGeneration(t *testing.T) {
	a, _ := analyse(t, generate(1, true).trace())
	if a.Recording.Serving == "" || !strings.Contains(a.Recording.Text, "inference (") {
		t.Errorf("serving %q: %s", a.Recording.Serving, a.Recording.Text)
	}
	f := mustFind(t, a, gpuprof.RuleDecodeBytes)
	evidence(t, f, map[string]any{"tokens_per_step": int64(4), "decode_steps": 5, "context_tokens": int64(4 * 67)})
	if !strings.Contains(f.PyTorch, "more sequences per step") {
		t.Error(f.PyTorch)
	}
	a, _ = analyse(t, generate(1, false).trace())
	if !strings.HasPrefix(a.StepSource, "aten::argmax, from the end of one") || a.Recording.Serving != "mixed" {
		t.Errorf("steps of %q, serving %q", a.StepSource, a.Recording.Serving)
	}
	mustFind(t, a, gpuprof.RuleDecodeBytes)
	a, _ = analyse(t, generate(0, true).trace())
	if a.Recording.Serving != "" {
		t.Errorf("keys that do not grow are %q", a.Recording.Serving)
	}
}

func TestDecodeAllReduce(t *testing.T) {
	a, _ := analyse(t, sceneAllReduce(sumKernel, 40*us)().trace())
	f := mustFind(t, a, gpuprof.RuleDecodeAllReduce)
	evidence(t, f, map[string]any{"calls": 9, "by": "kernels of the engine"})
	if !strings.Contains(f.PyTorch, "--disable-custom-all-reduce") || strings.Contains(f.Title, "NCCL") {
		t.Errorf("%s: %s", f.Title, f.PyTorch)
	}
	a, _ = analyse(t, sceneAllReduce(allReduce, 40*us)().trace())
	if f = mustFind(t, a, gpuprof.RuleDecodeAllReduce); !strings.Contains(f.Title, "NCCL") {
		t.Error(f.Title)
	}
}

func TestPipelineBubble(t *testing.T) {
	a, _ := analyse(t, scenePipeline(400*us)().trace())
	f := mustFind(t, a, gpuprof.RulePipelineBubble)
	if f.ClaimNS == 0 || !strings.Contains(f.PyTorch, "micro-batches") {
		t.Errorf("claims %d ns: %s", f.ClaimNS, f.PyTorch)
	}
	if g := find(a, gpuprof.RuleExposedComm); g != nil && g.ClaimNS > 0 {
		t.Errorf("exposed-comm claims it again: %s", g.Title)
	}
}

// experts acts out a rank whose products of experts take a time.
func experts(ns int64) *model.Trace {
	s := newScene()
	return s.repeat(4, func() { s.kernel(groupedKernel, ns); s.products(1, 200*us) }).end().trace()
}

// The longest rank against the mean: 300 us against 150, 150 and 150 are 1.6 times 187.5.
func TestExpertImbalance(t *testing.T) {
	for _, c := range []struct {
		longest int64
		found   bool
	}{{300 * us, true}, {160 * us, false}} {
		a := ofJob(t, experts(150*us), experts(c.longest), experts(150*us), experts(150*us))
		f := find(a, gpuprof.RuleExpertImbalance)
		if (f != nil) != c.found {
			t.Fatalf("%d ns: found %v", c.longest, f)
		}
		if f != nil {
			evidence(t, f, map[string]any{"rank": 1, "ranks": 4, "most_ns": 300 * us, "mean_ns": int64(187_500)})
		}
	}
}
