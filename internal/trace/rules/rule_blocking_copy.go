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
// non_blocking. It claims the starved time that causes (see lead). Copies to
// pageable memory, and those in item() and in operators whose shape depends on
// data, are claimed by the rules for those.
func (c *ruleContext) blockingCopy() []analyze.Found {
	own := func(s *stall) bool {
		return s.blocks && s.owner < 0 && (s.copy < 0 || c.t.GPU[s.copy].Memory != model.Pageable)
	}
	var bytes int64
	calls, host, when := c.hostTime(own)
	if calls == 0 {
		return nil
	}
	names, last := map[string]int{}, int32(-1)
	s := c.newSites()
	for w := range c.stallsOf(own) {
		if w.copy >= 0 {
			bytes += c.t.GPU[w.copy].Bytes
		}
		if w.host != last {
			last = w.host
			h := &c.t.Host[w.host]
			names[apiSuffix.ReplaceAllString(c.t.Name(h.Name), "")]++
			s.host(w.host, h.Dur())
		}
	}
	cl := c.claimHost(c.goneWith(own))
	f := c.finding(cl, fmt.Sprintf("%s that return only when they are done (%s) block the program for %s",
		analyze.Plural(calls, "copy", "copies"), strings.Join(slices.Sorted(maps.Keys(names)), ", "), c.perStep(when)))
	f.Evidence["copies"] = calls
	f.Evidence["bytes"] = bytes
	f.Evidence["host_ns"] = host
	f.Sites = s.top()
	f.PyTorch = `tensor.to(device, non_blocking=True) from pinned memory (DataLoader(..., pin_memory=True)); results into a pinned buffer: buf.copy_(t, non_blocking=True), read every N steps`
	f.Caveats = append(f.Caveats, waitCaveat)
	return []analyze.Found{f}
}
