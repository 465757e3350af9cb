package memsnap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// stateLeft is the size of 8-bit optimizer states relative to float32 states.
const stateLeft = 0.25

func findOptimizerState(c *ruleInput) (Finding, bool) {
	sites, held := c.peakLines(OptimizerState)
	if float64(held) < highPart*float64(c.Peak.Requested) {
		return Finding{}, false
	}
	var several, small bool
	for i := range c.a.traits {
		several = several || c.a.traits[i].distributed
	}
	c.r.eachAlloc(func(a *allocation) { small = small || c.categoryOf(a) == OptimizerState && c.a.traitsOf(a).smallStates })
	_, kept := c.peakLines(Persistent)
	f := Finding{Rule: gpuprof.RuleOptimizerState, Of: ofRequested, Sites: sites,
		Title:    fmt.Sprintf("The optimizer's state takes %s of the peak of %s.", bytesText(held), bytesText(c.Peak.Requested)),
		Evidence: map[string]any{"state_bytes_at_peak": held, "persistent_bytes_at_peak": kept}}
	shard := "torch.distributed.fsdp.fully_shard(model)  # or ZeroRedundancyOptimizer: each rank keeps its part of the state"
	switch {
	case small && !several:
		return Finding{}, false // no known change saves more on one device
	case small:
		f.PyTorch, f.Caveats = shard, []string{"the file names no number of ranks, so nothing is claimed"}
		return f, true
	}
	isState := func(a *allocation) bool { return c.categoryOf(a) == OptimizerState }
	all := c.claimWithout(isState)
	c.r.eachAlloc(func(a *allocation) {
		if a.born == never && a.done == never && isState(a) { // live in the whole recording
			all += int64(a.size)
		}
	})
	f.ClaimBytes = min(int64((1-stateLeft)*float64(held)), all)
	f.PyTorch = fmt.Sprintf("bitsandbytes.optim.%s(model.parameters())  # or torchao: states of 8 bits", c.smallOptimizer())
	f.Caveats = []string{"the claim is three quarters of the state, as of states in 32 bits; of states in 16 bits 8 save half"}
	if several {
		f.PyTorch += "\n" + shard
	}
	return f, true
}

// smallOptimizer returns the class with 8-bit states for the recorded optimizer.
func (c *ruleInput) smallOptimizer() string {
	for _, p := range c.r.phases {
		name, _ := strings.CutPrefix(p.Name, optimizerStep)
		name, _, _ = strings.Cut(name, ".")
		if slices.Contains([]string{"Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Lion", "LARS", "LAMB"}, name) {
			return name + "8bit"
		}
	}
	return "AdamW8bit"
}

func findOptimizerTemporary(c *ruleInput) (Finding, bool) {
	claim, held, sites := c.categoryClaim(OptimizerTemporary, func(a *allocation) uint32 { return a.born })
	if !c.isRelevant(claim) {
		return Finding{}, false
	}
	fused := false
	c.r.eachAlloc(func(a *allocation) { fused = fused || c.categoryOf(a) == OptimizerTemporary && c.a.traitsOf(a).fused })
	if fused {
		return Finding{}, false
	}
	return Finding{Rule: gpuprof.RuleOptimizerTemporary, Of: ofRequested, ClaimBytes: claim, Sites: sites,
		Title:    fmt.Sprintf("The peak is inside the optimizer's step, where %s are temporary.", bytesText(held)),
		Evidence: map[string]any{"temporary_bytes_at_peak": held},
		PyTorch:  "torch.optim.AdamW(params, fused=True)  # or foreach=False"}, true
}
