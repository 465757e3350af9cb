package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// blockingCopy: copies by a call that returns only when they are done, such as
// hipMemcpyWithStream, by which PyTorch for ROCm makes all that are not
// non_blocking. It claims the starved time that causes (see lead). Copies from the device to
// pageable memory, and those in item() and in operators whose shape depends on
// data, are claimed by the rules for those.
func (c *ruleContext) blockingCopy() []analyze.Found {
	own := func(s *stall) bool {
		return s.blocks && s.owner < 0 && (s.copy < 0 || c.t.GPU[s.copy].Memory != model.Pageable || c.t.GPU[s.copy].Dir != model.D2H)
	}
	var bytes int64
	calls, host, when := c.hostTime(own)
	if calls == 0 {
		return nil
	}
	names, last, byDir := map[string]int{}, int32(-1), map[model.Direction]int64{}
	s := c.newSites("call")
	for w := range c.stallsOf(own) {
		if w.copy >= 0 {
			op := &c.t.GPU[w.copy]
			bytes += op.Bytes
			byDir[op.Dir] += op.Dur()
		}
		if w.host != last {
			last = w.host
			h := &c.t.Host[w.host]
			names[apiSuffix.ReplaceAllString(c.t.Name(h.Name), "")]++
			s.host(w.host, h.Dur())
		}
	}
	cl := c.claimHost(c.goneWith(own))
	f := c.finding(cl, fmt.Sprintf("copies by calls that return only when done block the program for %s (%s of %s)",
		c.perStep(when), analyze.Plural(calls, "call", "calls"), strings.Join(slices.Sorted(maps.Keys(names)), ", ")))
	f.Evidence["copies"] = calls
	f.Evidence["bytes"] = bytes
	f.Evidence["host_ns"] = host
	f.Sites = s.top()
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
