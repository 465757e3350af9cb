package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const ms = 1000 * us

// A recording of one cold pass: the first copy comes early, and the libraries set up behind it.
func sceneColdPass(loads ...int64) *scene {
	s := newScene()
	s.copy(7, model.H2D, model.Pageable, 4096, 4*us, true)
	for _, ns := range loads {
		s.call("cudaLaunchKernel", ns)
		s.products(20, 200*us)
	}
	return s.end()
}

// A recording of one pass whose first launch loads code, for a kernel that runs longer than the launch takes.
func sceneFirstLaunch() *scene {
	s := newScene()
	s.gpu(sceneEvent{kind: model.Kernel, name: addKernel, corr: s.call("cudaLaunchKernel", 300*ms), stream: 7, blocks: 4096}, 2000*ms)
	s.products(20, 200*us)
	return s.end()
}

// A recording of one pass behind the first batch of a loader.
func sceneFirstBatch(loader string, fetches int) *scene {
	s := newScene()
	for range fetches {
		s.inKind(model.Annotation, "enumerate(DataLoader)#_"+loader+"DataLoaderIter.__next__", "", func() { s.work(900 * ms) })
	}
	s.products(20, 500*us)
	return s.end()
}

// A recording of a program that works on the host before it calls CUDA, into which Nsight Systems then hooks.
func sceneHooked(hook string) *scene {
	s := newScene()
	s.inKind(model.Overhead, "OpenGL profiling initialization", "", func() { s.work(2 * ms) })
	s.work(900 * ms)
	s.inKind(model.Overhead, hook, "", func() { s.work(5 * ms) })
	s.products(20, 2000*us)
	return s.end()
}

// A recording of one pass whose launches take 30 ms each, of other kernels every time or of the same.
func sceneLoads(name func(i int) string, beside int64) *scene {
	s := newScene()
	s.copy(7, model.H2D, model.Pageable, 4096, 4*us, true)
	s.kernel(addKernel, 4*us)
	for i := range 6 {
		c := s.call("hipLaunchKernel", 30*ms)
		s.gpu(sceneEvent{kind: model.Kernel, name: name(i), corr: c, stream: 7, blocks: 4096}, beside)
	}
	s.products(20, 200*us)
	return s.end()
}

// A recording of one pass that builds n kernels of each name before their first use. Each takes a pause, after which the
// program calls before.
func sceneBuilds(pause int64, before string, n int, names ...string) *scene {
	s := newScene()
	s.copy(7, model.H2D, model.Pageable, 4096, 4*us, true)
	s.kernel(addKernel, 4*us)
	for range n {
		for _, name := range names {
			s.work(pause)
			s.call(before, 300*us)
			s.kernel(name, 2*us)
		}
	}
	s.products(20, 200*us)
	return s.end()
}

func TestStartUpWithoutSteps(t *testing.T) {
	for name, c := range map[string]struct {
		scene *scene
		ns    int64 // of start-up, at least; 0: none
		says  string
	}{
		"calls after the first launch":       {sceneColdPass(3000*ms, 900*ms), 3900 * ms, "loading modules"},
		"calls that repeat":                  {sceneColdPass(300*ms, 300*ms, 300*ms), 0, ""},
		"first launches that load code":      {sceneLoads(func(i int) string { return "kernel" + string(rune('a'+i)) }, 200*us), 180 * ms, "loading modules"},
		"long launches of one kernel":        {sceneLoads(func(int) string { return addKernel }, 200*us), 0, ""},
		"long launches beside work":          {sceneLoads(func(i int) string { return "kernel" + string(rune('a'+i)) }, 60*ms), 0, ""},
		"kernels built before they are used": {sceneBuilds(157*ms, "cuModuleLoadData", 2, "cupy_fill", "cupy_equal"), 4 * 157 * ms, "loading modules"},
		"the shortest pause of a build":      {sceneBuilds(21*ms, "hipModuleLoadData", 1, "fill"), 21 * ms, "loading modules"},
		"pauses too short for a build":       {sceneBuilds(19*ms, "cuModuleLoadData", 1, "fill"), 0, ""},
		"modules loaded in a loop":           {sceneBuilds(157*ms, "cuModuleLoadData", 3, "fill"), 0, ""},
		"pauses before another call":         {sceneBuilds(157*ms, "cudaMalloc", 1, "fill"), 0, ""},
		"calls of ordinary length":           {sceneColdPass(20*ms, 20*ms), 0, ""},
		"work before CUDA is called":         {sceneHooked("CUDA profiling initialization"), 907 * ms, "before the first call"},
		"a first launch that loads code":     {sceneFirstLaunch(), 300 * ms, ""},
		"the first batch of workers":         {sceneFirstBatch("MultiProcessing", 1), 900 * ms, "first batch of a data loader"},
		"several batches":                    {sceneFirstBatch("MultiProcessing", 3), 0, ""},
		"a loader without workers":           {sceneFirstBatch("SingleProcess", 1), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, x := analyse(t, c.scene.trace())
			var ns int64
			for _, p := range x.Recording.Phases {
				if p.Name == analyze.PhaseStartUp {
					ns += p.NS
				}
			}
			if ns < c.ns || c.ns == 0 && ns > 0 {
				t.Errorf("start-up is %d ns, want %d", ns, c.ns)
			}
			f := find(a, gpuprof.RuleNotSteady)
			switch {
			case c.says == "":
				if f != nil {
					t.Errorf("found %q", f.Title)
				}
			case f == nil || a.Findings[0].Rule != f.Rule || !strings.Contains(f.Title, c.says):
				t.Errorf("the findings are %v", a.Findings)
			}
			for _, f := range a.Findings {
				if c.says != "" && f.ClaimNS > x.Span.Len()-ns {
					t.Errorf("%s claims %d ns of start-up", f.Rule, f.ClaimNS)
				}
			}
		})
	}
}

