package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// handOverNS is the least time to hand over a batch from a worker process: pickle, send and unpickle it while the loop
// waits. If making a batch takes less, workers save nothing.
const handOverNS = 1_000_000 // ns

// fetchTimes holds the times that the training thread takes to fetch batches.
type fetchTimes struct {
	batch   int64 // median time of a fetch, ns
	step    int64 // time of fetches in the mean step, ns
	workers bool  // the loader has worker processes
}

// estimateWorkers returns a number of workers that make batches about as fast as the program uses them, 0 if workers do
// not help. It is one more than the estimate, but at most mostWorkers and the number of CPUs.
func (c *ruleContext) estimateWorkers(f fetchTimes) int64 {
	if f.batch < handOverNS || c.countCPUs() == 1 {
		return 0
	}
	rest := max(c.estimateRestOfStep(f), 1)
	n := min((f.step+rest-1)/rest+1, mostWorkers) // one more than needed, because fetch times vary
	if cpus := int64(c.countCPUs()); cpus > 0 {
		n = min(n, cpus)
		n = min(n, c.limitWorkers())
	}
	return n
}

// estimateRestOfStep returns the least time that the mean step takes without fetches, ns: the time outside fetches, or
// the busy time of a device if that is longer.
func (c *ruleContext) estimateRestOfStep(f fetchTimes) int64 {
	rest := c.span/c.steps - f.step
	for _, d := range c.devices {
		rest = max(rest, d.Busy.TotalAnd(c.x.Steady)/c.steps)
	}
	return rest
}

// mostWorkers limits the number of workers that the advice names. Whether more workers help must be measured.
const mostWorkers = 16

const lessLoading = "less work per sample: vectorise __getitem__ and collate_fn"

// adviseLoader returns the advised change to the data loader and the most that it can save per step, ns. It never
// advises more workers than CPUs.
func (c *ruleContext) adviseLoader(f fetchTimes) (string, int64) {
	cpus, pin := c.countCPUs(), ""
	if len(c.devices) > 0 {
		pin = ", pin_memory=True"
	}
	now, most := c.getWorkers(), c.limitWorkers()
	switch n := c.estimateWorkers(f); {
	case f.workers && cpus == 1:
		return lessLoading + " (the program has one CPU: more workers than one do not help)", f.step
	case f.workers && now > 0 && most > 0 && now >= most:
		return fmt.Sprintf("%s: the loader has %s already, and the program has %d CPUs", lessLoading, analyze.Plural(int(now), "worker", "workers"), cpus), f.step
	case f.workers && now > 0 && most > 0:
		return fmt.Sprintf("DataLoader(..., num_workers=%d, persistent_workers=True, prefetch_factor=4), in place of %d; or %s", most, now, lessLoading), c.estimateWorkerGain(f, most)
	case f.workers && cpus > 0:
		return fmt.Sprintf("more workers than now, up to the %d CPUs the program has: DataLoader(..., num_workers=..., persistent_workers=True, prefetch_factor=4); or %s", cpus, lessLoading), f.step
	case f.workers:
		return "more workers than now, up to the number of CPUs: DataLoader(..., num_workers=..., persistent_workers=True, prefetch_factor=4); or " + lessLoading, f.step
	case cpus == 1:
		return lessLoading + ", or prepare the data before the loop (the program has one CPU: a worker would take it from the loop)", f.step
	case n == 0:
		return fmt.Sprintf("keep num_workers=0: a batch is fetched in %s, and handing one over from a worker takes as long; index whole batches at once (a BatchSampler, tensor[indices]), or keep the data on the device", gpuprof.FormatNS(f.batch)), f.step
	case cpus > 0 && 2*c.estimateWorkerGain(f, n) < f.step:
		return fmt.Sprintf("%s; DataLoader(..., num_workers=%d, persistent_workers=True%s, prefetch_factor=4) alone hides %s of it%s", lessLoading, n, pin,
			gpuprof.FormatNS(c.estimateWorkerGain(f, n)), c.describeShortage(f, n)), f.step
	case cpus > 0:
		return fmt.Sprintf("DataLoader(..., num_workers=%d, persistent_workers=True%s, prefetch_factor=4)%s", n, pin, c.describeShortage(f, n)), c.estimateWorkerGain(f, n)
	default:
		return fmt.Sprintf("DataLoader(..., num_workers=%d, persistent_workers=True%s, prefetch_factor=4), with no more workers than the program has CPUs", n, pin), c.estimateWorkerGain(f, n)
	}
}

// describeShortage returns an addition to the advice if n workers cannot keep up or take the CPUs of the loop, else
// "".
func (c *ruleContext) describeShortage(f fetchTimes, n int64) string {
	if len(c.devices) == 0 {
		if s := c.t.Sampled; s != nil && s.Facts.Threads > 0 && int64(s.Facts.Threads) <= int64(c.countCPUs())-n {
			return "" // PyTorch's threads already leave CPUs for the workers
		}
		if int64(c.countCPUs()) <= n {
			return ""
		}
		return fmt.Sprintf(" and torch.set_num_threads(%d), so that the workers have CPUs of their own", int64(c.countCPUs())-n)
	}
	if f.step/n > c.estimateRestOfStep(f) {
		return fmt.Sprintf(", and %s: %d CPUs make batches slower than the rest of the step uses them", lessLoading, c.countCPUs())
	}
	return ""
}

func usesWorkers(name string) bool { return strings.Contains(name, "MultiProcessing") }

// countCPUs returns the number of CPUs per recorded process of the program, 0 unknown.
func (c *ruleContext) countCPUs() int {
	p := &c.t.Program
	if p.CPUs <= 0 {
		return 0
	}
	return max(p.CPUs/max(p.Traces, 1), 1)
}
