package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// findExplicitSync reports calls that wait for a stream, an event or the whole device. The finding claims the device's
// idle time that would vanish without these waits (see starvedByBlocking). Calls inside item() and operators with
// data-dependent shape, and calls that end a copy to pageable memory, are counted here but claimed by their own rules.
func (c *ruleContext) findExplicitSync() []analyze.Found {
	isSync := (*stall).isSync
	own := func(s *stall) bool { return isSync(s) && s.owner < 0 && !s.ends }
	var owned, inCopies, free int
	byName := map[string]int{}
	sites := c.newSites("call")
	for s := range c.eachStall(isSync) {
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
		if c.isInCopy(s.host) {
			inCopies++
		}
		sites.addHost(s.host, c.t.Host[s.host].Dur())
	}
	// Without other calls there is no finding: other rules report calls in item() and calls that only end a copy.
	if free == 0 {
		return nil
	}
	calls, host, when := c.sumHostTime(isSync)
	if calls < 2 && c.steps > 1 {
		return nil // a single call in several steps is not part of the loop
	}
	cl := c.claimHost(c.starvedBecauseOf(own))
	names := slices.Sorted(maps.Keys(byName))
	f := c.newFinding(cl, fmt.Sprintf("%s (%s) make the program wait %s for the device", analyze.Plural(calls, "call", "calls"), strings.Join(names, ", "), c.formatPerStep(when)))
	f.Evidence["calls"] = calls
	f.Evidence["calls_in_item_or_shape"] = owned
	f.Evidence["calls_in_copies"] = inCopies
	f.Evidence["host_ns"] = host
	for n, k := range byName {
		f.Evidence["calls_"+toSnakeCase(n)] = k
	}
	f.Sites = sites.topSites()
	f.PyTorch = "remove torch.cuda.synchronize() and event.synchronize() from the loop (time with CUDA events, read them once at the end)"
	if inCopies == calls-owned {
		f.PyTorch = "DataLoader(..., pin_memory=True) and tensor.to(device, non_blocking=True): these calls are part of blocking copies"
	}
	f.Caveats = append(f.Caveats, waitCaveat)
	return []analyze.Found{f}
}

func (c *ruleContext) isInCopy(h int32) bool {
	op := c.x.Op(h)
	if op < 0 {
		return false
	}
	n := c.t.Name(c.t.Host[op].Name)
	return n == "aten::copy_" || n == "aten::_to_copy" || n == "aten::to"
}

// toSnakeCase converts a function name to an evidence key: cudaStreamSynchronize becomes cuda_stream_synchronize.
func toSnakeCase(s string) string {
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
