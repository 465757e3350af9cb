package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// dataDependentShape: nonzero, unique and masked_select must know how much
// they found before they can allocate the result, so they wait for the device.
// It claims the starved time the wait causes (see lead).
func (c *ruleContext) dataDependentShape() []analyze.Found {
	own := func(s *stall) bool { return s.by == ownedByShape }
	owners := c.owners(ownedByShape)
	if len(owners) == 0 {
		return nil
	}
	ops := map[string]int{}
	sites := c.newSites("operator")
	for _, op := range owners {
		ops[c.t.Name(c.t.Host[op].Name)]++
		sites.host(op, c.t.Host[op].Dur())
	}
	_, host, when := c.hostTime(own)
	cl := c.claimHost(c.goneWith(own))
	names := slices.Sorted(maps.Keys(ops))
	f := c.finding(cl, fmt.Sprintf("%s with a result whose size depends on the data (%s) make the program wait %s", analyze.Plural(len(owners), "operator", "operators"), strings.Join(names, ", "), c.perStep(when)))
	f.Evidence["operators"] = len(owners)
	f.Evidence["host_ns"] = host
	for n, k := range ops {
		f.Evidence["count_"+strings.TrimLeft(strings.TrimPrefix(n, "aten::"), "_")] = k
	}
	f.Sites = sites.top()
	f.PyTorch = "work with fixed shapes: torch.where(mask, x, 0) instead of x[mask], torch.nonzero_static(mask, size=n), or compute the indices once outside the loop"
	f.Caveats = append(f.Caveats, "a fixed shape computes on the padding too, which costs device time this claim does not subtract")
	return []analyze.Found{f}
}
