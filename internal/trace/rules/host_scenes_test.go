package rules_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// hostSampler builds samples of the host for a scene.
type hostSampler struct{ s model.HostSamples }

// frame adds a frame of the user's code, or of a library where the file has a folder.
func (h *hostSampler) frame(file, function string, line int, text string) int {
	h.s.Frames = append(h.s.Frames, model.HostFrame{File: file, Function: function, Line: line, Text: text, Library: strings.Contains(file, "/")})
	return len(h.s.Frames) - 1
}

// stack adds n samples of a stack, of 10 ms each.
func (h *hostSampler) stack(n int, doing model.ThreadState, callee string, frames ...int) {
	h.s.Stacks = append(h.s.Stacks, model.HostStack{Doing: doing, Callee: callee, S: 0.01 * float64(n), Count: n, Frames: frames})
	h.s.Samples += n
}

// sampledScene is a program without a device: 100 us of operators in steps of 502 us, and samples of its host.
func sampledScene(rows model.HostClocks, fill func(h *hostSampler, step int)) func() *scene {
	return func() *scene {
		s := newScene()
		s.repeat(3, func() {
			s.in("aten::mm", func() { s.work(98 * us) })
			s.work(400 * us)
		})
		h := &hostSampler{s: model.HostSamples{Recorded: []model.HostClocks{rows, rows, rows}, WaitedS: -1, ThrottledS: -1}}
		step := h.frame("train.py", "<module>", 20, "step(x)")
		border := h.frame("train.py", "step", 10, "opt.step()")
		h.s.Borders = []int{step, border}
		fill(h, step)
		s.host = &h.s
		return s
	}
}

// sceneOutside has so many of 100 samples at one place of the user's, and the others in operators.
func sceneOutside(n int, doing model.ThreadState, callee string, below ...string) func() *scene {
	return sampledScene(clocksOfStep(0, 1), func(h *hostSampler, step int) {
		netLine := h.frame("train.py", "step", 8, "net(x)")
		h.stack(100-n, model.InNative, "torch", step, netLine)
		frames := []int{step, h.frame("train.py", "step", 11, "extra(x)")}
		for i, file := range below {
			frames = append(frames, h.frame(file, "save", 100+i, ""))
		}
		h.stack(n, doing, callee, frames...)
	})
}

// clocksOfStep is a step of 502 us, 300 of them on a CPU and 150 in which it waited for one.
func clocksOfStep(preempted, blocks float64) model.HostClocks {
	return model.HostClocks{WallS: 502e-6, CPUS: 300e-6, DelayS: 150e-6, Preempted: preempted, Blocks: blocks}
}

// A place that both computes and calls the model is not one cause as a whole: the lines below it are.
func TestCauseIsTheOutermostLineOutsideOperators(t *testing.T) {
	for _, c := range []struct {
		name string
		fill func(h *hostSampler, step int)
		want string
	}{
		{"a function that only computes is named by its call", func(h *hostSampler, step int) {
			call := h.frame("train.py", "step", 7, "features(x)")
			a, b := h.frame("train.py", "features", 3, "hash(x)"), h.frame("train.py", "features", 4, "upper(x)")
			h.stack(40, model.InPython, "other", step, call, a)
			h.stack(30, model.InPython, "other", step, call, b)
		}, "train.py:7 in step"},
		{"a function with the model inside is named by the line within", func(h *hostSampler, step int) {
			call, net := h.frame("train.py", "step", 7, "evaluate()"), h.frame("train.py", "evaluate", 30, "net(x)")
			h.stack(40, model.InNative, "torch", step, call, net)
			h.stack(50, model.Blocked, "other", step, call, h.frame("train.py", "evaluate", 33, "time.sleep(1)"))
		}, "train.py:33 in evaluate"},
		{"the line of the loop is around the step", func(h *hostSampler, step int) {
			h.stack(90, model.Blocked, "other", step, h.frame("train.py", "step", 15, "time.sleep(1)"))
		}, "train.py:15 in step"},
		{"frames of a library are folded into the user's line", func(h *hostSampler, step int) {
			h.stack(90, model.InPython, "other", step, h.frame("train.py", "step", 15, "json.loads(s)"), h.frame("json/decoder.py", "raw_decode", 353, "self.scan_once(s, idx)"))
		}, "train.py:15 in step"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := analyse(t, sampledScene(clocksOfStep(0, 1), func(h *hostSampler, step int) {
				h.stack(20, model.InNative, "torch", step, h.frame("train.py", "step", 8, "net(x)"))
				c.fill(h, step)
			})().trace())
			f := mustFind(t, a, "outside-operators")
			if len(f.Sites) != 1 || !strings.HasPrefix(f.Sites[0].Where, c.want) {
				t.Errorf("names %+v, want %s", f.Sites, c.want)
			}
		})
	}
}

