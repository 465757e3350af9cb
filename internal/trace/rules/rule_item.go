package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// item: item(), float(t), int(t), bool(t) of a tensor on the device. The
// operator counts only when it encloses a synchronise call or a copy to the
// host on its own thread: item() of a CPU tensor waits for nothing. It claims
// the starved time the wait causes (see lead).
func (c *ruleContext) item() []analyze.Found {
	own := func(s *stall) bool { return s.by == ownedByItem }
	owners := c.owners(ownedByItem)
	reads := len(owners)
	if reads == 0 {
		return nil
	}
	sites := c.newSites("read")
	for _, op := range owners {
		sites.host(op, c.t.Host[op].Dur())
	}
	all := 0
	for i := range c.t.Host {
		if h := &c.t.Host[i]; c.is(h.Name, markItem) && c.x.InSteady(h.Start) {
			all++
		}
	}
	_, host, when := c.hostTime(own)
	cl := c.claimHost(c.goneWith(own))
	f := c.finding(cl, fmt.Sprintf("%s of single values from the device (.item() and the like) make the program wait %s", analyze.Plural(reads, "read", "reads"), c.perStep(when)))
	f.Evidence["reads"] = reads
	f.Evidence["reads_step"] = float64(reads) / float64(c.steps)
	f.Evidence["reads_without_wait"] = max(0, all-reads)
	f.Evidence["host_ns"] = host
	f.Sites = sites.top()
	f.PyTorch = "gather the values in one tensor and read it once (torch.stack(values).tolist()), and keep conditions on the device (torch.where)"
	if c.training() {
		f.PyTorch = "gather what you log in one tensor and read it every N steps (losses.append(loss.detach()); torch.stack(losses).tolist()), and keep conditions on the device (torch.where)"
	}
	f.Caveats = append(f.Caveats, waitCaveat)
	return []analyze.Found{f}
}
