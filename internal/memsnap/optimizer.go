package memsnap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// stateLeft is the part of states in float32 that is left in 8 bits.
const stateLeft = 0.25

func optimizerState(c *caseOf) (Finding, bool) {
	sites, held := c.atPeak(OptimizerState)
	if float64(held) < highPart*float64(c.Peak.Requested) {
		return Finding{}, false
	}
	var several, small bool
	for i := range c.a.traits {
		several = several || c.a.traits[i].distributed
	}
	c.r.rows(func(a *allocation) { small = small || c.kind(a) == OptimizerState && c.a.of(a).smallStates })
	_, kept := c.atPeak(Persistent)
	f := Finding{Rule: gpuprof.RuleOptimizerState, Of: ofRequested, Sites: sites,
		Title:    fmt.Sprintf("The optimizer's state takes %s of the peak of %s.", bytesText(held), bytesText(c.Peak.Requested)),
		Evidence: map[string]any{"state_bytes_at_peak": held, "persistent_bytes_at_peak": kept}}
	shard := "torch.distributed.fsdp.fully_shard(model)  # or ZeroRedundancyOptimizer: each rank keeps its part of the state"
	switch {
	case small && !several:
		return Finding{}, false // nothing that is known saves more on one device
	case small:
		f.PyTorch, f.Caveats = shard, []string{"the file names no number of ranks, so nothing is claimed"}
		return f, true
	}
	all := c.claim(func(a *allocation, kind Category) uint32 {
		if kind == OptimizerState {
			return a.born
		}
		return never
	})
	f.ClaimBytes = min(int64((1-stateLeft)*float64(held)), all)
	f.PyTorch = fmt.Sprintf("bitsandbytes.optim.%s(model.parameters())  # or torchao: states of 8 bits", c.smallOptimizer())
	f.Caveats = []string{"the claim is three quarters of the state, as of states in 32 bits; of states in 16 bits 8 save half"}
	if several {
		f.PyTorch += "\n" + shard
	}
	return f, true
}

// smallOptimizer is the class with states of 8 bits for the optimizer whose steps are recorded.
func (c *caseOf) smallOptimizer() string {
	for _, p := range c.r.phases {
		name, _ := strings.CutPrefix(p.Name, optimizerStep)
		name, _, _ = strings.Cut(name, ".")
		if slices.Contains([]string{"Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Lion", "LARS", "LAMB"}, name) {
			return name + "8bit"
		}
	}
	return "AdamW8bit"
}

func optimizerTemporary(c *caseOf) (Finding, bool) {
	claim, held, sites := c.claimOf(OptimizerTemporary, func(a *allocation) uint32 { return a.born })
	if !c.matters(claim) {
		return Finding{}, false
	}
	fused := false // already
	c.r.rows(func(a *allocation) { fused = fused || c.kind(a) == OptimizerTemporary && c.a.of(a).fused })
	if fused {
		return Finding{}, false
	}
	return Finding{Rule: gpuprof.RuleOptimizerTemporary, Of: ofRequested, ClaimBytes: claim, Sites: sites,
		Title:    fmt.Sprintf("The peak is inside the optimizer's step, where %s are temporary.", bytesText(held)),
		Evidence: map[string]any{"temporary_bytes_at_peak": held},
		PyTorch:  "torch.optim.AdamW(params, fused=True)  # or foreach=False"}, true
}