// A line that computes and then waits has two findings: one claims the computation, one the wait. The wait is no longer
// than the clocks of the recorded steps show.
func TestLineThatComputesAndWaits(t *testing.T) {
	clocks := model.HostClocks{WallS: 502e-6, CPUS: 300e-6, Blocks: 1}
	a, _ := analyse(t, sampledScene(clocks, func(h *hostSampler, step int) {
		line := h.frame("train.py", "step", 15, "work_and_wait()")
		h.stack(20, model.InNative, "torch", step, h.frame("train.py", "step", 8, "net(x)"))
		h.stack(25, model.InPython, "other", step, line)
		h.stack(55, model.Blocked, "other", step, line)
	})().trace())
	claims := map[bool]int64{} // by "is blocked"
	for i := range a.Findings {
		if f := &a.Findings[i]; f.Rule == "outside-operators" {
			claims[strings.Contains(f.Title, "is blocked")] += f.StepNS
		}
	}
	blocked := a.Host.Part(analyze.HostBlocked)
	computes := 402*us*25/80 - 1 // of the time outside operators, by the samples there; 1 ns for rounding down
	if len(claims) != 2 || claims[true] != blocked || claims[false] != computes {
		t.Errorf("claims %v, blocked by the clocks %d ns, want %d of computation", claims, blocked, computes)
	}
}

// Sizes come from the steps without samples: a line that takes all time outside operators claims that time, even if the
// sampler saw it less often.
func TestClaimFollowsTheTrace(t *testing.T) {
	for _, c := range []struct {
		samples int // of 100, at the one line outside operators
		want    int64
	}{{80, 402 * us}, {50, 402 * us}, {20, 2 * 20 * 502 * us / 100}} { // the last: at most twice the share of the samples
		a, _ := analyse(t, sampledScene(model.HostClocks{WallS: 502e-6, CPUS: 502e-6}, func(h *hostSampler, step int) {
			h.stack(100-c.samples, model.InNative, "torch", step, h.frame("train.py", "step", 8, "net(x)"))
			h.stack(c.samples, model.InPython, "other", step, h.frame("train.py", "step", 11, "extra(x)"))
		})().trace())
		if f := mustFind(t, a, "outside-operators"); f.StepNS < c.want-3*us || f.StepNS > c.want+3*us {
			t.Errorf("%d samples: claims %d ns, want %d", c.samples, f.StepNS, c.want)
		}
	}
}

// The delay after a wait is a part of the wait, by the numbers of context switches.
func TestWokenDelayBelongsToTheWait(t *testing.T) {
	for _, c := range []struct {
		preempted, blocks float64
		want              int64
	}{{0, 1, 300 * us}, {1, 0, 200 * us}} {
		rows := model.HostClocks{WallS: 502e-6, CPUS: 202e-6, DelayS: 100e-6, Preempted: c.preempted, Blocks: c.blocks}
		a, _ := analyse(t, sampledScene(rows, func(h *hostSampler, step int) {
			h.stack(20, model.InNative, "torch", step, h.frame("train.py", "step", 8, "net(x)"))
			h.stack(80, model.Blocked, "other", step, h.frame("train.py", "step", 15, "run()"))
		})().trace())
		if f := mustFind(t, a, "outside-operators"); f.StepNS < c.want-3*us || f.StepNS > c.want+3*us {
			t.Errorf("%v preemptions: claims %d ns, want %d", c.preempted, f.StepNS, c.want)
		}
	}
}

// A step that is much shorter while threads take turns more often waits for the interpreter's lock.
func TestContendedInterpreter(t *testing.T) {
	rows := model.HostClocks{WallS: 502e-6, CPUS: 50e-6, OthersS: 450e-6, Blocks: 1}
	for short, want := range map[bool]bool{true: true, false: false} {
		a, _ := analyse(t, sampledScene(rows, func(h *hostSampler, step int) {
			h.stack(80, model.InNative, "torch", step, h.frame("train.py", "step", 8, "net(x)"))
			sampled := model.HostClocks{WallS: 490e-6}
			if short {
				sampled.WallS = 52e-6
			}
			h.s.Sampled = []model.HostClocks{sampled, sampled}
		})().trace())
		f := find(a, "outside-operators")
		if got := f != nil && strings.Contains(f.Title, "global interpreter lock"); got != want {
			t.Errorf("short sampled steps %v: found %+v", short, f)
		}
		if f != nil && want && (f.StepNS < 440*us || f.StepNS > 460*us) {
			t.Errorf("claims %d ns of 450 us", f.StepNS)
		}
	}
}