// The first of equal copies takes as long as the others: its call initializes nothing.
func TestFirstOfEqualCopiesIsNoStartUp(t *testing.T) {
	for _, before := range []int64{0, 500 * ms} { // the program starts before its first call
		s := newScene()
		s.work(before)
		for range 10 {
			s.copy(7, model.H2D, model.Pageable, 1<<28, 32*ms, true)
		}
		a, _ := analyse(t, s.end().trace())
		ns := int64(0)
		for _, p := range a.Recording.Phases {
			ns += p.NS
		}
		if ns > before {
			t.Errorf("%d ns before the first copy: start-up %d ns", before, ns)
		}
	}
}

// The card tells how much of the start-up comes before the first call if it is more than half.
func TestCardTellsTheTimeBeforeTheFirstCall(t *testing.T) {
	for first, told := range map[string]bool{"": true, "cudaMalloc": false} {
		s := newScene()
		s.inKind(model.Overhead, "OpenGL profiling initialization", "", func() { s.work(2 * ms) })
		if first != "" {
			s.call(first, 100*us)
		}
		s.work(900 * ms)
		s.inKind(model.Overhead, "CUDA profiling initialization", "", func() { s.work(5 * ms) })
		s.products(20, 2000*us)
		_, x := analyse(t, s.end().trace())
		if text := x.Recording.Text; strings.Contains(text, "start-up 907 ms, 907 ms of it before the first call") != told || !strings.Contains(text, "start-up 907 ms") {
			t.Errorf("after %q: %s", first, text)
		}
	}
}

// In a step that is profiled alone a fetch from workers is a wait of that step.
func TestFetchOfOneStepIsNoStartUp(t *testing.T) {
	s := newScene()
	s.repeat(1, func() {
		s.inKind(model.Annotation, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "", func() { s.work(900 * ms) })
		s.products(20, 500*us)
	})
	a, x := analyse(t, s.end().trace())
	if len(x.Recording.Phases) > 0 {
		t.Errorf("phases are %v", x.Recording.Phases)
	}
	mustFind(t, a, gpuprof.RuleDataloaderStall)
}

// A pause before a new Triton kernel is compilation only if the kernel is launched behind it: a kernel that was launched
// before waits for work of the device that the recording does not have.
func TestQueuedTritonKernelWasCompiledBefore(t *testing.T) {
	for name, queued := range map[string]bool{"launched before the pause": true, "launched behind the pause": false} {
		s := newScene()
		s.products(20, 200*us)
		if queued {
			s.free[7] += 125 * ms
		} else {
			s.wait("cudaDeviceSynchronize")
			s.work(125 * ms)
		}
		s.kernel("triton_poi_fused_add_0", 50*us)
		s.products(20, 200*us)
		_, x := analyse(t, s.trace()) // no call covers the pause
		compiles := false
		for _, p := range x.Recording.Phases {
			compiles = compiles || p.Name == analyze.PhaseCompile
		}
		if compiles == queued {
			t.Errorf("%s: compiles is %v", name, compiles)
		}
	}
}

