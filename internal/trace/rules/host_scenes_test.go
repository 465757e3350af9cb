package rules_test

import (
	"strings"
	"testing"

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
func (h *hostSampler) stack(n int, doing model.Doing, callee string, frames ...int) {
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
func sceneOutside(n int, doing model.Doing, callee string, below ...string) func() *scene {
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
