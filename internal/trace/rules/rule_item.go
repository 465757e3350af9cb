package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// findItem: item(), float(t), int(t) or bool(t) of a device tensor. The operator counts only if its own thread makes a
// synchronization call or a copy to the host in it: item() of a CPU tensor waits for nothing. It claims the starved
// time that the wait causes (see starvedByBlocking).
func (c *ruleContext) findItem() []analyze.Found {
	own := func(s *stall) bool { return s.by == ownedByItem }
	owners := c.listOwners(ownedByItem)
	reads := len(owners)
	if reads == 0 {
		return nil
	}
	sites := c.newSites("read")
	for _, op := range owners {
		sites.addHost(op, c.t.Host[op].Dur())
	}
	all := 0
	for i := range c.t.Host {
		if h := &c.t.Host[i]; c.nameHasMark(h.Name, markItem) && c.x.InSteady(h.Start) {
			all++
		}
	}
	_, host, when := c.sumHostTime(own)
	cl := c.claimHost(c.starvedBecauseOf(own))
	f := c.newFinding(cl, fmt.Sprintf("%s of single values from the device (.item() and the like) make the program wait %s", analyze.Plural(reads, "read", "reads"), c.formatPerStep(when)))
	f.Evidence["reads"] = reads
	f.Evidence["reads_step"] = float64(reads) / float64(c.steps)
	f.Evidence["reads_without_wait"] = max(0, all-reads)
	f.Evidence["host_ns"] = host
	f.Sites = sites.topSites()
	f.PyTorch = "gather the values in one tensor and read it once (torch.stack(values).tolist()), and keep conditions on the device (torch.where)"
	if c.isTraining() {
		f.PyTorch = "gather what you log in one tensor and read it every N steps (losses.append(loss.detach()); torch.stack(losses).tolist()), and keep conditions on the device (torch.where)"
	}
	f.Caveats = append(f.Caveats, waitCaveat)
	return []analyze.Found{f}
}
