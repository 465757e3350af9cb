package rules_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// A cause that comes in some steps only has its time in the mean sampled step, and claims nothing of the recorded ones:
// also where these have no time outside operators at all. Sampled steps of the usual length have no rare cause.
func TestRareCause(t *testing.T) {
	for _, c := range []struct {
		sampledS float64
		full     bool // operators fill the recorded steps
		want     string
	}{{0.01, false, "4.00 ms (40 %) of the mean of 100 steps after the recorded ones"}, {1, true, "400 ms (40 %) of the mean of 100 steps after the recorded ones"}, {0.0006, false, ""}} {
		s := sampledScene(clocksOfStep(0, 1), func(h *hostSampler, step int) {
			h.stack(60, model.InNative, "torch", step, h.frame("train.py", "step", 8, "net(x)"))
			h.stack(40, model.InPython, "other", step, h.frame("train.py", "step", 11, "save()"), h.frame("torch/serialization.py", "save", 9, ""))
			for range 100 {
				h.s.Sampled = append(h.s.Sampled, model.HostClocks{WallS: c.sampledS})
			}
		})()
		for i := range s.events {
			if e := &s.events[i]; c.full && e.kind == model.Op {
				e.end += 400 * us
			}
		}
		a, _ := analyse(t, s.trace())
		f := mustFind(t, a, "checkpoint-write")
		if rare := c.want != ""; rare != (f.RareNS > 0) || rare == (f.ClaimNS > 0) || !strings.Contains(f.Title, c.want) {
			t.Errorf("steps of %v s: claims %d ns, rare %d ns: %s", c.sampledS, f.ClaimNS, f.RareNS, f.Title)
		}
		if answer := a.Answer(); answer.Verdict != "slow: checkpoints" || f.Severity != gpuprof.High {
			t.Errorf("steps of %v s: %s, %s", c.sampledS, f.Severity, answer.Verdict)
		}
	}
}

// Samples show the wait for a CPU at the line that computes. The line claims its CPU time, the machine the wait.
func TestComputingLineClaimsNoWaitForACPU(t *testing.T) {
	rows := model.HostClocks{WallS: 502e-6, CPUS: 152e-6, DelayS: 350e-6, Preempted: 1}
	a, _ := analyse(t, sampledScene(rows, func(h *hostSampler, step int) {
		h.stack(20, model.InNative, "torch", step, h.frame("train.py", "step", 8, "net(x)"))
		h.stack(80, model.InPython, "other", step, h.frame("train.py", "step", 15, "hash(x)"))
	})().trace())
	line, machine := mustFind(t, a, "outside-operators"), mustFind(t, a, "starved-machine")
	if line.StepNS < 115*us || line.StepNS > 130*us || machine.StepNS < 345*us || machine.StepNS > 352*us {
		t.Errorf("the line claims %d ns of 122 us on the CPU, the machine %d of 350 us", line.StepNS, machine.StepNS)
	}
}

// A line that reads values of a tensor on the CPU one at a time has one finding, with the line's share of the samples, in
// the operator and outside. A few reads have no finding.
func TestManyReads(t *testing.T) {
	for _, c := range []struct {
		reads    int
		iterates bool
		want     string // the place
	}{{200, false, "train.py:9 in step `v.item()`"}, {200, true, "train.py:8 in total `for v in x:`"}, {20, false, ""}} {
		s := newScene()
		s.repeat(3, func() {
			s.in("aten::mm", func() { s.work(98 * us) })
			for range c.reads {
				s.in("aten::item", func() { s.in("aten::_local_scalar_dense", func() { s.work(us) }) })
			}
			s.work(400 * us)
		})
		h := &hostSampler{s: model.HostSamples{Recorded: []model.HostClocks{clocksOfStep(0, 1)}, WaitedS: -1, ThrottledS: -1}}
		loop := h.frame("train.py", "step", 9, "sum(v.item() for v in x)")
		read := h.frame("train.py", "step.<locals>.<genexpr>", 9, "v.item()")
		h.stack(20, model.InNative, "torch", h.frame("train.py", "step", 8, "net(x)"))
		next := h.frame("train.py", "total", 8, "for v in x:")
		if c.iterates {
			loop = h.frame("train.py", "total", 9, "sum += float(v)")
			h.stack(25, model.InNative, "torch", next, h.frame("torch/_tensor.py", "Tensor.__iter__", 1227, "self.unbind(0)"))
			h.stack(35, model.InPython, "other", loop)
		} else {
			h.stack(25, model.InNative, "torch", loop, read)
			h.stack(35, model.InPython, "other", loop, read)
		}
		h.stack(20, model.InNative, "torch", h.frame("train.py", "parse", 30, "float(s)"))
		s.host = &h.s
		a, _ := analyse(t, s.trace())
		f := find(a, "item")
		if f == nil != (c.want == "") {
			t.Errorf("%d reads: found %+v", c.reads, a.Findings)
		}
		if f == nil {
			continue
		}
		if want := a.Step.NS * 6 / 10; f.StepNS < want-3*us || f.StepNS > want+3*us {
			t.Errorf("claims %d ns, want %d", f.StepNS, want)
		}
		if !strings.Contains(f.Title, "reads 200 values per step one at a time, at "+c.want+", which") {
			t.Errorf("the title is %q", f.Title)
		}
		if find(a, "outside-operators") != nil {
			t.Error("the line has a second finding")
		}
	}
}