// A program that runs once is judged by what its device does behind a long start-up, if that is work at all.
func TestStartUpBeforeTheWorkOfOneKernel(t *testing.T) {
	for name, c := range map[string]struct {
		kernel, copy int64 // ns
		first        string
	}{
		"a kernel of 10 ms":                 {10 * ms, 100 * us, gpuprof.RuleOneKernel},
		"a kernel of 20 us":                 {20 * us, 100 * us, gpuprof.RuleNotSteady},
		"a kernel of 20 us and a long copy": {20 * us, 4 * ms, gpuprof.RuleNotSteady},
	} {
		s := newScene()
		s.native = true
		s.call("cudaMalloc", 1200*ms)
		s.copy(7, model.H2D, model.Pageable, 4096, c.copy, true)
		s.kernel("matrixMulKernel(float *, float *, int)", c.kernel)
		s.wait("cudaDeviceSynchronize")
		a, _ := analyse(t, s.trace())
		if len(a.Findings) == 0 || a.Findings[0].Rule != c.first {
			t.Errorf("%s: the findings are %v", name, a.Findings)
		}
	}
}

// The work of the profiler after the program's last event, such as writing its buffers, is no part of the recording.
func TestProfilersEndIsNotRecorded(t *testing.T) {
	s := newScene()
	s.native = true
	s.call("cudaMalloc", 300*ms)
	s.kernel("empty_12_gpu", 50*us)
	s.wait("cudaDeviceSynchronize")
	end := s.now
	s.inKind(model.Overhead, "CUPTI buffer flush", "", func() { s.work(2400 * ms) })
	a, x := analyse(t, s.trace())
	if x.Span.End != end || len(a.Findings) == 0 || a.Findings[0].Rule != gpuprof.RuleNotSteady {
		t.Errorf("the recording ends at %d, want %d; the findings are %v", x.Span.End, end, a.Findings)
	}
}

// A benchmark of one kernel is start-up if its loop takes next to no time beside the start-up.
func TestShortLoopBesideStartUp(t *testing.T) {
	for name, c := range map[string]struct {
		kernel int64 // ns
		first  string
	}{"short": {10 * us, gpuprof.RuleNotSteady}, "long": {2 * ms, gpuprof.RuleOneKernel}} {
		s := newScene()
		s.native = true
		s.call("cudaMalloc", 1200*ms)
		for range 60 {
			s.kernel("matrixMulKernel(float *, float *, int)", c.kernel)
			s.wait("cudaDeviceSynchronize")
		}
		a, x := analyse(t, s.trace())
		if !x.Stepped() || len(a.Findings) == 0 || a.Findings[0].Rule != c.first {
			t.Errorf("%s: steps of %q, the findings are %v", name, x.StepSource, a.Findings)
		}
	}
}

// The copies before the first kernel of a program with models load the model, if they are large.
func TestModelIsLoadedBeforeTheFirstKernel(t *testing.T) {
	for name, c := range map[string]struct {
		early bool // a kernel runs before the copies
		bytes int64
		least int64 // start-up, ns
	}{"loads": {false, 32 << 20, 420 * ms}, "runs before": {true, 32 << 20, 0}, "a batch": {false, 1 << 20, 0}} {
		s := newScene()
		s.call("cudaMalloc", 20*ms)
		if c.early {
			s.kernel(addKernel, 10*us)
		}
		for range 4 {
			s.copy(7, model.H2D, model.Pageable, c.bytes, 100*ms, true)
		}
		s.products(20, 60*ms)
		a, x := analyse(t, s.end().trace())
		var ns int64
		for _, p := range x.Recording.Phases {
			ns += p.NS
		}
		if ns < c.least || c.least == 0 && ns > 200*ms {
			t.Errorf("%s: start-up is %d ns", name, ns)
		}
		if f := find(a, gpuprof.RulePageableH2D); f != nil && c.least > 0 {
			t.Errorf("%s: %s", name, f.Title)
		}
	}
}

