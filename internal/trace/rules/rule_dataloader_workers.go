package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// loaderFacts are the settings of the program's data loader, nil unknown.
func (c *ruleContext) loaderFacts() *model.HostLoader {
	if c.t.Sampled == nil {
		return nil
	}
	return c.t.Sampled.Facts.Loader
}

// workersNow is how many worker processes the loader has, 0 unknown or none.
func (c *ruleContext) workersNow() int64 {
	if l := c.loaderFacts(); l != nil {
		return int64(l.Workers)
	}
	return 0
}

// mostUseful is how many workers have a CPU each, 0 unknown. Without a device the loop computes on the CPUs
// too, and leaves one less to workers that do.
func (c *ruleContext) mostUseful() int64 {
	cpus := int64(c.cpus())
	if cpus > 1 && len(c.devices) == 0 && !c.fetchBlocks() {
		return cpus - 1
	}
	return cpus
}

// fetchBlocks says whether fetches in the host thread mostly wait, for storage say, and take few of a CPU.
func (c *ruleContext) fetchBlocks() bool {
	if c.t.Sampled == nil || c.workersNow() > 0 {
		return false
	}
	var sum model.HostClocks
	for _, f := range c.t.Sampled.Fetches {
		sum.Add(f)
	}
	return sum.WallS > 0 && sum.CPUS+max(sum.DelayS, 0) < sum.WallS/2
}

// gainOfWorkers is how much of a step's loading n workers hide: the step then takes the longer of the rest of
// the step and of making a batch. The workers that the program has make a batch in the present step, at the best.
func (c *ruleContext) gainOfWorkers(f fetching, n int64) int64 {
	rest := c.restOfStep(f)
	work := f.step
	if f.workers {
		now := c.workersNow()
		if now == 0 {
			return f.step // how many there are is unknown
		}
		work = now * (rest + f.step)
	}
	return min(max(rest+f.step-max(rest, work/max(n, 1)), 0), f.step)
}

// unrecorded is a time of the recorded steps as steps that are not recorded have it: no more.
func (c *ruleContext) unrecorded(ns int64) int64 {
	if c.host == nil || c.host.BareNS <= 0 || c.host.BareNS >= c.host.NS {
		return ns
	}
	return int64(float64(ns) * float64(c.host.BareNS) / float64(c.host.NS))
}

// workerStart is the finding for a loader whose workers are started again for every epoch, nil where they are
// not, or where that takes little. total is the waits for the loader.
func (c *ruleContext) workerStart(total model.Spans) *analyze.Found {
	l := c.loaderFacts()
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
		cl.spans = cl.spans.First(c.unrecorded(cl.spans.Total()))
		cl.ns = cl.spans.Total()
	} else {
		cl = c.claimHost(func(*ruleDevice) model.Spans { return waits.Or(c.hostOutside) })
	}
	f := c.finding(cl, fmt.Sprintf("the program starts its %s again for every epoch of %s, which takes %s each time, and waits for their first batches",
		analyze.Plural(l.Workers, "loader worker", "loader workers"), analyze.Plural(l.Batches, "batch", "batches"), gpuprof.FormatNS(start*int64(l.Batches))))
	f.Evidence["start_step_ns"] = start
	f.Evidence["loader_step_ns"] = waits.Total() / c.steps
	f.Evidence["workers"] = l.Workers
	f.Evidence["starts"] = l.Starts
	f.PyTorch = "DataLoader(..., persistent_workers=True)"
	if cpus := c.cpus(); cpus > 0 && l.Workers > cpus {
		f.PyTorch += fmt.Sprintf(", with no more workers than the program has CPUs (%d)", cpus)
	}
	f.Caveats = append(f.Caveats, "the first batch of an epoch is still waited for, unless the workers make it while the last epoch ends")
	return &f
}

// slowestCall is the line of the user's code that takes most of the samples within the loader, and its share of
// them; "" where no line takes half.
func (c *ruleContext) slowestCall() (line string, share float64) {
	if c.t.Sampled == nil {
		return "", 0
	}
	by, all, texts := map[string]float64{}, 0.0, map[string]string{}
	c.sampledIn(func(st *model.HostStack, frames []model.HostFrame) bool {
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
