package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// findDataDependentShape reports nonzero, unique and masked_select, whose result size depends on the data.
// The host waits for the device to learn that size before it can allocate the result. The finding claims the
// device's idle time that would vanish without these waits (see starvedByBlocking).
func (c *ruleContext) findDataDependentShape() []analyze.Found {
	own := func(s *stall) bool { return s.by == ownedByShape }
	owners := c.listOwners(ownedByShape)
	if len(owners) == 0 {
		return nil
	}
	ops := map[string]int{}
	sites := c.newSites("operator")
	for _, op := range owners {
		ops[c.t.Name(c.t.Host[op].Name)]++
		sites.addHost(op, c.t.Host[op].Dur())
	}
	_, host, when := c.sumHostTime(own)
	cl := c.claimHost(c.starvedBecauseOf(own))
	names := slices.Sorted(maps.Keys(ops))
	f := c.newFinding(cl, fmt.Sprintf("%s with a result whose size depends on the data (%s) make the program wait %s", analyze.Plural(len(owners), "operator", "operators"), strings.Join(names, ", "), c.formatPerStep(when)))
	f.Evidence["operators"] = len(owners)
	f.Evidence["host_ns"] = host
	for n, k := range ops {
		f.Evidence["count_"+strings.TrimLeft(strings.TrimPrefix(n, "aten::"), "_")] = k
	}
	f.Sites = sites.topSites()
	f.PyTorch = "work with fixed shapes: torch.where(mask, x, 0) instead of x[mask], torch.nonzero_static(mask, size=n), or compute the indices once outside the loop"
	f.Caveats = append(f.Caveats, "a fixed shape computes on the padding too, which costs device time this claim does not subtract")
	return []analyze.Found{f}
}
