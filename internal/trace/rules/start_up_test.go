package rules_test

import (
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

// A recording of one pass behind the first batch of a loader.
func sceneFirstBatch(loader string, fetches int) *scene {
	s := newScene()
	for range fetches {
		s.inKind(model.Annotation, "enumerate(DataLoader)#_"+loader+"DataLoaderIter.__next__", "", func() { s.work(900 * ms) })
	}
	s.products(20, 500*us)
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

func TestStartUpWithoutSteps(t *testing.T) {
	for name, c := range map[string]struct {
		scene *scene
		ns    int64 // of start-up, at least; 0: none
		says  string
	}{
		"calls after the first launch":  {sceneColdPass(3000*ms, 900*ms), 3900 * ms, "loading modules"},
		"calls that repeat":             {sceneColdPass(300*ms, 300*ms, 300*ms), 0, ""},
		"first launches that load code": {sceneLoads(func(i int) string { return "kernel" + string(rune('a'+i)) }, 200*us), 180 * ms, "loading modules"},
		"long launches of one kernel":   {sceneLoads(func(int) string { return addKernel }, 200*us), 0, ""},
		"long launches beside work":     {sceneLoads(func(i int) string { return "kernel" + string(rune('a'+i)) }, 60*ms), 0, ""},
		"calls of ordinary length":      {sceneColdPass(20*ms, 20*ms), 0, ""},
		"the first batch of workers":    {sceneFirstBatch("MultiProcessing", 1), 900 * ms, "first batch of a data loader"},
		"several batches":               {sceneFirstBatch("MultiProcessing", 3), 0, ""},
		"a loader without workers":      {sceneFirstBatch("SingleProcess", 1), 0, ""},
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
