package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// smallCopy is the size, bytes, below which the cost of starting a copy decides its time, not the kind of memory.
const smallCopy = 64 << 10

// findPageableH2D reports large copies to the device from pageable memory, which the driver stages through a pinned
// buffer. The finding claims three times. (1) The time in which only these copies run, beyond the time of the same
// bytes at the rate of this trace's pinned copies. (2) The device's waits for the staging. (3) The device's idle time
// because the call blocks the host (see starvedByBlocking): a pinned copy would return at once. It claims nothing if
// the trace has no pinned copies to compare with.
func (c *ruleContext) findPageableH2D() []analyze.Found {
	copies, bytes, gpu, host := 0, int64(0), int64(0), int64(0)
	byDevice, calls := map[int]int64{}, map[int][]model.Span{}
	s := c.newSites("copy")
	pick := func(g int32) bool { return isLargePageable(&c.t.GPU[g]) }
	c.eachSteadyOp(pick, func(d *ruleDevice, g int32, op *model.GPU) {
		copies, bytes, gpu = copies+1, bytes+op.Bytes, gpu+op.Dur()
		byDevice[d.Device] += op.Bytes
		if op.Launch >= 0 {
			h := &c.t.Host[op.Launch]
			host += h.Dur()
			calls[d.Device] = append(calls[d.Device], model.Span{Start: h.Start, End: h.End})
		}
		s.addGPU(g, op.Dur())
	})
	if copies == 0 {
		return nil
	}
	exposed := c.exclusiveByDevice(pick)
	rate, pinned := c.measurePinnedRate()
	if rate == 0 && float64(longestNS(exposed)) < analyze.LeastShare*float64(c.span) {
		return nil
	}
	cl := claim{device: -1}
	if rate > 0 {
		cl = c.grantClaim(func(d *ruleDevice) model.Spans {
			e := exposed[d.Device]
			less := e.First(e.Total() - int64(float64(byDevice[d.Device])/rate)).And(d.steady)
			got := c.l.ClaimGPU(d.Device, less).Or(c.claimQueued(d, d.waitsBefore(c, pick, true)))
			if c.isIdleUnsure(d) {
				return got
			}
			late := c.starvedByBlocking(d, model.UnionOf(calls[d.Device]), less, func(*stall) bool { return false })
			return got.Or(c.l.ClaimHost(d.Device, late.Minus(d.uncertainIdle)))
		})
	}
	c.copyNS = cl.ns
	f := c.newFinding(cl, fmt.Sprintf("copying from pageable memory to the device takes %s (%s)", c.formatPerStep(c.runningTime(pick)), analyze.Plural(copies, "copy", "copies")))
	f.Evidence["copies"] = copies
	f.Evidence["bytes"] = bytes
	f.Evidence["gpu_ns"] = gpu
	f.Evidence["host_ns"] = host
	f.Evidence["exposed_ns"] = longestNS(exposed)
	f.Evidence["pageable_bytes_per_s"] = bytesPerSecond(bytes, gpu)
	f.Evidence["pinned_copies"] = pinned
	f.Sites = s.topSites()
	if rate > 0 && cl.ns == 0 {
		return nil
	}
	f.PyTorch = "DataLoader(..., pin_memory=True), or tensor.pin_memory() once, and tensor.to(device, non_blocking=True)"
	if rate > 0 {
		f.Evidence["pinned_bytes_per_s"] = rate * 1e9
		f.Caveats = append(f.Caveats, "pinning memory costs time too: pin once and reuse, or let the loader's thread do it")
	} else {
		f.Caveats = append(f.Caveats, "no claim: the trace has no copy from pinned memory to compare with")
	}
	return []analyze.Found{f}
}

func isLargePageable(op *model.GPU) bool {
	return op.Kind == model.Memcpy && op.Dir == model.H2D && op.Memory == model.Pageable && op.Bytes >= smallCopy
}

// measurePinnedRate returns the rate of copies from pinned memory to the device, bytes per ns, and their number. It
// uses large copies if there are any: small ones are slow for another reason and would lower the claim.
func (c *ruleContext) measurePinnedRate() (rate float64, copies int) {
	var bytes, ns [2]int64 // small copies, large copies
	var n [2]int
	for i := range c.t.GPU {
		op := &c.t.GPU[i]
		if op.Kind != model.Memcpy || op.Dir != model.H2D || op.Memory != model.Pinned || op.Bytes <= 0 || op.Dur() <= 0 {
			continue
		}
		k := 0
		if op.Bytes >= smallCopy {
			k = 1
		}
		bytes[k], ns[k], n[k] = bytes[k]+op.Bytes, ns[k]+op.Dur(), n[k]+1
	}
	for k := 1; k >= 0; k-- {
		if n[k] > 0 {
			return float64(bytes[k]) / float64(ns[k]), n[k]
		}
	}
	return 0, 0
}

func bytesPerSecond(bytes, ns int64) float64 {
	if ns <= 0 {
		return 0
	}
	return float64(bytes) / float64(ns) * 1e9
}
