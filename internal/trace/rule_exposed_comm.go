package trace

import "fmt"

// exposedComm: communication kernels while the device computes nothing. It
// claims that time.
func (c *ruleContext) exposedComm() []Finding {
	isComm := func(g int32) bool {
		return c.t.GPU[g].Kind == Kernel && c.x.Class(g) == Communication
	}
	kernels, ns := 0, int64(0)
	s := c.newSites()
	c.steadyOps(func(_ *ruleDevice, g int32, op *GPU) {
		if isComm(g) {
			kernels++
			ns += op.Dur()
			s.add(shortName(c.t.Name(op.Name)), op.Dur())
		}
	})
	if kernels == 0 {
		return nil
	}
	exposed := c.exclusives(isComm)
	alone := longest(exposed)
	if alone.Total() == 0 {
		return nil
	}
	cl := c.claimGPU(func(d *ruleDevice) Spans { return exposed[d.Device] })
	f := c.finding(cl, fmt.Sprintf("communication runs alone for %s (%.0f %% of %s)", c.perStep(alone), c.share(alone), c.whole()))
	f.Evidence["kernels"] = kernels
	f.Evidence["comm_ns"] = ns
	f.Evidence["exposed_ns"] = alone.Total()
	f.Evidence["exposed_percent"] = c.share(alone)
	if c.t.World > 0 {
		f.Evidence["ranks"] = c.t.World
	}
	f.Sites = s.top()
	f.Knob = "DistributedDataParallel(..., bucket_cap_mb=..., gradient_as_bucket_view=True), gradient accumulation under model.no_sync(), and balanced work on all ranks"
	f.Caveats = append(f.Caveats, "a communication kernel also waits for the slowest rank: with the traces of all ranks, see which one the others wait for")
	return []Finding{f}
}
