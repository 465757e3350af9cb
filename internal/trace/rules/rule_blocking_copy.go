package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// findBlockingCopy reports copies by a call that returns only after the copy, such as hipMemcpyWithStream, which
// PyTorch for ROCm uses unless non_blocking is set. The finding claims the device's idle time that would vanish without
// these waits (see starvedByBlocking). Other rules claim copies from device to pageable memory, in item(), and in
// operators with data-dependent shape.
func (c *ruleContext) findBlockingCopy() []analyze.Found {
	own := func(s *stall) bool {
		return s.blocks && s.owner < 0 && (s.copy < 0 || c.t.GPU[s.copy].Memory != model.Pageable || c.t.GPU[s.copy].Dir != model.D2H)
	}
	var bytes int64
	calls, host, when := c.sumHostTime(own)
	if calls == 0 {
		return nil
	}
	names, last, byDir := map[string]int{}, int32(-1), map[model.Direction]int64{}
	s := c.newSites("call")
	for w := range c.eachStall(own) {
		if w.copy >= 0 {
			op := &c.t.GPU[w.copy]
			bytes += op.Bytes
			byDir[op.Dir] += op.Dur()
		}
		if w.host != last {
			last = w.host
			h := &c.t.Host[w.host]
			names[apiSuffix.ReplaceAllString(c.t.Name(h.Name), "")]++
			s.addHost(w.host, h.Dur())
		}
	}
	cl := c.claimHost(c.starvedBecauseOf(own))
	f := c.newFinding(cl, fmt.Sprintf("copies by calls that return only when done block the program for %s (%s of %s)",
		c.formatPerStep(when), analyze.Plural(calls, "call", "calls"), strings.Join(slices.Sorted(maps.Keys(names)), ", ")))
	f.Evidence["copies"] = calls
	f.Evidence["bytes"] = bytes
	f.Evidence["host_ns"] = host
	f.Sites = s.topSites()
	f.PyTorch = `results into a pinned buffer: buf.copy_(t, non_blocking=True), read every N steps`
	switch dir := mostOfCopies(byDir); dir {
	case model.D2H:
	case model.H2D:
		f.PyTorch = "tensor.to(device, non_blocking=True) from pinned memory (DataLoader(..., pin_memory=True))"
	default:
		f.PyTorch = "tensor.to(device, non_blocking=True) from pinned memory (DataLoader(..., pin_memory=True)); " + f.PyTorch
	}
	f.Caveats = append(f.Caveats, waitCaveat)
	return []analyze.Found{f}
}