// The only step loads the code of a kernel for most of its time: that is start-up, and no rule claims it.
func TestStepThatLoadsAKernel(t *testing.T) {
	for name, load := range map[string]int64{"loads": 6 * ms, "launches": 10 * us} {
		s := newScene()
		s.repeat(1, func() {
			for i := range 12 {
				if i == 8 {
					c := s.call("hipLaunchKernel", load)
					s.gpu(sceneEvent{kind: model.Kernel, name: "first_use", corr: c, stream: 7, blocks: 64}, 5*us)
				}
				s.op("aten::add", addKernel, 5*us)
				s.work(90 * us)
			}
		})
		a, x := analyse(t, s.end().trace())
		f := find(a, gpuprof.RuleNotSteady)
		if loads := load >= ms; loads != (f != nil) {
			t.Errorf("%s: the findings are %v", name, a.Findings)
		} else if loads && (a.Findings[0].Rule != f.Rule || !strings.Contains(f.Title, "6.00 ms of the")) {
			t.Errorf("%s: title %q", name, f.Title)
		}
		var claimed int64
		for _, f := range a.Findings {
			claimed += f.ClaimNS
		}
		if most := x.Steady.Total() - load; claimed > most {
			t.Errorf("%s: findings claim %d ns of %d", name, claimed, most)
		}
	}
}

// A recording of which a filter kept a few events claims no idle time, and tells that it is a sample. A stretch of a
// recording, whose operators follow one another, is none.
func TestSampledRecording(t *testing.T) {
	for name, c := range map[string]struct {
		keep    func(i, n int) bool // operator i of n
		sampled bool
	}{
		"one operator in fifteen": {func(i, _ int) bool { return i%15 == 0 }, true},
		"all":                     {func(int, int) bool { return true }, false},
		"the first and the last":  {func(i, n int) bool { return i < 150 || i >= n-150 }, false},
	} {
		s := newScene()
		s.repeat(4, func() {
			for range 1000 {
				s.op("aten::add", addKernel, 5*us)
				s.work(20 * us)
			}
		})
		n, ops := 0, 4000
		gone := map[int64]bool{}
		for i := range s.events {
			if e := &s.events[i]; e.kind == model.Op {
				e.corr = int64(1000 + n)
				if !c.keep(n, ops) {
					e.kind, gone[s.events[i+1].corr] = model.Overhead+100, true
				}
				n++
			}
		}
		s.events = slices.DeleteFunc(s.events, func(e sceneEvent) bool { return e.kind == model.Overhead+100 || e.kind != model.Op && gone[e.corr] })
		a, x := analyse(t, s.trace())
		f := find(a, gpuprof.RuleTraceQuality)
		if sampled := f != nil && strings.Contains(f.Title, "it is a sample"); sampled != c.sampled {
			t.Errorf("%s: the findings are %v", name, a.Findings)
		}
		if verdict := a.Answer().Verdict; c.sampled != (verdict == "fault of the recording") {
			t.Errorf("%s: verdict %q", name, verdict)
		}
		for i, f := range a.Findings {
			idle := model.Spans{x.Devices[0].Window}.Minus(x.Devices[0].Busy)
			if ns := idle.TotalAnd(a.ClaimedBy(i)); c.sampled && ns > 0 {
				t.Errorf("%s: %s claims %d ns in which the device does nothing", name, f.Rule, ns)
			}
		}
	}
}

// Frames that call compiled code in each step are no compilation, though they stand in files of the compiler.
func TestCallsOfCompiledCodeAreNoCompilation(t *testing.T) {
	for name, c := range map[string]struct {
		frame    string
		compiles bool
	}{
		"the wrapper of dynamo":      {"torch/_dynamo/eval_frame.py(791): compile_wrapper", false},
		"a graph of inductor":        {"torch/_inductor/codecache.py(1131): __call__", false},
		"an autotuned kernel":        {"triton/runtime/autotuner.py(156): run", false},
		"a kernel's launch":          {"triton/compiler/compiler.py(487): launch_metadata", false},
		"dynamo compiles":            {"torch/_dynamo/convert_frame.py(715): _compile", true},
		"inductor compiles":          {"torch/_inductor/compile_fx.py(1269): fx_codegen_and_compile", true},
		"triton compiles":            {"triton/compiler/compiler.py(226): compile", true},
		"an autotuner tries kernels": {"triton/runtime/autotuner.py(108): _bench", true},
	} {
		s := newScene()
		s.repeat(1, func() {
			s.inKind(model.Python, c.frame, "", func() { s.products(20, 200*us) })
		})
		_, x := analyse(t, s.end().trace())
		compiles := slices.ContainsFunc(x.Recording.Phases, func(p analyze.Phase) bool { return p.Name == analyze.PhaseCompile })
		if compiles != c.compiles {
			t.Errorf("%s: compiles is %v", name, compiles)
		}
	}
}