// sampledAlone is the trace of a program without torch: a window, and samples of its main thread.
func sampledAlone(fill func(h *hostSampler, main int)) *model.Trace {
	row := model.HostClocks{WallS: 1, CPUS: 0.4, Blocks: 10}
	h := &hostSampler{s: model.HostSamples{Recorded: []model.HostClocks{row}, WaitedS: -1, ThrottledS: -1}}
	t := hostAlone(model.Kineto, 1, func(s *scene) { s.rangeOf(model.SampledWindow, 1000*ms) })
	fill(h, h.frame("app.py", "<module>", 9, "main()"))
	t.Sampled = &h.s
	return t
}

// Without operators and steps a line below the program's own is named, waits for the program's own threads and
// processes are no finding, and nothing is said of operators, steps or torch.
func TestProgramWithoutTorch(t *testing.T) {
	a, x := analyse(t, sampledAlone(func(h *hostSampler, main int) {
		h.stack(40, model.InPython, "other", main, h.frame("app.py", "main", 5, "parse(text)"))
		h.stack(20, model.Blocked, "other", main, h.frame("app.py", "main", 6, "run(cmd)"), h.frame("multiprocessing/pool.py", "wait", 500, ""))
		h.stack(10, model.Blocked, "other", main, h.frame("app.py", "main", 7, "w.block_until_ready()"))
		h.stack(10, model.InNative, "other", main, h.frame("app.py", "main", 7, "w.block_until_ready()"))
		h.stack(20, model.Blocked, "other", main, h.frame("app.py", "main", 8, "float(loss)"), h.frame("jax/_src/array.py", "ArrayImpl.__float__", 300, ""))
	}))
	if x.Recording.Program != analyze.Python || len(a.Warnings) > 0 {
		t.Errorf("the program is %s, the warnings %+v", x.Recording.Program, a.Warnings)
	}
	if len(a.Findings) != 1 {
		t.Fatalf("the findings are %+v", a.Findings)
	}
	f := &a.Findings[0]
	if !strings.HasPrefix(f.Title, "the program computes at app.py:5 in main `parse(text)`, which costs") || f.ClaimNS < 390*ms || f.ClaimNS > 410*ms {
		t.Errorf("claims %d ns: %s", f.ClaimNS, f.Title)
	}
	if text := f.PyTorch + strings.Join(f.Caveats, " "); strings.Contains(text, "torch") || strings.Contains(text, "step") {
		t.Errorf("the change is %q, the caveats %q", f.PyTorch, f.Caveats)
	}
}

// Lines of a loop that call functions of the user's are separate places, and the line named within a place is in the calls
// of that place. Neighbouring lines without such calls are one place.
func TestNeighbouringLines(t *testing.T) {
	a, _ := analyse(t, sampledAlone(func(h *hostSampler, main int) {
		h.s.Recorded[0].CPUS = 1
		diffuse, product, norm := h.frame("app.py", "main", 5, "diffuse(u)"), h.frame("app.py", "main", 6, "w @ w"), h.frame("app.py", "main", 7, "np.abs(w)")
		h.stack(15, model.InPython, "other", main, diffuse, h.frame("app.py", "diffuse", 20, "np.roll(u, 1)"))
		h.stack(8, model.InNative, "other", main, product)
		h.stack(7, model.InNative, "other", main, norm)
		h.stack(70, model.InPython, "other", main, h.frame("app.py", "main", 8, "histogram(u)"), h.frame("app.py", "histogram", 30, "int(v)"))
	}))
	var got []string
	for _, f := range a.Findings {
		got = append(got, f.Title)
	}
	want := []string{"at app.py:8 in main `histogram(u)`, most of it in app.py:30 in histogram `int(v)`, which", "at app.py:5 in main `diffuse(u)`, most of it in app.py:20 in diffuse `np.roll(u, 1)`, which", "at app.py:6 in main `w @ w`, which"}
	for i, w := range want {
		if i >= len(got) || !strings.Contains(got[i], w) {
			t.Errorf("finding %d of %q, want %q", i, got, w)
		}
	}
	if answer := a.Answer(); answer.Verdict != "slow: one place of the program" || strings.Contains(answer.Sentence, "operator") {
		t.Errorf("%s: %s", answer.Verdict, answer.Sentence)
	}
}

