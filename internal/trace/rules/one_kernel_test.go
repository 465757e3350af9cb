package rules_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// The kernel, its launches and resources; a command that profiles it; and the first place, before waits that no other
// rule explains.
func TestOneKernel(t *testing.T) {
	in := sceneOneKernel("void lab::solve<float>(float*)")().trace()
	for id, name := range in.Names {
		if strings.Contains(name, "solve") {
			in.Resources = map[model.NameID]model.KernelResources{model.NameID(id): {Registers: 255, LocalBytes: 512}}
		}
	}
	a, _ := analyse(t, in)
	f := mustFind(t, a, gpuprof.RuleOneKernel)
	evidence(t, f, map[string]any{"kernel": "lab::solve", "launches": 2, "kernel_ns": 800 * us, "registers_per_thread": int64(255), "local_bytes_per_thread": int64(512)})
	if want := "lab::solve takes 95 % of the work of the device: 400 us per step in 2 launches of 1080 blocks of 256 threads, with 512 B of local memory per thread"; f.Title != want {
		t.Errorf("%q, want %q", f.Title, want)
	}
	if want := "ncu --set full --kernel-name regex:solve --launch-skip 1 --launch-count 1 YOUR COMMAND"; f.Command != want {
		t.Errorf("%q, want %q", f.Command, want)
	}
	if got := a.Answer(); got.Verdict != "bound by one kernel" {
		t.Errorf("[%s] %s", got.Verdict, got.Sentence)
	}
	in.Devices[0].Name = "AMD Instinct MI300X"
	a, _ = analyse(t, in)
	if f := mustFind(t, a, gpuprof.RuleOneKernel); f.Command != "rocprof-compute profile --name NEW --kernel solve -- YOUR COMMAND" {
		t.Errorf("%q", f.Command)
	}
}

// The instances of a template are one function, with all its launches and the range of their grids.
func TestOneKernelOfInstances(t *testing.T) {
	s := newScene()
	s.native = true
	in := s.repeat(3, func() {
		s.kernelOn(7, "void lab::product<1>(float*)", 200*us, 4096)
		s.kernelOn(7, "void lab::product<2>(float*)", 150*us, 11008)
		s.kernelOn(7, "main_12_gpu", 300*us, 1080)
	}).end().trace()
	a, _ := analyse(t, in)
	if f, want := mustFind(t, a, gpuprof.RuleOneKernel), "lab::product takes 54 % of the work of the device: 350 us per step in 2 launches, with 4096 to 11008 blocks of 256 threads"; f.Title != want {
		t.Errorf("%q, want %q", f.Title, want)
	}
}

// Instances that run other code are other functions: closures and functors, as portability layers launch them.
func TestOneKernelOfOtherCode(t *testing.T) {
	for form, names := range map[string][2]string{
		"closures by nvcc":  {"void layer::run<step(grid &)::[lambda(int) (instance 1)]>(Range, T1)", "void layer::run<step(grid &)::[lambda(int) (instance 2)]>(Range, T1)"},
		"wrapped closures":  {"void run<__nv_dl_wrapper_t<__nv_dl_tag<void (*)(float*), &a, 1u>>>(T1)", "void run<__nv_dl_wrapper_t<__nv_dl_tag<void (*)(float*), &a, 2u>>>(T1)"},
		"closures by Clang": {"void run<a(int)::{lambda(int)#1}>(T1)", "void run<a(int)::{lambda(int)#2}>(T1)"},
		"functors":          {"void launch<Impl::ParallelFor<Flux, 256>>(Flux)", "void launch<Impl::ParallelFor<Advect, 256>>(Advect)"},
	} {
		s := newScene()
		s.native = true
		in := s.repeat(3, func() {
			for i, ns := range []int64{200 * us, 180 * us} {
				s.kernelOn(7, names[i], ns, 4096)
			}
			s.kernelOn(7, "third_17_gpu", 170*us, 1080)
		}).end().trace()
		if a, _ := analyse(t, in); find(a, gpuprof.RuleOneKernel) != nil {
			t.Errorf("%s: %s", form, find(a, gpuprof.RuleOneKernel).Title)
		}
	}
}

// Two kernels are named together. A kernel that waits for pages, and one of a few blocks, have rules of their own.
func TestOneKernelOfTwo(t *testing.T) {
	scene := func(blocks, moved int64) *model.Trace {
		s := newScene()
		s.native = true
		return s.repeat(3, func() {
			s.kernelOn(7, "first_12_gpu", 200*us, blocks)
			s.kernelOn(7, "second_15_gpu", 190*us, blocks)
			s.kernelOn(7, "third_17_gpu", 60*us, 1080)
			if moved > 0 {
				s.add(sceneEvent{kind: model.Memcpy, name: "Memcpy HtoD (unified memory)", start: s.free[7] - 100*us, end: s.free[7] - 100*us + moved, stream: -1, dir: model.H2D, memory: model.Migrated})
			}
			s.wait("cudaStreamSynchronize")
		}).end().trace()
	}
	a, _ := analyse(t, scene(1080, 0))
	if f := mustFind(t, a, gpuprof.RuleOneKernel); !strings.HasPrefix(f.Title, "first_12_gpu and second_15_gpu take 87 % of the work of the device") {
		t.Errorf("%q", f.Title)
	}
	for name, in := range map[string]*model.Trace{"pages": scene(1080, 50*us), "few blocks": scene(8, 0)} {
		a, _ := analyse(t, in)
		if f := find(a, gpuprof.RuleOneKernel); f != nil {
			t.Errorf("%s: %s", name, f.Title)
		}
	}
}

