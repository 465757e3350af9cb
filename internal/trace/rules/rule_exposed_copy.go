package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// exposedPercent is the least share of a device's time, %, in which it only copies, for a finding.
const exposedPercent = 5

// copyWords describes copies by their main direction; exposedCopyLines holds the advice by the same direction.
var (
	copyWords = map[model.Direction]string{model.H2D: "copies, most of them to the device,", model.D2H: "copies, most of them to the host,",
		model.D2D: "copies, most of them on the device,", model.P2P: "copies, most of them between devices,", model.H2H: "copies, most of them on the host,", model.NoCopy: "copies, to the device and back,"}
	exposedCopyLines = map[model.Direction]string{
		model.H2D:    "overlap copies with work: pin_memory=True, tensor.to(device, non_blocking=True) for the next batch on a torch.cuda.Stream() while this one computes",
		model.D2H:    `keep results on the device and copy many at once; or into pinned memory: buf = torch.empty_like(t, device="cpu", pin_memory=True); buf.copy_(t, non_blocking=True) on a torch.cuda.Stream() while the next step computes`,
		model.D2D:    "avoid copies on the device: clone(), contiguous() and repeat() where a view, expand() or an in-place operation will do",
		model.P2P:    "send to other devices from a torch.cuda.Stream() of its own while this device computes, or keep what is sent where it is used",
		model.H2H:    "fewer copies on the host: write into the buffer that is copied to the device",
		model.NoCopy: "overlap copies with work: copies on a torch.cuda.Stream() of their own, from and to pinned memory",
	}
)

func mostOfCopies(by map[model.Direction]int64) model.Direction {
	best := model.NoCopy
	for _, d := range []model.Direction{model.H2D, model.D2H, model.D2D, model.P2P, model.H2H} {
		if by[d] > by[best] {
			best = d
		}
	}
	return best
}

// findExposedCopy reports copies while the device does nothing else. The finding claims this time, except time that the
// rule pageable-h2d has claimed.
func (c *ruleContext) findExposedCopy() []analyze.Found {
	isCopy := func(g int32) bool { return c.t.GPU[g].Kind == model.Memcpy && c.t.GPU[g].Memory != model.Migrated }
	exposed := c.exclusiveByDevice(isCopy)
	alone := map[int]model.Spans{}
	for _, d := range c.devices {
		if e := exposed[d.Device]; e.Total()*100 >= d.steady.Total()*exposedPercent {
			alone[d.Device] = e
		}
	}
	worst := longestSpans(alone)
	if worst.Total() == 0 {
		return nil
	}
	cl := c.claimGPU(func(d *ruleDevice) model.Spans { return alone[d.Device] })
	copies, total, shown := 0, int64(0), int64(0)
	byDir, bytes, shownDir := map[model.Direction]int64{}, map[model.Direction]int64{}, map[model.Direction]int64{}
	s := c.newSites("copy")
	c.eachSteadyOp(isCopy, func(d *ruleDevice, g int32, op *model.GPU) {
		copies++
		total += op.Dur()
		byDir[op.Dir] += op.Dur()
		bytes[op.Dir] += op.Bytes
		if own := alone[d.Device].Within(model.Span{Start: op.Start, End: op.End}).Total(); own > 0 {
			shown += own
			shownDir[op.Dir] += own
			s.addGPU(g, own)
		}
	})
	f := c.newFinding(cl, fmt.Sprintf("copies keep the device from computing for %s (%.0f %% of %s)", c.formatPerStep(worst), c.percentOfStep(worst), c.nameWhole()))
	f.Evidence["copies"] = copies
	f.Evidence["gpu_ns"] = total
	f.Evidence["exposed_ns"] = worst.Total()
	f.Evidence["exposed_percent"] = c.percentOfStep(worst)
	f.Evidence["claimed_by_pageable_h2d_ns"] = c.copyNS
	for dir, word := range map[model.Direction]string{model.H2D: "h2d", model.D2H: "d2h", model.D2D: "d2d", model.P2P: "p2p", model.H2H: "h2h"} {
		if byDir[dir] > 0 {
			f.Evidence[word+"_ns"] = byDir[dir]
			f.Evidence[word+"_bytes"] = bytes[dir]
		}
	}
	f.Sites = s.topSites()
	dir := mostOfCopies(shownDir) // copies hidden behind kernels do not decide the advice
	if float64(shownDir[dir]) < mostOf*float64(shown) {
		dir = model.NoCopy // no direction has half of the time
	}
	f.Title = strings.Replace(f.Title, "copies keep", copyWords[dir]+" keep", 1)
	f.PyTorch = exposedCopyLines[dir]
	f.Caveats = append(f.Caveats, "a copy can be hidden only behind work that does not need its data")
	return []analyze.Found{f}
}
