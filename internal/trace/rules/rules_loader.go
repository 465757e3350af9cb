package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// handOver is what a batch costs that comes from a worker process, at the least:
// it is pickled, sent and unpickled, and the loop waits for a queue. A batch that
// is fetched in less comes no sooner from a worker.
const handOver = 1_000_000 // ns

// fetching is what the rule about data loaders measured.
type fetching struct {
	batch   int64 // median time of a fetch, ns
	step    int64 // time of fetches in the mean step, ns
	workers bool  // there are worker processes
}

// workersNeeded is how many worker processes make batches as fast as the rest of
// the step uses them, 0 where none helps.
func (c *ruleContext) workersNeeded(f fetching) int64 {
	if f.batch < handOver || c.cpus() == 1 {
		return 0
	}
	rest := max(c.restOfStep(f), 1)
	n := min((f.step+rest-1)/rest+1, mostWorkers) // one more than keeps up: fetches differ
	if cpus := int64(c.cpus()); cpus > 0 {
		n = min(n, cpus)
		n = min(n, c.mostUseful())
	}
	return n
}

// restOfStep is what the mean step takes at least without its fetches: what else
// the host does in it, or the device.
func (c *ruleContext) restOfStep(f fetching) int64 {
	rest := c.span/c.steps - f.step
	for _, d := range c.devices {
		rest = max(rest, d.Busy.TotalAnd(c.x.Steady)/c.steps)
	}
	return rest
}

// mostWorkers is how many worker processes are suggested at most: whether more
// help has to be seen with these.
const mostWorkers = 16

const lessLoading = "less work per sample: vectorise __getitem__ and collate_fn"

// loaderKnob is what to change about a data loader, by whether workers can win:
// never more of them than there are CPUs.
//
// The second result is the time that it saves of the mean step at the most, ns.
func (c *ruleContext) loaderKnob(f fetching) (string, int64) {
	cpus, pin := c.cpus(), ""
	if len(c.devices) > 0 {
		pin = ", pin_memory=True"
	}
	now, most := c.workersNow(), c.mostUseful()
	switch n := c.workersNeeded(f); {
	case f.workers && cpus == 1:
		return lessLoading + " (the program has one CPU: more workers than one do not help)", f.step
	case f.workers && now > 0 && most > 0 && now >= most:
		return fmt.Sprintf("%s: the loader has %s already, and the program has %d CPUs", lessLoading, analyze.Plural(int(now), "worker", "workers"), cpus), f.step
	case f.workers && now > 0 && most > 0:
		return fmt.Sprintf("DataLoader(..., num_workers=%d, persistent_workers=True, prefetch_factor=4), in place of %d; or %s", most, now, lessLoading), c.gainOfWorkers(f, most)
	case f.workers && cpus > 0:
		return fmt.Sprintf("more workers than now, up to the %d CPUs the program has: DataLoader(..., num_workers=..., persistent_workers=True, prefetch_factor=4); or %s", cpus, lessLoading), f.step
	case f.workers:
		return "more workers than now, up to the number of CPUs: DataLoader(..., num_workers=..., persistent_workers=True, prefetch_factor=4); or " + lessLoading, f.step
	case cpus == 1:
		return lessLoading + ", or prepare the data before the loop (the program has one CPU: a worker would take it from the loop)", f.step
	case n == 0:
		return fmt.Sprintf("keep num_workers=0: a batch is fetched in %s, and handing one over from a worker takes as long; index whole batches at once (a BatchSampler, tensor[indices]), or keep the data on the device", gpuprof.FormatNS(f.batch)), f.step
	case cpus > 0 && 2*c.gainOfWorkers(f, n) < f.step:
		return fmt.Sprintf("%s; DataLoader(..., num_workers=%d, persistent_workers=True%s, prefetch_factor=4) alone hides %s of it%s", lessLoading, n, pin,
			gpuprof.FormatNS(c.gainOfWorkers(f, n)), c.tooFew(f, n)), f.step
	case cpus > 0:
		return fmt.Sprintf("DataLoader(..., num_workers=%d, persistent_workers=True%s, prefetch_factor=4)%s", n, pin, c.tooFew(f, n)), c.gainOfWorkers(f, n)
	default:
		return fmt.Sprintf("DataLoader(..., num_workers=%d, persistent_workers=True%s, prefetch_factor=4), with no more workers than the program has CPUs", n, pin), c.gainOfWorkers(f, n)
	}
}

// tooFew says that so many workers do not keep up, or take the loop's CPUs.
func (c *ruleContext) tooFew(f fetching, n int64) string {
	if len(c.devices) == 0 {
		if s := c.t.Sampled; s != nil && s.Facts.Threads > 0 && int64(s.Facts.Threads) <= int64(c.cpus())-n {
			return "" // the loop leaves them CPUs already
		}
		if int64(c.cpus()) <= n {
			return ""
		}
		return fmt.Sprintf(" and torch.set_num_threads(%d), so that the workers have CPUs of their own", int64(c.cpus())-n)
	}
	if f.step/n > c.restOfStep(f) {
		return fmt.Sprintf(", and %s: %d CPUs make batches slower than the rest of the step uses them", lessLoading, c.cpus())
	}
	return ""
}

// usesWorkers says whether the name of a fetch is that of a loader with workers.
func usesWorkers(name string) bool { return strings.Contains(name, "MultiProcessing") }

// cpus is how many CPUs each recorded process of the program has for itself,
// 0 unknown.
func (c *ruleContext) cpus() int {
	p := &c.t.Program
	if p.CPUs <= 0 {
		return 0
	}
	return max(p.CPUs/max(p.Traces, 1), 1)
}
