package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// makesIterator matches the frame in which PyTorch's data loader makes the iterator of an epoch, startsProcess the
// frame in which the iterator starts a worker process.
var (
	makesIterator = lazyregexp.New(`torch/utils/data/dataloader\.py\(\d+\): _get_iterator$`)
	startsProcess = lazyregexp.New(`multiprocessing/process\.py\(\d+\): start$`)
)

// findRecordedStarts finds a loader whose workers start more than once from one line of the program, in a recording
// with Python frames; nil if there is none or the starts take little. The finding claims the device's idle time during
// the starts, because persistent workers start only once.
func (c *ruleContext) findRecordedStarts() *analyze.Found {
	makes, starts, some := make([]bool, len(c.t.Names)), make([]bool, len(c.t.Names)), false
	for id, name := range c.t.Names {
		makes[id], starts[id] = makesIterator.MatchString(name), startsProcess.MatchString(name)
		some = some || makes[id]
	}
	if !some || len(c.devices) == 0 {
		return nil
	}
	type place struct {
		spans   []model.Span
		workers int
	}
	by := map[string]*place{}
	var best *place
	where := ""
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if h.Kind != model.Python || !makes[h.Name] || !c.x.InSteady(h.Start) {
			continue
		}
		workers := 0
		for k, end := c.x.Inside(int32(i)); k < end; k++ {
			if starts[c.t.Host[k].Name] {
				workers++
			}
		}
		site := c.x.Site(int32(i))
		if workers == 0 || site == "" {
			continue
		}
		if by[site] == nil {
			by[site] = &place{}
		}
		p := by[site]
		p.spans, p.workers = append(p.spans, model.Span{Start: h.Start, End: h.End}), max(p.workers, workers)
		if best == nil || len(p.spans) > len(best.spans) {
			best, where = p, site
		}
	}
	if best == nil || len(best.spans) < 2 {
		return nil
	}
	all := model.UnionOf(best.spans)
	if all.TotalAnd(c.x.Steady)*100 < c.span*loaderPercent {
		return nil
	}
	cl := c.claimHost(func(*ruleDevice) model.Spans { return all })
	f := c.newFinding(cl, fmt.Sprintf("the program starts its %s %d times at %s, which takes %s", analyze.Plural(best.workers, "loader worker", "loader workers"),
		len(best.spans), where, c.formatPerStep(all)))
	f.Evidence["workers"], f.Evidence["starts"], f.Evidence["start_ns"] = best.workers, len(best.spans), all.TotalAnd(c.x.Steady)
	f.PyTorch = "DataLoader(..., persistent_workers=True), made once before the loop over epochs"
	f.Caveats = append(f.Caveats, "the first batch of an epoch is still waited for, unless the workers make it while the last epoch ends")
	return &f
}
