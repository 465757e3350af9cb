package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// chainKernels in a row that a compiler would make one.
	chainKernels = 3
	// chainPercent of the step is what the chains must be longer than one kernel each.
	chainPercent = 5
)

// elementwiseChain: at least three different elementwise or copying kernels in a
// row on a stream, which are taken to work on each other's results. A compiler
// makes one kernel of them that is at least as long as the longest: it claims the
// others, as far as nothing else overlaps them, and what the device needs to
// begin each. Repeats of one kernel are no chain (a loop over parameters), and
// neither are kernels that a compiler made.
func (c *ruleContext) elementwiseChain() []analyze.Found {
	compiled := make([]bool, len(c.t.Names))
	for id, name := range c.t.Names {
		compiled[id] = strings.HasPrefix(name, "triton_")
	}
	gain, members := make([]bool, len(c.t.GPU)), make([]bool, len(c.t.GPU))
	chains, kernels := 0, 0
	for _, d := range c.devices {
		for _, stream := range c.streamsOf(d) {
			stream = c.unclaimed(d, stream)
			lo := 0
			for i := range len(stream) + 1 {
				if i < len(stream) && c.chained(stream, i, lo, compiled) {
					continue
				}
				if i-lo >= chainKernels {
					chains++
					kernels += i - lo
					c.fuse(stream[lo:i], gain, members)
				}
				lo = i
				if i < len(stream) && !c.pointwise(stream[i], compiled) {
					lo = i + 1
				}
			}
		}
	}
	if chains == 0 {
		return nil
	}
	pick := chosen(gain)
	exposed := c.exclusives(pick)
	if most(exposed)*100 < c.span*chainPercent {
		return nil
	}
	ns := int64(0)
	s := c.newSites("kernel")
	c.steadyOps(chosen(members), func(_ *ruleDevice, g int32, op *model.GPU) {
		ns += op.Dur()
		s.gpu(g, op.Dur())
	})
	cl := c.claimOps(pick, func(d *ruleDevice) model.Spans { return exposed[d.Device] })
	f := c.finding(cl, fmt.Sprintf("%s in %s could each be one (%s)", analyze.Plural(kernels, "elementwise or copying kernel", "elementwise and copying kernels"),
		analyze.Plural(chains, "chain", "chains"), c.perStep(c.under(chosen(members)))))
	f.Evidence["chains"] = chains
	f.Evidence["kernels"] = kernels
	f.Evidence["kernel_ns"] = ns
	f.Evidence["exposed_ns"] = most(exposed)
	f.Sites = s.top()
	f.PyTorch = "torch.compile(model), or only of the functions named above: it makes one kernel of operators that go element by element"
	f.Caveats = append(f.Caveats, "the claim leaves each chain its longest kernel: a result that something else reads has to be written all the same")
	return []analyze.Found{f}
}

// chained says whether the i-th operation of a stream continues the chain that
// began at lo.
func (c *ruleContext) chained(stream []int32, i, lo int, compiled []bool) bool {
	if !c.pointwise(stream[i], compiled) {
		return false
	}
	return i == lo || c.t.GPU[stream[i]].Name != c.t.GPU[stream[i-1]].Name
}

// pointwise says whether an operation goes element by element, or copies.
func (c *ruleContext) pointwise(g int32, compiled []bool) bool {
	op := &c.t.GPU[g]
	class := c.x.Class(g)
	return op.Kind == model.Kernel && (class == model.Elementwise || class == model.Copy) && !compiled[op.Name] && !c.ofGraph(op) && !c.inMemoryChain[g]
}

// unclaimed leaves out operations that another rule claims: they would not run.
func (c *ruleContext) unclaimed(d *ruleDevice, stream []int32) []int32 {
	claimed := c.l.Claimed(d.Device)
	if len(claimed) == 0 {
		return stream
	}
	return slices.DeleteFunc(stream, func(g int32) bool {
		op := &c.t.GPU[g]
		return 2*claimed.TotalIn(model.Span{Start: op.Start, End: op.End}) > op.Dur()
	})
}

// fuse marks a chain as members, and all of it but its longest kernel as gain.
func (c *ruleContext) fuse(chain []int32, gain, members []bool) {
	longest := chain[0]
	for _, g := range chain {
		members[g], gain[g] = true, true
		if c.t.GPU[g].Dur() > c.t.GPU[longest].Dur() {
			longest = g
		}
	}
	gain[longest] = false
}
