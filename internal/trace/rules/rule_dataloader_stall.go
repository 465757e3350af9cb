package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// loaderPercent is the least share of the step that fetching batches must take for a finding, %.
const loaderPercent = 5

// findDataloaderStall reports that the training thread spends time in the data loader: it makes batches itself or waits
// for a worker. The finding claims at most the saving of the advised change; with a device, only the part in which the
// device idles because nothing is launched.
func (c *ruleContext) findDataloaderStall() []analyze.Found {
	byLane := map[uint32][]model.Span{}
	var total model.Spans
	var fetches []int64
	workers := false
	s := c.newSites("fetch")
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if h.Kind == model.API || !c.nameHasMark(h.Name, markLoader) || !c.x.InSteady(h.Start) || c.isNestedLoader(int32(i)) {
			continue
		}
		byLane[h.Lane] = append(byLane[h.Lane], model.Span{Start: h.Start, End: h.End})
		fetches = append(fetches, h.Dur())
		workers = workers || usesWorkers(c.t.Name(h.Name))
		s.add(c.nameLoaderSite(int32(i)), h.Dur())
	}
	for lane, v := range byLane {
		byLane[lane] = model.UnionOf(v)
		total = total.Or(byLane[lane])
	}
	if f := c.findWorkerStarts(total); f != nil {
		return []analyze.Found{*f}
	}
	if f := c.findRecordedStarts(); f != nil {
		return []analyze.Found{*f}
	}
	ns := total.TotalAnd(c.x.Steady)
	if len(fetches) == 0 || ns*100 < c.span*loaderPercent {
		return nil
	}
	fetch := fetchTimes{analyze.Median(fetches), ns / c.steps, workers}
	change, gain := c.adviseLoader(fetch)
	cl := claim{spans: total.And(c.x.Steady).First(c.scaleToUnrecorded(min(gain*c.steps, ns))), device: -1}
	cl.ns = cl.spans.Total()
	switch {
	case c.quality.noKernels: // the device records are lost
		cl = claim{device: -1}
	case len(c.devices) > 0:
		cl = c.claimHost(func(d *ruleDevice) model.Spans {
			var v model.Spans
			for lane := range byLane {
				if d.isDrivenBy(c, lane) {
					v = v.Or(byLane[lane])
				}
			}
			return v
		})
		cl.spans = cl.spans.First(min(gain*c.steps, cl.ns))
		cl.ns = cl.spans.Total()
	}
	f := c.newFinding(cl, fmt.Sprintf("the program waits %s for its data loader (%.0f %% of %s)", c.formatPerStep(total), c.percentOfStep(total), c.nameWhole()))
	f.Evidence["fetches"] = len(fetches)
	f.Evidence["fetch_median_ns"] = analyze.Median(fetches)
	f.Evidence["loader_ns"] = ns
	f.Evidence["loader_step_ns"] = ns / c.steps
	f.Evidence["loader_percent"] = percent(ns, c.span)
	f.Sites = s.topSites()
	f.PyTorch = change
	if workers {
		f.Caveats = append(f.Caveats, "the loader has worker processes already: they are too few, too slow, or were still starting")
	}
	if line, share := c.findSlowestCall(); line != "" && !workers {
		f.Title += fmt.Sprintf("; %.0f %% of its samples are at %s", 100*share, line)
		f.Evidence["slowest_call"] = line
	}
	if len(c.devices) == 0 {
		f.Caveats = append(f.Caveats, "no device recorded: the claim is what the change hides of the loader's time beside the rest of the step")
		return []analyze.Found{f}
	}
	f.Caveats = append(f.Caveats, "workers hide loading only while the CPU has cores to spare and storage keeps up; the step then takes the longer of loading and the rest of the step")
	return []analyze.Found{f}
}

// isNestedLoader reports whether a fetch runs inside another fetch, because one loader wraps another.
func (c *ruleContext) isNestedLoader(h int32) bool {
	return c.findMarkAround(c.x.Parent(h), markLoader) >= 0
}

// nameLoaderSite names the place in the program that fetches a batch, or the loader if the place is unknown.
func (c *ruleContext) nameLoaderSite(h int32) string {
	name := c.t.Name(c.t.Host[h].Name)
	if site := c.x.Site(h); site != "" && site != name {
		return site + " (" + name + ")"
	}
	return name
}
