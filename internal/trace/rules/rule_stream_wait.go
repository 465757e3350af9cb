package rules

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// findStreamWait reports that a device idles although its next operation is launched, for at least 5 % of the step. All
// idle time of a device must be at least 15 % of the step. The finding claims the unclaimed part of this time and names
// the reasons for the waits.
func (c *ruleContext) findStreamWait() []analyze.Found {
	if c.getMostIdle()*100 < c.span*idlePercent {
		return nil
	}
	cl := c.grantClaim(func(d *ruleDevice) model.Spans { return c.claimQueued(d, d.Queued.And(c.x.Steady)) })
	d := c.findDevice(cl.device)
	if d == nil || cl.ns*100 < c.span*hostPercent {
		return nil
	}
	waits := c.x.QueuedWaits(d.DeviceTime)
	kinds := slices.SortedFunc(maps.Keys(waits), func(a, b string) int {
		return cmp.Or(cmp.Compare(waits[b].NS, waits[a].NS), cmp.Compare(a, b))
	})
	what := "the device has work launched and does not begin it"
	if len(kinds) > 0 {
		what += "; it waits longest " + waits[kinds[0]].Words(kinds[0])
	}
	at := c.sumGapActivity(d, cl.spans)
	places, place := at.topPlaces()
	if place != "" {
		what += ", while the host is longest " + place
	}
	f := c.newFinding(cl, what)
	f.Evidence["queued_ns"] = d.Queued.TotalAnd(c.x.Steady)
	f.Evidence["waits"] = len(kinds)
	f.Evidence["idle_percent"] = percent(c.sumIdle(d), c.span)
	for _, k := range kinds[:min(len(kinds), mostSites-2)] {
		f.Sites = append(f.Sites, gpuprof.Site{Where: "waits " + waits[k].Words(k), Count: math.Round(waits[k].Count), Of: "wait", NS: int64(waits[k].NS)})
	}
	f.Sites = append(f.Sites, places[:min(len(places), 2)]...)
	f.PyTorch = adviseWait(kinds)
	f.Caveats = append(f.Caveats, "the claim is all time in which the device had work launched, did nothing and no other finding claims it: what a dependency needs cannot be removed")
	return []analyze.Found{f}
}

func adviseWait(kinds []string) string {
	if len(kinds) == 0 {
		return "look at the streams in the timeline: gpuprof analyze -o report.html"
	}
	for _, k := range []struct{ word, knob string }{
		{"graph", "fewer and larger CUDA graphs, launched one after the other without a wait between them; parts that do not depend on each other on streams of their own while capturing"},
		{"communication", "overlap communication with computation: start it earlier, in smaller pieces"},
		{"on stream", "fewer waits between streams: work that depends on each other on one stream, events recorded right after what they are for"},
		{"pageable", "DataLoader(..., pin_memory=True) and tensor.to(device, non_blocking=True)"},
		{"memory from the driver", "torch.cuda.empty_cache() out of the loop; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
		{"call that launches", "run each shape once before the loop, so that kernels are loaded and tuned; CUDA_MODULE_LOADING=EAGER"},
		{"launch latency", `fewer, larger kernels: torch.compile(model, mode="reduce-overhead") or CUDA graphs`},
	} {
		if strings.Contains(kinds[0], k.word) {
			return k.knob
		}
	}
	return "look at the streams in the timeline: gpuprof analyze -o report.html; enable_cuda_sync_events=True in the profiler records what streams wait for"
}