// A kernel that takes three times what the copies claim comes before them; a copy of half its time comes before it.
func TestOneKernelBesideCopies(t *testing.T) {
	for copied, first := range map[int64]string{300: gpuprof.RuleOneKernel, 800: gpuprof.RuleExposedCopy} {
		s := newScene()
		s.native = true
		s.kernelOn(7, "exchange(int *)", 1600*us, 10800)
		s.copy(7, model.D2H, model.Pinned, 64<<20, copied*us, true)
		a, _ := analyse(t, s.end().trace())
		if got := a.Findings[0].Rule; got != first {
			t.Errorf("%d us of copies: the first finding is %s, want %s", copied, got, first)
		}
		if f := mustFind(t, a, gpuprof.RuleExposedCopy); strings.Contains(f.PyTorch, "step") {
			t.Errorf("a program of one pass has no other step: %s", f.PyTorch)
		}
	}
}

// A program of one pass idles before and after its kernel, which is most of the work of the device: the claim is what
// the kernel leaves of the device. No graph serves launches that come once.
func TestOnePass(t *testing.T) {
	s := newScene()
	s.native = true
	s.work(4000 * us)
	s.kernelOn(7, "add(int, float *, float *)", 1080*us, 1)
	s.wait("cudaDeviceSynchronize")
	s.work(6000 * us)
	s.copy(7, model.D2H, model.Pinned, 1<<20, 100*us, true)
	a, _ := analyse(t, s.end().trace())
	f := mustFind(t, a, gpuprof.RuleSmallGrid)
	if f.ClaimNS != 1070*us {
		t.Errorf("claims %d: %s", f.ClaimNS, f.Title)
	}
	// One launch between long work of the host: every sentence names the kernel.
	s = newScene()
	s.native = true
	s.work(4000 * us)
	s.kernelOn(7, "render(float *)", 3000*us, 10800)
	s.wait("cudaDeviceSynchronize")
	s.work(6000 * us)
	a, _ = analyse(t, s.end().trace())
	if f := mustFind(t, a, gpuprof.RuleOneKernel); a.Findings[0].Rule != f.Rule || !strings.HasPrefix(a.Bound.Text, "The program is bound by the kernel render: ") {
		t.Errorf("%s: %s", f.Title, a.Bound.Text)
	}
	// Beside ten times as much work on the host the kernel bounds the device's work, and not the program.
	s = newScene()
	s.native = true
	s.kernelOn(7, "render(float *)", 3000*us, 10800)
	s.wait("cudaDeviceSynchronize")
	s.work(30000 * us)
	a, _ = analyse(t, s.end().trace())
	want := "The device's work is bound by the kernel render: such kernels take 100 % of it, and the device is busy for 9 % of the recording window. "
	if f := mustFind(t, a, gpuprof.RuleOneKernel); a.Findings[0].Rule != f.Rule || !strings.HasPrefix(a.Bound.Text, want) {
		t.Errorf("%s: %s", f.Title, a.Bound.Text)
	}
	s = newScene()
	s.native = true
	for range 40 {
		s.kernelOn(7, string(rune('a'+s.corr%23))+"(float *)", 2*us, 1080)
		s.work(20 * us)
	}
	a, _ = analyse(t, s.end().trace())
	for _, rule := range []string{gpuprof.RuleLaunchBound, gpuprof.RuleHostBound} {
		if f := find(a, rule); f != nil && strings.Contains(strings.ToLower(f.PyTorch), "graph") {
			t.Errorf("%s: %s", rule, f.PyTorch)
		}
	}
	mustFind(t, a, gpuprof.RuleLaunchBound)
}

// The host starts kernels slowly up to an interval of slowLaunch. Launches do not take as long as longer work between
// them.
func TestLongestIntervalOfLaunches(t *testing.T) {
	for _, c := range []struct {
		launches int
		work     int64 // ns
		bound    bool
	}{{40, 480 * us, true}, {40, 500 * us, false}, {40, 1900 * us, false}, {5, 80 * ms, false}} {
		s := newScene()
		s.native = true
		for range c.launches {
			s.kernelOn(7, "fill(float *)", 2*us, 1080)
			s.work(c.work)
		}
		a, _ := analyse(t, s.end().trace())
		if f := find(a, gpuprof.RuleLaunchBound); (f != nil) != c.bound {
			t.Errorf("%d ns of work between launches: %+v", c.work, f)
		}
		if !c.bound {
			mustFind(t, a, gpuprof.RuleHostBound)
		}
	}
}
