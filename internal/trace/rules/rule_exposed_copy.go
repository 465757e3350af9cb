package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// exposedPercent is the share of a device's span that copies must take alone.
const exposedPercent = 5

// exposedCopy: copies that run while the device does nothing else. It claims
// that time, less what pageable-h2d took.
func (c *ruleContext) exposedCopy() []analyze.Found {
	isCopy := func(g int32) bool { return c.t.GPU[g].Kind == model.Memcpy }
	exposed := c.exclusives(isCopy)
	alone := map[int]model.Spans{}
	for _, d := range c.devices {
		if e := exposed[d.Device]; e.Total()*100 >= d.steady.Total()*exposedPercent {
			alone[d.Device] = e
		}
	}
	worst := longest(alone)
	if worst.Total() == 0 {
		return nil
	}
	cl := c.claimGPU(func(d *ruleDevice) model.Spans { return alone[d.Device] })
	copies, total := 0, int64(0)
	byDir, bytes := map[model.Direction]int64{}, map[model.Direction]int64{}
	s := c.newSites()
	c.steadyOps(isCopy, func(_ *ruleDevice, g int32, op *model.GPU) {
		copies++
		total += op.Dur()
		byDir[op.Dir] += op.Dur()
		bytes[op.Dir] += op.Bytes
		s.gpu(g, op.Dur())
	})
	f := c.finding(cl, fmt.Sprintf("copies keep the device from computing for %s (%.0f %% of %s)", c.perStep(worst), c.share(worst), c.whole()))
	f.Evidence["copies"] = copies
	f.Evidence["gpu_ns"] = total
	f.Evidence["exposed_ns"] = worst.Total()
	f.Evidence["exposed_percent"] = c.share(worst)
	f.Evidence["claimed_by_pageable_h2d_ns"] = c.copyNS
	for dir, word := range map[model.Direction]string{model.H2D: "h2d", model.D2H: "d2h", model.D2D: "d2d", model.P2P: "p2p", model.H2H: "h2h"} {
		if byDir[dir] > 0 {
			f.Evidence[word+"_ns"] = byDir[dir]
			f.Evidence[word+"_bytes"] = bytes[dir]
		}
	}
	f.Sites = s.top()
	f.PyTorch = "overlap copies with work: pin_memory=True, tensor.to(device, non_blocking=True) for the next batch on a torch.cuda.Stream() while this one computes"
	if byDir[model.D2D]*2 > total {
		f.PyTorch = "avoid copies on the device: clone(), contiguous() and repeat() where a view, expand() or an in-place operation will do"
	}
	f.Caveats = append(f.Caveats, "a copy can be hidden only behind work that does not need its data")
	return []analyze.Found{f}
}