// A wait for a compiler is a compilation, whether its own threads do the work or not.
func TestCompilationIsNamed(t *testing.T) {
	a, _ := analyse(t, sampledAlone(func(h *hostSampler, main int) {
		step := h.frame("app.py", "main", 5, "step(w, x)")
		h.stack(40, model.Blocked, "other", main, step, h.frame("jax/_src/compiler.py", "backend_compile_and_load", 353, ""))
		h.stack(30, model.InPython, "other", main, step, h.frame("jax/_src/interpreters/partial_eval.py", "trace_to_jaxpr_dynamic", 2000, ""))
		h.stack(30, model.InNative, "other", main, step, h.frame("jax/_src/pjit.py", "cache_miss", 100, ""))
	}))
	if f := &a.Findings[0]; !strings.HasPrefix(f.Title, "the program compiles at app.py:5 in main `step(w, x)`") || f.Evidence["samples"] != 70 || !strings.Contains(f.PyTorch, "jax.jit") {
		t.Errorf("%s (%v samples): %s", f.Title, f.Evidence["samples"], f.PyTorch)
	}
}

// C code whose owner is not known counts as outside where the trace has no operators for its time.
func TestDoubtfulCallsFollowTheTrace(t *testing.T) {
	own := func(n int) func() *scene {
		return sampledScene(clocksOfStep(0, 1), func(h *hostSampler, step int) {
			h.stack(100-n, model.InNative, "torch", step, h.frame("train.py", "step", 8, "net(x)"))
			h.stack(n, model.InNative, "", step, h.frame("train.py", "step", 12, "codec.compress(b)"))
		})
	}
	a, _ := analyse(t, own(75)().trace()) // 80 % of the step are outside operators
	mustFind(t, a, "outside-operators")
	s := own(75)()
	for i := range s.events { // the same with operators in nearly all of the step
		if s.events[i].kind == model.Op {
			s.events[i].end += 395 * us
		}
	}
	if a, _ := analyse(t, s.trace()); find(a, "outside-operators") != nil {
		t.Error("a call that the trace has as an operator is called outside")
	}
}

// The parts add up to the step, and no part is below zero, whatever the clocks tell.
func TestHostAccountAddsUp(t *testing.T) {
	for _, rows := range []model.HostClocks{clocksOfStep(0, 1), {WallS: 502e-6, CPUS: 600e-6, DelayS: 900e-6}, {WallS: 502e-6, DelayS: -1}, {WallS: 0.4, CPUS: 0.1, DelayS: 0.1, OthersS: 3}} {
		a, _ := analyse(t, sampledScene(rows, func(h *hostSampler, step int) {
			h.stack(10, model.Blocked, "other", step)
			h.stack(10, model.ForLock, "", step)
		})().trace())
		var sum int64
		for _, p := range a.Host.Parts {
			if sum += p.NS; p.NS < 0 {
				t.Errorf("%+v: %s takes %d ns", rows, p.Name, p.NS)
			}
		}
		if sum != a.Host.NS || sum != a.Step.NS {
			t.Errorf("%+v: the parts %+v take %d ns, the step %d", rows, a.Host.Parts, sum, a.Step.NS)
		}
	}
}

// A rank that waits for another rank is blocked in PyTorch's code, outside any event of the trace. Its time on a CPU is at
// most the CPU clock of its thread.
func TestBlockedInTorchIsNotOnTheCPU(t *testing.T) {
	a, _ := analyse(t, sampledScene(model.HostClocks{WallS: 502e-6, CPUS: 120e-6, Blocks: 2}, func(h *hostSampler, step int) {
		h.stack(80, model.Blocked, "torch", step, h.frame("train.py", "step", 8, "loss.backward()"))
		h.stack(20, model.InNative, "torch", step, h.frame("train.py", "step", 8, "net(x)"))
	})().trace())
	if on, blocked := a.Host.Part(analyze.HostOnCPU), a.Host.Part(analyze.HostBlocked); on > 120*us || blocked < 280*us {
		t.Errorf("%d ns on a CPU with 120 us by the clock, %d blocked", on, blocked)
	}
}

// loaderScene fetches for 4 ms in steps with 2 ms of operators, on four CPUs.
func loaderScene(name string, facts *model.HostLoader) *scene {
	s := newScene()
	s.repeat(4, func() {
		s.inKind(model.Annotation, name, "", func() { s.work(4000 * us) })
		s.in("aten::mm", func() { s.work(2000 * us) })
	})
	row := model.HostClocks{WallS: 6e-3, CPUS: 6e-3}
	s.host = &model.HostSamples{Recorded: []model.HostClocks{row, row, row, row}, WaitedS: -1, ThrottledS: -1, Facts: model.HostFacts{Loader: facts, Threads: 1}}
	return s
}

