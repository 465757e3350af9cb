package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// leastMigration is the least share of the step that migrations must take for a finding.
const leastMigration = 0.01

// mostlyToHost: with more than this many times as many bytes to the host, the host's reads cause the migrations, and a
// prefetch before kernels changes nothing.
const mostlyToHost = 4

// prefetchToHost is the call that moves pages to the host at once.
var prefetchToHost = map[analyze.Program]string{
	analyze.CUDA: "cudaMemPrefetchAsync to cudaCpuDeviceId", analyze.HIP: "hipMemPrefetchAsync to hipCpuDeviceId",
}

// findUnifiedMemory reports that the driver moves pages of unified memory. The finding claims the time in which only
// migrations run, because prefetched pages would move while the device computes. A recording does not show how long
// kernels wait for pages.
func (c *ruleContext) findUnifiedMemory() []analyze.Found {
	migrates := func(g int32) bool { return c.t.GPU[g].Memory == model.Migrated }
	count, total := 0, int64(0)
	bytes := map[model.Direction]int64{}
	c.eachSteadyOp(migrates, func(_ *ruleDevice, _ int32, op *model.GPU) {
		count++
		total += op.Dur()
		bytes[op.Dir] += op.Bytes
	})
	if count == 0 {
		return nil
	}
	moving, beside := map[int]model.Spans{}, map[int]model.Spans{}
	for _, d := range c.devices {
		all := d.Union(c.t, func(k int, g int32) bool { return d.counted[k] && migrates(g) }).And(d.steady)
		moving[d.Device], beside[d.Device] = all, all.And(d.Kernel)
	}
	worst := longestSpans(moving)
	if float64(worst.Total()) < leastMigration*float64(c.span) {
		return nil
	}
	alone := c.exclusiveByDevice(migrates)
	cl := c.claimGPU(func(d *ruleDevice) model.Spans { return alone[d.Device] })
	f := c.newFinding(cl, fmt.Sprintf("the driver moves pages of unified memory for %s (%s to the device, %s to the host)", c.formatPerStep(worst),
		gpuprof.FormatBytes(float64(bytes[model.H2D])/float64(c.steps)), gpuprof.FormatBytes(float64(bytes[model.D2H])/float64(c.steps))))
	f.Evidence["migrations"], f.Evidence["migration_ns"] = count, total
	f.Evidence["h2d_bytes"], f.Evidence["d2h_bytes"] = bytes[model.H2D], bytes[model.D2H]
	f.Evidence["beside_kernels_ns"], f.Evidence["alone_ns"] = longestNS(beside), longestNS(alone)
	if faults := c.t.Faults; faults != (model.PageFaults{}) {
		f.Evidence["recording_device_faults"], f.Evidence["recording_host_faults"] = faults.Device, faults.Host
	}
	f.PyTorch = "tensors on the device in place of managed memory; room on the device for what a paged optimizer (bitsandbytes) moves"
	if prefetch := prefetchToHost[c.x.Recording.Program]; prefetch != "" && bytes[model.D2H] > mostlyToHost*bytes[model.H2D] {
		f.PyTorch, f.AnyProgram = prefetch+" before the host reads; or the host's work on these data in a kernel", true
	}
	f.Caveats = append(f.Caveats, "kernels that wait for pages take longer as well: by how much, the recording does not show")
	return []analyze.Found{f}
}
