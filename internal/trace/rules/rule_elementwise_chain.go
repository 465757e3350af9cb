package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// chainKernels is the least number of kernels in a chain that a compiler would fuse.
	chainKernels = 3
	// chainPercent is the least share of the step that fusing the chains must save, %.
	chainPercent = 5
)

// findElementwiseChain reports chains of at least three different elementwise or copy kernels in a row on a stream,
// which are assumed to use each other's results. A compiler fuses a chain into one kernel, which takes at least as long
// as the longest kernel of the chain. The finding claims the time in which only the other kernels run, and their delays
// from launch to start. Repeats of one kernel and compiled kernels do not count.
func (c *ruleContext) findElementwiseChain() []analyze.Found {
	compiled := make([]bool, len(c.t.Names))
	for id, name := range c.t.Names {
		compiled[id] = strings.HasPrefix(name, "triton_")
	}
	gain, members := make([]bool, len(c.t.GPU)), make([]bool, len(c.t.GPU))
	chains, kernels := 0, 0
	for _, d := range c.devices {
		for _, stream := range c.splitStreams(d) {
			stream = c.dropClaimed(d, stream)
			lo := 0
			for i := range len(stream) + 1 {
				if i < len(stream) && c.continuesChain(stream, i, lo, compiled) {
					continue
				}
				if i-lo >= chainKernels {
					chains++
					kernels += i - lo
					c.markChain(stream[lo:i], gain, members)
				}
				lo = i
				if i < len(stream) && !c.isPointwise(stream[i], compiled) {
					lo = i + 1
				}
			}
		}
	}
	if chains == 0 {
		return nil
	}
	pick := pickMarked(gain)
	exposed := c.exclusiveByDevice(pick)
	if longestNS(exposed)*100 < c.span*chainPercent {
		return nil
	}
	ns := int64(0)
	s := c.newSites("kernel")
	c.eachSteadyOp(pickMarked(members), func(_ *ruleDevice, g int32, op *model.GPU) {
		ns += op.Dur()
		s.addGPU(g, op.Dur())
	})
	cl := c.claimOps(pick, func(d *ruleDevice) model.Spans { return exposed[d.Device] })
	f := c.newFinding(cl, fmt.Sprintf("%s in %s could each be one (%s)", analyze.Plural(kernels, "elementwise or copying kernel", "elementwise and copying kernels"),
		analyze.Plural(chains, "chain", "chains"), c.formatPerStep(c.runningTime(pickMarked(members)))))
	f.Evidence["chains"] = chains
	f.Evidence["kernels"] = kernels
	f.Evidence["kernel_ns"] = ns
	f.Evidence["exposed_ns"] = longestNS(exposed)
	f.Sites = s.topSites()
	f.PyTorch = c.adviseFusion("it makes one kernel of operators that go element by element")
	f.Caveats = append(f.Caveats, "the claim leaves each chain its longest kernel: a result that something else reads has to be written all the same")
	return []analyze.Found{f}
}

// continuesChain reports whether operation i of a stream continues the chain that began at lo. compiled marks the names
// of compiled kernels.
func (c *ruleContext) continuesChain(stream []int32, i, lo int, compiled []bool) bool {
	if !c.isPointwise(stream[i], compiled) {
		return false
	}
	return i == lo || c.t.GPU[stream[i]].Name != c.t.GPU[stream[i-1]].Name
}

// isPointwise reports whether an operation is an elementwise or copy kernel that a compiler could fuse. It must not be
// compiled, in a CUDA graph, or claimed by the rule memory-bound-chain already.
func (c *ruleContext) isPointwise(g int32, compiled []bool) bool {
	op := &c.t.GPU[g]
	class := c.x.Class(g)
	return op.Kind == model.Kernel && (class == model.Elementwise || class == model.Copy) && !compiled[op.Name] && !c.isGraphOp(op) && c.fusedBytes[g] == 0
}

// dropClaimed removes operations of which earlier findings claim more than half of the time: with the advised changes
// they would not run.
func (c *ruleContext) dropClaimed(d *ruleDevice, stream []int32) []int32 {
	claimed := c.l.Claimed(d.Device)
	if len(claimed) == 0 {
		return stream
	}
	return slices.DeleteFunc(stream, func(g int32) bool {
		op := &c.t.GPU[g]
		return 2*claimed.TotalIn(model.Span{Start: op.Start, End: op.End}) > op.Dur()
	})
}

// markChain marks all kernels of a chain in members, and all but the longest in gain.
func (c *ruleContext) markChain(chain []int32, gain, members []bool) {
	longest := chain[0]
	for _, g := range chain {
		members[g], gain[g] = true, true
		if c.t.GPU[g].Dur() > c.t.GPU[longest].Dur() {
			longest = g
		}
	}
	gain[longest] = false
}
