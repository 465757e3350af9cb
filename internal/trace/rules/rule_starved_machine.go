package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

const (
	// starvedPercent is the least share of the step that waits for a CPU must take for a finding, %.
	starvedPercent = 10
	// ownPercent: other threads of the program may be the cause if their CPU time is at least this share of the wait, %.
	ownPercent = 50
)

// findStarvedMachine reports that the host thread was ready to run and waited for a CPU. Only waits after an
// involuntary context switch count, because a wait after a blocking call belongs to that call.
func (c *ruleContext) findStarvedMachine() []analyze.Found {
	a := c.host
	if a == nil || len(c.devices) > 0 || a.PreemptedNS*100 < starvedPercent*a.NS || a.CPUNS <= 0 {
		return nil
	}
	had := float64(a.CPUNS) / float64(a.CPUNS+a.PreemptedNS)
	what := fmt.Sprintf("the host thread had a CPU for %.0f %% of the time in which it could run", 100*had)
	change, limits := "run it on a machine, or in a container, with CPUs of its own", "OMP_NUM_THREADS"
	if c.x.Recording.Program == analyze.PyTorch {
		limits = "torch.set_num_threads, num_workers"
	}
	switch s := c.t.Sampled; {
	case s.ThrottledS*1e9 >= float64(a.PreemptedNS*int64(max(len(s.Recorded), 1)))/2:
		what += ": its control group was throttled"
		change = "raise the CPU limit of the container (cpu.max), or lower the number of threads"
	case a.OthersNS*100 >= ownPercent*a.PreemptedNS:
		what += ", and other threads of the program ran meanwhile"
		change = "fewer threads and workers: no more than the program has CPUs (" + limits + "); or a machine with more of them"
	default:
		what += ": other programs had the CPUs meanwhile"
	}
	cl := claim{device: -1}
	free := c.x.Called.Minus(c.claimedHost)
	cl.spans = free.First(min(a.PreemptedNS*c.steps, free.Total()))
	cl.ns = cl.spans.Total()
	f := c.newFinding(cl, what)
	f.Evidence["run_delay_ns"] = a.RunDelayNS * c.steps
	f.Evidence["preempted_ns"] = a.PreemptedNS * c.steps
	f.Evidence["cpu_ns"] = a.CPUNS * c.steps
	f.Evidence["other_threads_cpu_ns"] = a.OthersNS * c.steps
	if w := c.t.Sampled.WaitedS; w >= 0 {
		f.Evidence["machine_waited"] = gpuprof.FormatSeconds(w)
	}
	f.PyTorch, f.AnyProgram = change, true
	f.Caveats = append(f.Caveats, "the claim is the time in which the host thread waited for a CPU after it was taken from it")
	return []analyze.Found{f}
}
