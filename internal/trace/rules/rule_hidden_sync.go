package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// findHiddenSync reports copies from the device into pageable host memory: their calls return only when the copy is
// done, even with non_blocking=True. The finding claims the device's idle time that would vanish without these waits
// (see starvedByBlocking). Copies inside item() and operators with data-dependent shape are counted here but claimed by
// their own rules.
func (c *ruleContext) findHiddenSync() []analyze.Found {
	pageable := func(s *stall) bool {
		return s.copy >= 0 && c.t.GPU[s.copy].Memory == model.Pageable && c.t.GPU[s.copy].Dir == model.D2H
	}
	own := func(s *stall) bool { return (pageable(s) || s.ends) && s.owner < 0 }
	var copies, inItem, inShape int
	var bytes, gpu int64
	all, mine := c.newSites("copy"), c.newSites("copy")
	for s := range c.eachStall(pageable) {
		op := &c.t.GPU[s.copy]
		copies, bytes, gpu = copies+1, bytes+op.Bytes, gpu+op.Dur()
		all.addHost(s.host, c.t.Host[s.host].Dur())
		switch s.by {
		case ownedByItem:
			inItem++
		case ownedByShape:
			inShape++
		default:
			mine.addHost(s.host, c.t.Host[s.host].Dur())
		}
	}
	if copies == 0 {
		return nil
	}
	_, host, when := c.sumHostTime(pageable)
	cl := c.claimHost(c.starvedBecauseOf(own))
	f := c.newFinding(cl, fmt.Sprintf("%s to pageable host memory block the program for %s", analyze.Plural(copies, "copy", "copies"), c.formatPerStep(when)))
	f.Evidence["copies"] = copies
	f.Evidence["copies_in_item"] = inItem
	f.Evidence["copies_in_data_dependent_shape"] = inShape
	f.Evidence["bytes"] = bytes
	f.Evidence["gpu_ns"] = gpu
	f.Evidence["host_ns"] = host
	f.Sites = mine.topSites()
	if len(f.Sites) == 0 {
		f.Sites = all.topSites()
	}
	f.PyTorch = `keep results on the device and read many at once; or copy into pinned memory: buf = torch.empty_like(t, device="cpu", pin_memory=True); buf.copy_(t, non_blocking=True)`
	switch {
	case inItem+inShape == copies:
		f.Caveats = append(f.Caveats, "every one of these copies is made by item() or by an operator whose shape depends on data: the time is claimed there")
	case inItem+inShape > 0:
		f.Caveats = append(f.Caveats, analyze.Plural(inItem+inShape, "of these copies is", "of these copies are")+" made by item() or by operators whose shape depends on data: their time is claimed there")
	}
	f.Caveats = append(f.Caveats, waitCaveat)
	return []analyze.Found{f}
}
