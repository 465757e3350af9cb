package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// memoryLink is a memory-bound operator that may be a link of a chain.
type memoryLink struct {
	elements, bytes float64 // of the largest operand
	traffic         float64 // bytes that one call reads and writes
}

// findMemoryChain reports chains of at least three memory-bound operators in a row on a stream, on tensors of one size.
// A fused kernel would keep the tensors between them in registers. The finding claims the time in which the kernels
// write and read these tensors.
func (c *ruleContext) findMemoryChain() []analyze.Found {
	r := c.x.Roofline
	if r == nil {
		return nil
	}
	links := c.listMemoryLinks(r)
	if len(links) == 0 {
		return nil
	}
	spare := map[int32]float64{}
	chains, saved := 0, 0.0
	for _, d := range c.devices {
		for _, stream := range c.splitStreams(d) {
			n, bytes := c.markMemoryChains(c.dropClaimed(d, stream), links, spare)
			chains, saved = chains+n, saved+bytes
		}
	}
	if chains == 0 {
		return nil
	}
	gain := c.takeShares(func(g int32) float64 { return spare[g] })
	if longestNS(gain)*100 < c.span*chainPercent {
		return nil // the rule elementwise-chain reports these kernels
	}
	c.fusedBytes = spare
	cl := c.claimByDevice(gain)
	f := c.newFinding(cl, fmt.Sprintf("%s in %s write and read again %s per step that one kernel each would keep in registers",
		analyze.Plural(len(spare), "kernel", "kernels"), analyze.Plural(chains, "chain", "chains"), gpuprof.FormatBytes(saved/float64(c.steps))))
	f.Evidence["chains"] = chains
	f.Evidence["kernels"] = len(spare)
	f.Evidence["saved_bytes"] = int64(saved)
	f.Sites = c.listProductSites(func(g int32) bool { return spare[g] > 0 })
	f.PyTorch = c.adviseFusion("it makes one kernel of operators that go element by element, and of norms with what follows them")
	f.Caveats = append(f.Caveats, "operators in a row with tensors of one size are taken to work on each other's results; what the backward pass keeps is written all the same")
	return []analyze.Found{f}
}

// listMemoryLinks returns the operators that may be links of a chain, by index in r.Operators.
func (c *ruleContext) listMemoryLinks(r *analyze.Roofline) map[int32]memoryLink {
	links := map[int32]memoryLink{}
	for i := range r.Operators {
		o := &r.Operators[i]
		if o.Bound != "memory" || o.FLOPs > 0 || strings.Contains(o.Name, "_foreach_") || strings.Contains(o.Name, "_fused_") || strings.HasPrefix(o.Kernel, "triton_") {
			continue
		}
		args, ok := opcost.Parse(c.t.ArgsOf(&model.Host{Stack: o.Key.Args}))
		if !ok {
			continue
		}
		if l := (memoryLink{traffic: o.Bytes}); l.traffic > 0 {
			if l.elements, l.bytes = args.Largest(); l.bytes > 0 {
				links[int32(i)] = l
			}
		}
	}
	return links
}

// markMemoryChains finds the chains on a stream. For each of their kernels it stores in spare the share of the time
// that fusion saves by keeping tensors in registers. It returns the number of chains and the saved bytes.
func (c *ruleContext) markMemoryChains(stream []int32, links map[int32]memoryLink, spare map[int32]float64) (chains int, saved float64) {
	rows := c.x.Roofline.Rows
	fusable := func(g int32) (memoryLink, bool) {
		l, ok := links[rows[g]]
		class := c.x.Class(g)
		return l, ok && (class == model.Elementwise || class == model.Copy || class == model.Norm || class == model.Reduction)
	}
	for lo := 0; lo < len(stream); {
		first, ok := fusable(stream[lo])
		hi := lo + 1
		for ok && hi < len(stream) {
			if l, more := fusable(stream[hi]); !more || l.elements != first.elements || c.t.GPU[stream[hi]].Name == c.t.GPU[stream[hi-1]].Name {
				break
			}
			hi++
		}
		if ok && hi-lo >= chainKernels {
			chains++
			for i, g := range stream[lo:hi] {
				l := links[rows[g]]
				sides := 2.0 // one tensor read from the previous operator, one written for the next
				if i == 0 || i == hi-lo-1 {
					sides = 1
				}
				share := min(sides*l.bytes/l.traffic, 1)
				spare[g] = share
				saved += share * l.traffic
			}
		}
		lo = hi
	}
	return chains, saved
}
