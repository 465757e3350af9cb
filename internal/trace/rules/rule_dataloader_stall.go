package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// loaderPercent is the share of the steps the loader must take.
const loaderPercent = 5

// dataloaderStall: the training thread fetches a batch itself, or waits for a
// worker to. It claims the part of that time in which the device was starved;
// in a trace without a device, the time itself.
func (c *ruleContext) dataloaderStall() []analyze.Found {
	byLane := map[uint32][]model.Span{}
	var total model.Spans
	var fetches []int64
	workers := false
	s := c.newSites("fetch")
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if h.Kind == model.API || !c.is(h.Name, markLoader) || !c.x.InSteady(h.Start) || c.nestedLoader(int32(i)) {
			continue
		}
		byLane[h.Lane] = append(byLane[h.Lane], model.Span{Start: h.Start, End: h.End})
		fetches = append(fetches, h.Dur())
		workers = workers || usesWorkers(c.t.Name(h.Name))
		s.add(c.loaderSite(int32(i)), h.Dur())
	}
	for lane, v := range byLane {
		byLane[lane] = model.UnionOf(v)
		total = total.Or(byLane[lane])
	}
	ns := total.TotalAnd(c.x.Steady)
	if len(fetches) == 0 || ns*100 < c.span*loaderPercent {
		return nil
	}
	cl := claim{ns, total.And(c.x.Steady), -1}
	switch {
	case c.quality.noKernels: // what the device did meanwhile is lost
		cl = claim{device: -1}
	case len(c.devices) > 0:
		cl = c.claimHost(func(d *ruleDevice) model.Spans {
			var v model.Spans
			for lane := range byLane {
				if d.on(c, lane) {
					v = v.Or(byLane[lane])
				}
			}
			return v
		})
	}
	f := c.finding(cl, fmt.Sprintf("the program waits %s for its data loader (%.0f %% of %s)", c.perStep(total), c.share(total), c.whole()))
	f.Evidence["fetches"] = len(fetches)
	f.Evidence["fetch_median_ns"] = analyze.Median(fetches)
	f.Evidence["loader_ns"] = ns
	f.Evidence["loader_step_ns"] = ns / c.steps
	f.Evidence["loader_percent"] = percent(ns, c.span)
	f.Sites = s.top()
	f.PyTorch = c.loaderKnob(fetching{analyze.Median(fetches), ns / c.steps, workers})
	if workers {
		f.Caveats = append(f.Caveats, "the loader has worker processes already: they are too few, too slow, or were still starting")
	}
	if len(c.devices) == 0 {
		f.Caveats = append(f.Caveats, "no device recorded: the claim is the loader's whole time; workers hide only the part that the rest of the step overlaps")
		return []analyze.Found{f}
	}
	f.Caveats = append(f.Caveats, "workers hide loading only while the CPU has cores to spare and storage keeps up; the step then takes the longer of loading and the rest of the step")
	return []analyze.Found{f}
}

// nestedLoader says whether a fetch lies in another one: a loader around a loader.
func (c *ruleContext) nestedLoader(h int32) bool {
	return c.within(c.x.Parent(h), markLoader) >= 0
}

// loaderSite is where the loop is, or which loader it is.
func (c *ruleContext) loaderSite(h int32) string {
	name := c.t.Name(c.t.Host[h].Name)
	if site := c.x.Site(h); site != "" && site != name {
		return site + " (" + name + ")"
	}
	return name
}