// What a loader's finding claims is what its change saves: the step then takes the longer of the rest and of a
// batch over the workers. No change names more workers than there are CPUs.
func TestLoaderClaimsWhatTheChangeSaves(t *testing.T) {
	const single, many = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
	for _, c := range []struct {
		name   string
		event  string
		cpus   int
		facts  *model.HostLoader
		claim  int64 // us per step, to 10
		change string
	}{
		{"two CPUs leave one worker: 4 ms of loading beside 2 ms of the rest", single, 2, &model.HostLoader{}, 2000, "num_workers=1"},
		{"with four CPUs three workers hide it", single, 4, &model.HostLoader{}, 4000, "num_workers=3"},
		{"all CPUs have workers already", many, 2, &model.HostLoader{Workers: 2, Persistent: true}, 4000, "the loader has 2 workers already, and the program has 2 CPUs"},
		{"two workers more: a batch of 6 ms over three", many, 4, &model.HostLoader{Workers: 1, Persistent: true}, 4000, "num_workers=3, persistent_workers=True, prefetch_factor=4), in place of 1"},
		{"workers that start for every epoch", many, 4, &model.HostLoader{Workers: 2, Batches: 2, Starts: 5, StartS: 4 * 1e-3}, 4003, "DataLoader(..., persistent_workers=True)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := loaderScene(c.event, c.facts).trace()
			in.Program.CPUs, in.Program.Traces = c.cpus, 1
			a, _ := analyse(t, in)
			f := mustFind(t, a, "dataloader-stall")
			if got := f.StepNS / us; got/10 != c.claim/10 {
				t.Errorf("claims %d us per step, want %d", got, c.claim)
			}
			if !strings.HasPrefix(f.PyTorch, c.change) && !strings.Contains(f.PyTorch, c.change) {
				t.Errorf("the change is %q, want %q", f.PyTorch, c.change)
			}
		})
	}
}

// The gaps of a device that waits for code without an event are named by the samples.
func TestHostBoundIsNamedBySamples(t *testing.T) {
	s := sceneHostWork(1000 * us)()
	h := &hostSampler{s: model.HostSamples{WaitedS: -1, ThrottledS: -1}}
	h.stack(50, model.Blocked, "other", h.frame("train.py", "step", 11, "time.sleep(0.001)"))
	s.host = &h.s
	a, _ := analyse(t, s.trace())
	if f := mustFind(t, a, "host-bound"); !strings.Contains(f.Title, "train.py:11 in step `time.sleep(0.001)`") {
		t.Errorf("the title is %q", f.Title)
	}
	if f := find(a, "outside-operators"); f != nil {
		t.Errorf("the same time is claimed again: %s", f.Title)
	}
}

// sceneFacts is a program of which the hook read some settings.
func sceneFacts(f model.HostFacts) func() *scene {
	return sampledScene(clocksOfStep(0, 1), func(h *hostSampler, _ int) { h.s.Facts = f })
}

// sceneOptimizer has an optimizer that takes 50 us of each step.
func sceneOptimizer(foreach bool) func() *scene {
	return func() *scene {
		s := sceneFacts(model.HostFacts{Optimizer: &model.HostOptimizer{Class: "Adam", Parameters: 120, Foreach: &foreach}})()
		host := s.host
		s = newScene()
		s.repeat(3, func() { s.in("aten::mm", func() { s.work(50 * us) }) })
		for i := range s.events {
			if s.events[i].kind == model.Op {
				s.events[i].kind, s.events[i].name = model.Annotation, "Optimizer.step#Adam.step"
			}
		}
		s.host = host
		return s
	}
}

// sceneRecompute computes activations again for 60 of 100 samples, beside so many bytes of free memory.
func sceneRecompute(available int64) func() *scene {
	return sampledScene(clocksOfStep(0, 1), func(h *hostSampler, step int) {
		h.s.Facts.Memory = model.HostMemoryUse{Resident: 1 << 24, Available: available}
		backward := h.frame("torch/autograd/graph.py", "_engine_run_backward", 841, "")
		h.stack(40, model.InNative, "torch", step, backward)
		h.stack(60, model.InNative, "torch", step, backward, h.frame("torch/utils/checkpoint.py", "unpack_hook", 1119, ""), h.frame("torch/nn/modules/linear.py", "Linear.forward", 134, ""))
	})
}
