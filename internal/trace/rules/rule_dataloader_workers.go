package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

func (c *ruleContext) getLoaderFacts() *model.HostLoader {
	if c.t.Sampled == nil {
		return nil
	}
	return c.t.Sampled.Facts.Loader
}

// getWorkers returns the number of worker processes of the loader, 0 none or unknown.
func (c *ruleContext) getWorkers() int64 {
	if l := c.getLoaderFacts(); l != nil {
		return int64(l.Workers)
	}
	return 0
}

// limitWorkers returns the largest number of workers for which each can have its own CPU, 0 unknown. Without a device,
// the training loop needs one CPU itself, unless its fetches mostly wait.
func (c *ruleContext) limitWorkers() int64 {
	cpus := int64(c.countCPUs())
	if cpus > 1 && len(c.devices) == 0 && !c.fetchBlocks() {
		return cpus - 1
	}
	return cpus
}

// fetchBlocks reports whether fetches in the host thread mostly wait, for example for storage, instead of computing.
func (c *ruleContext) fetchBlocks() bool {
	if c.t.Sampled == nil || c.getWorkers() > 0 {
		return false
	}
	var sum model.HostClocks
	for _, f := range c.t.Sampled.Fetches {
		sum.Add(f)
	}
	return sum.WallS > 0 && sum.CPUS+max(sum.DelayS, 0) < sum.WallS/2
}

// estimateWorkerGain returns the loading time per step that n workers hide, ns. With n workers a step takes the longer
// of its other work and the time in which the workers make a batch. If the loader has workers already, all of them
// together are assumed to make one batch per step.
func (c *ruleContext) estimateWorkerGain(f fetchTimes, n int64) int64 {
	rest := c.estimateRestOfStep(f)
	work := f.step
	if f.workers {
		now := c.getWorkers()
		if now == 0 {
			return f.step // the present number of workers is unknown
		}
		work = now * (rest + f.step)
	}
	return min(max(rest+f.step-max(rest, work/max(n, 1)), 0), f.step)
}

// scaleToUnrecorded scales a time per recorded step to a step without profiling, ns; it never increases the time.
func (c *ruleContext) scaleToUnrecorded(ns int64) int64 {
	if c.host == nil || c.host.BareNS <= 0 || c.host.BareNS >= c.host.NS {
		return ns
	}
	return int64(float64(ns) * float64(c.host.BareNS) / float64(c.host.NS))
}

// findWorkerStarts makes the finding about a loader whose workers start again for every epoch. It returns nil if there
// is none or the starts take little time. total is the time in which the program waits for the loader.
func (c *ruleContext) findWorkerStarts(total model.Spans) *analyze.Found {
	l := c.getLoaderFacts()
	if l == nil || l.Workers == 0 || l.Persistent || l.Starts < 2 || l.Batches == 0 || c.host == nil {
		return nil
	}
	start := int64(l.StartS * 1e9 / float64((l.Starts-1)*l.Batches))
	if start*c.steps*100 < c.span*loaderPercent {
		return nil
	}
	waits := total.And(c.x.Steady)
	var cl claim
	if len(c.devices) == 0 {
		cl = c.claimOutside(start * c.steps)
		cl.spans = cl.spans.Or(waits)
		cl.spans = cl.spans.First(c.scaleToUnrecorded(cl.spans.Total()))
		cl.ns = cl.spans.Total()
	} else {
		cl = c.claimHost(func(*ruleDevice) model.Spans { return waits.Or(c.hostOutside) })
	}
	f := c.newFinding(cl, fmt.Sprintf("the program starts its %s again for every epoch of %s, which takes %s each time, and waits for their first batches",
		analyze.Plural(l.Workers, "loader worker", "loader workers"), analyze.Plural(l.Batches, "batch", "batches"), gpuprof.FormatNS(start*int64(l.Batches))))
	f.Evidence["start_step_ns"] = start
	f.Evidence["loader_step_ns"] = waits.Total() / c.steps
	f.Evidence["workers"] = l.Workers
	f.Evidence["starts"] = l.Starts
	f.PyTorch = "DataLoader(..., persistent_workers=True)"
	if cpus := c.countCPUs(); cpus > 0 && l.Workers > cpus {
		f.PyTorch += fmt.Sprintf(", with no more workers than the program has CPUs (%d)", cpus)
	}
	f.Caveats = append(f.Caveats, "the first batch of an epoch is still waited for, unless the workers make it while the last epoch ends")
	return &f
}

// findSlowestCall returns the line of user code, called by the data loader, with at least half of the loader's sampled
// time, and its share of this time; "" if there is none.
func (c *ruleContext) findSlowestCall() (line string, share float64) {
	if c.t.Sampled == nil {
		return "", 0
	}
	by, all, texts := map[string]float64{}, 0.0, map[string]string{}
	c.sumSamples(func(st *model.HostStack, frames []model.HostFrame) bool {
		inside, where := false, ""
		for _, f := range frames {
			inside = inside || f.File == "torch/utils/data/dataloader.py"
			if inside && !f.Library {
				where = analyze.FrameName(f)
				if f.Text != "" {
					texts[where] = " `" + f.Text + "`"
				}
			}
		}
		if inside {
			all += st.S
			by[where] += st.S
		}
		return inside
	})
	for where, s := range by {
		if where != "" && 2*s >= all && s > by[line] {
			line = where
		}
	}
	if line == "" || all == 0 {
		return "", 0
	}
	return line + texts[line], by[line] / all
}
