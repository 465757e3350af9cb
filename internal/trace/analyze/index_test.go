package analyze

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// nested is a step with a module, operators and launches on one lane.
func nested() *builder {
	b := newBuilder()
	b.host(model.Python, "train.py(10): main", 0, 1_000_000)
	b.host(model.Python, "torch/nn/modules/module.py(1511): _call_impl", 10_000, 900_000)
	b.host(model.Python, "nn.Module: Net_0", 11_000, 890_000)
	b.host(model.Python, "model.py(41): forward", 12_000, 880_000)
	b.host(model.Python, "<built-in method linear of type object>", 19_000, 510_000)
	b.host(model.Op, "aten::linear", 20_000, 500_000)
	b.host(model.Op, "aten::addmm", 30_000, 400_000)
	b.launch("volta_sgemm_64x64_nn", 50_000, 5_000, 600_000, 700_000)
	b.host(model.Op, "aten::add", 410_000, 490_000)
	b.launch("elementwise_kernel", 420_000, 5_000, 710_000, 720_000)
	return b
}

func TestTree(t *testing.T) {
	x := nested().index(t)
	name := func(h int32) string {
		if h < 0 {
			return ""
		}
		return x.T.Name(x.T.Host[h].Name)
	}
	addmm, linear := x.find(t, "aten::addmm"), x.find(t, "aten::linear")
	call := x.T.GPU[x.findGPU(t, "volta_sgemm_64x64_nn")].Launch
	for _, c := range []struct{ what, got, want string }{
		{"parent of the call", name(x.Parent(call)), "aten::addmm"},
		{"parent of addmm", name(x.Parent(addmm)), "aten::linear"},
		{"parent of the outermost", name(x.Parent(x.find(t, "train.py(10): main"))), ""},
		{"frame above the call", name(x.Up(call, func(h *model.Host) bool { return h.Kind == model.Python })), "<built-in method linear of type object>"},
		{"none such above", name(x.Up(call, func(h *model.Host) bool { return h.Kind == model.Step })), ""},
		{"operator of a kernel", name(x.EnclosingOp(x.findGPU(t, "volta_sgemm_64x64_nn"))), "aten::addmm"},
		{"operator of an operator", name(x.Op(addmm)), "aten::addmm"},
		{"operator of a frame", name(x.Op(x.find(t, "nn.Module: Net_0"))), ""},
		{"module", x.Module(call), "Net_0"},
		{"module event", name(x.moduleOf(call)), "nn.Module: Net_0"},
		{"site", x.Site(call), "model.py(41): forward"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
	lo, hi := x.Inside(linear)
	var inside []string
	for h := lo; h < hi; h++ {
		inside = append(inside, name(h))
	}
	if want := []string{"aten::addmm", "cudaLaunchKernel", "aten::add", "cudaLaunchKernel"}; !slices.Equal(inside, want) {
		t.Errorf("inside linear: %v, want %v", inside, want)
	}
	if got := len(x.Launched(linear)); got != 2 {
		t.Errorf("linear launched %d operations, want 2", got)
	}
	if got := x.Launched(addmm); len(got) != 1 || x.T.Name(x.T.GPU[got[0]].Name) != "volta_sgemm_64x64_nn" {
		t.Errorf("addmm launched %v", got)
	}
	if got := x.Launched(call); len(got) != 1 {
		t.Errorf("the call launched %v", got)
	}
	if x.Call(call) != model.CallLaunch || x.Call(linear) != model.CallNone {
		t.Errorf("calls %v and %v", x.Call(call), x.Call(linear))
	}
}

func TestSite(t *testing.T) {
	const frames = "/usr/lib/python3.12/runpy.py(88): _run_code;train.py(9): <module>;/opt/env/site-packages/torch/nn/functional.py(12): linear"
	for _, c := range []struct {
		name  string
		build func(*builder)
		want  string
	}{
		{"library frames only", func(b *builder) {
			b.host(model.Python, "torch/_tensor.py(1): backward", 0, 90).host(model.Python, "torch/autograd/graph.py(2): run", 1, 80)
		}, "torch/autograd/graph.py(2): run"},
		{"a stack of the user's own code beats library frames", func(b *builder) {
			b.t.Stacks = []string{frames}
			b.host(model.Python, "torch/_tensor.py(1): backward", 0, 90)
			b.host(model.Op, "aten::mm", 5, 50, func(h *model.Host) { h.Stack = 1 })
		}, "train.py(9): <module>"},
		{"a stack of libraries does not", func(b *builder) {
			b.t.Stacks = []string{"/usr/lib/python3.12/runpy.py(88): _run_code"}
			b.host(model.Python, "torch/_tensor.py(1): backward", 0, 90)
			b.host(model.Op, "aten::mm", 5, 50, func(h *model.Host) { h.Stack = 1 })
		}, "torch/_tensor.py(1): backward"},
		{"stack", func(b *builder) {
			b.t.Stacks = []string{frames}
			b.host(model.Op, "aten::linear", 0, 90, func(h *model.Host) { h.Stack = 1 }).host(model.Op, "aten::mm", 5, 50)
		}, "train.py(9): <module>"},
		{"stack of libraries", func(b *builder) {
			b.t.Stacks = []string{"/usr/lib/python3.12/runpy.py(88): _run_code;<built-in method x>"}
			b.host(model.Op, "aten::linear", 0, 90, func(h *model.Host) { h.Stack = 1 })
		}, "/usr/lib/python3.12/runpy.py(88): _run_code"},
		{"module", func(b *builder) { b.host(model.Python, "nn.Module: Net_0", 0, 90).host(model.Op, "aten::mm", 5, 50) }, "Net_0"},
		{"annotation", func(b *builder) {
			b.host(model.Step, "ProfilerStep#1", 0, 95).host(model.Annotation, "forward", 1, 90).host(model.Annotation, "Optimizer.step#SGD.step", 3, 80).host(model.Op, "aten::mm", 5, 50)
		}, "forward"},
		{"operator", func(b *builder) { b.host(model.Op, "aten::mm", 5, 50) }, "aten::mm"},
		{"the call", func(*builder) {}, "cudaLaunchKernel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder()
			c.build(b)
			x := b.launch("k", 10, 5, 100, 200).index(t)
			if got := x.Site(x.T.GPU[0].Launch); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestFrames(t *testing.T) {
	for name, want := range map[string]uint8{
		"train.py(10): main":                               nameFrame,
		"/home/me/project/train.py(10): main":              nameFrame,
		`C:\me\train.py(10): main`:                         nameFrame,
		"torch/nn/modules/module.py(1511): _call_impl":     nameFrame | nameLibrary,
		"/opt/env/lib/site-packages/e3nn/o3.py(1): tp":     nameFrame | nameLibrary,
		"threading.py(1032): _bootstrap":                   nameFrame | nameLibrary,
		"contextlib.py(75): inner":                         nameFrame | nameLibrary,
		"<string>(1): <module>":                            nameFrame | nameLibrary,
		"<built-in method linear of type object at 0x7f9>": 0,
		"nn.Module: Linear_3":                              nameModule,
		"no frame at all":                                  0,
		"f(x): y":                                          0,
	} {
		if got := frameFlags(name); got != want {
			t.Errorf("%s: %b, want %b", name, got, want)
		}
	}
}

func TestCalls(t *testing.T) {
	for name, want := range map[string]model.Call{
		"cudaLaunchKernel": model.CallLaunch, "cudaLaunchKernelExC": model.CallLaunch, "cuLaunchKernelEx": model.CallLaunch, "cudaLaunchKernel_v7000": model.CallLaunch,
		"hipExtModuleLaunchKernel": model.CallLaunch, "hipLaunchKernel": model.CallLaunch, "cudaLaunchCooperativeKernel": model.CallLaunch, "cudaLaunchHostFunc": model.CallOther,
		"cudaGraphLaunch": model.CallGraph, "cuGraphLaunch": model.CallGraph, "hipGraphLaunch": model.CallGraph, "cudaGraphLaunch_v10000": model.CallGraph,
		"cudaMemcpyAsync": model.CallCopy, "cuMemcpyDtoHAsync_v2": model.CallCopy, "hipMemcpyWithStream": model.CallCopy, "cudaMemsetAsync": model.CallFill, "cuMemsetD8Async": model.CallFill,
		"cudaStreamWaitEvent": model.CallWaitEvent, "cuStreamWaitEvent": model.CallWaitEvent, "cudaStreamWaitEvent_v3020": model.CallWaitEvent, "hipStreamWaitEvent": model.CallWaitEvent, "cudaStreamSynchronize": model.CallSync, "cudaDeviceSynchronize": model.CallSync, "cudaEventSynchronize": model.CallSync, "cuCtxSynchronize": model.CallSync, "hipDeviceSynchronize": model.CallSync,
		"cudaEventQuery": model.CallOther, "cudaMalloc": model.CallAlloc, "cuMemAlloc_v2": model.CallAlloc, "hipMalloc": model.CallAlloc, "cudaMallocHost": model.CallAlloc,
		"cudaFree": model.CallFree, "cuMemFree_v2": model.CallFree, "hipFree": model.CallFree, "INVALID": model.CallOther, "cudaGetDevice": model.CallOther,
	} {
		if got := model.CallOf(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// TestBrokenNesting: events that overlap without nesting, as clocks of
// different grain or badly closed ranges make them.
func TestBrokenNesting(t *testing.T) {
	b := newBuilder()
	b.host(model.Annotation, "left open", 0, 100_000)
	b.host(model.Annotation, "outlasts it", 50_000, 200_000)
	b.host(model.Op, "inside both", 60_000, 70_000)
	b.host(model.Op, "after the first", 110_000, 120_000)
	b.host(model.Op, "rounded", 300_000, 310_000)
	b.host(model.Op, "rounded inside", 305_000, 311_000)
	b.host(model.API, "cudaLaunchKernel", 308_000, 350_000)
	b.host(model.Op, "next", 312_000, 320_000)
	x := b.index(t)
	for child, want := range map[string]string{
		"outlasts it": "", "inside both": "outlasts it", "after the first": "outlasts it", "rounded": "",
		"rounded inside": "rounded", "cudaLaunchKernel": "rounded inside", "next": "",
	} {
		got := ""
		if p := x.Parent(x.find(t, child)); p >= 0 {
			got = x.T.Name(x.T.Host[p].Name)
		}
		if got != want {
			t.Errorf("parent of %q: %q, want %q", child, got, want)
		}
	}
}

// TestTreeIsSound: on random traces the parents, the ranges of what lies
// inside and the launches agree with each other.
func TestTreeIsSound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := randomTrace(r)
		for i := range tr.Host { // so long that the overhang is small beside them
			tr.Host[i].Start *= 10_000
			tr.Host[i].End *= 10_000
		}
		tr.Finish()
		x, err := NewIndex(context.Background(), tr)
		if err != nil {
			r.Fatal(err)
		}
		for i := range tr.Host {
			h := int32(i)
			lo, hi := x.Inside(h)
			for j := range tr.Host {
				above := false
				for p := x.Parent(int32(j)); p >= 0; p = x.Parent(p) {
					above = above || p == h
				}
				if in := int32(j) >= lo && int32(j) < hi; in != above {
					r.Fatalf("event %d inside %d: by range %v, by parents %v", j, i, in, above)
				}
			}
			if p := x.Parent(h); p >= 0 {
				a, b := &tr.Host[p], &tr.Host[h]
				if a.Lane != b.Lane || b.Start < a.Start || b.Start >= a.End {
					r.Fatalf("event %d [%d, %d) in %d [%d, %d)", h, b.Start, b.End, p, a.Start, a.End)
				}
			}
			n := 0
			for g := range tr.GPU {
				if l := tr.GPU[g].Launch; l == h || l >= lo && l < hi {
					n++
				}
			}
			if got := len(x.Launched(h)); got != n {
				r.Fatalf("event %d launched %d operations, by list %d", h, n, got)
			}
		}
	})
}

// TestExternalIDs: without a launch the operator with the external id speaks
// for a device event, unless that id is the correlation id again.
func TestExternalIDs(t *testing.T) {
	b := newBuilder()
	b.host(model.Op, "aten::mm", 0, 50, withExt(7)).host(model.Op, "aten::add", 60, 90, withExt(9))
	b.gpu(model.Kernel, "by id", 100, 110, func(g *model.GPU) { g.Ext, g.Corr = 7, 1234 })
	b.gpu(model.Kernel, "repeats it", 120, 130, func(g *model.GPU) { g.Ext, g.Corr = 9, 9 })
	b.gpu(model.Kernel, "unknown", 140, 150, func(g *model.GPU) { g.Ext = 8 })
	x := b.index(t)
	for g, want := range map[string]int32{"by id": x.find(t, "aten::mm"), "repeats it": -1, "unknown": -1} {
		if got := x.EnclosingOp(x.findGPU(t, g)); got != want {
			t.Errorf("%s: operator %d, want %d", g, got, want)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	tr := nested().finish()
	if _, err := NewIndex(ctx, tr); err == nil {
		t.Error("a cancelled context gave an index")
	}
	if _, err := Summarise(ctx, []*model.Trace{tr}, Options{}); err == nil {
		t.Error("a cancelled context gave an analysis")
	}
}
