package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// explicitSync: calls that wait for a stream, an event or the whole device. It
// claims the starved time they cause (see lead). Calls inside item() and
// operators whose shape depends on data, and those that end a copy to pageable
// memory, are counted here and claimed by those rules.
func (c *ruleContext) explicitSync() []analyze.Found {
	isSync := (*stall).syncs
	own := func(s *stall) bool { return isSync(s) && s.owner < 0 && !s.ends }
	var owned, inCopies, free int
	byName := map[string]int{}
	sites := c.newSites("call")
	for s := range c.stallsOf(isSync) {
		byName[apiSuffix.ReplaceAllString(c.t.Name(c.t.Host[s.host].Name), "")]++
		if s.owner >= 0 {
			owned++
			continue
		}
		if s.ends {
			inCopies++
			continue
		}
		free++
		if c.inCopy(s.host) {
			inCopies++
		}
		sites.host(s.host, c.t.Host[s.host].Dur())
	}
	// A synchronise call that only ends a copy already reported is no second finding.
	if free == 0 {
		return nil
	}
	calls, host, when := c.hostTime(isSync)
	if calls < 2 && c.steps > 1 {
		return nil // one call in several steps is none of the loop
	}
	cl := c.claimHost(c.goneWith(own))
	names := slices.Sorted(maps.Keys(byName))
	f := c.finding(cl, fmt.Sprintf("%s (%s) make the program wait %s for the device", analyze.Plural(calls, "call", "calls"), strings.Join(names, ", "), c.perStep(when)))
	f.Evidence["calls"] = calls
	f.Evidence["calls_in_item_or_shape"] = owned
	f.Evidence["calls_in_copies"] = inCopies
	f.Evidence["host_ns"] = host
	for n, k := range byName {
		f.Evidence["calls_"+snake(n)] = k
	}
	f.Sites = sites.top()
	f.PyTorch = "remove torch.cuda.synchronize() and event.synchronize() from the loop (time with CUDA events, read them once at the end)"
	if inCopies == calls-owned {
		f.PyTorch = "DataLoader(..., pin_memory=True) and tensor.to(device, non_blocking=True): these calls are part of blocking copies"
	}
	f.Caveats = append(f.Caveats, waitCaveat)
	return []analyze.Found{f}
}

// inCopy says whether a call was made by an operator that copies a tensor.
func (c *ruleContext) inCopy(h int32) bool {
	op := c.x.Op(h)
	if op < 0 {
		return false
	}
	n := c.t.Name(c.t.Host[op].Name)
	return n == "aten::copy_" || n == "aten::_to_copy" || n == "aten::to"
}

// snake is a function name in the style of evidence keys: cudaStreamSynchronize
// is cuda_stream_synchronize.
func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
