package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// attentionReach is the share of the 16-bit peak that published attention kernels reach on a device.
type attentionReach struct {
	device            string // start of the device name in the data sheets
	forward, backward float64
	source            string
}

// attentionReaches lists published rates. FlashAttention-2 (arXiv:2307.08691) reaches 73 % forward and 63 % backward on
// the A100, FlashAttention-3 (arXiv:2407.08608) 75 % forward on the H100. The backward rate of FlashAttention-3 is not
// published (0).
var attentionReaches = []attentionReach{
	{"A100", 0.73, 0.63, "FlashAttention-2"},
	{"H100", 0.75, 0, "FlashAttention-3"},
	{"H200", 0.75, 0, "FlashAttention-3"},
}

// Largest gains of FlashAttention-3 over FlashAttention-2 on Hopper (arXiv:2407.08608), forward and backward.
const (
	gainForward3, gainBackward3 = 2, 1.75
	flashHead                   = 256 // largest head size of FlashAttention-2
)

// slowAttention is an attention operator for which the device has a faster kernel.
type slowAttention struct {
	of     *analyze.RooflineOperator
	spare  float64 // share of the operator's time that the faster kernel saves
	hopper bool    // the kernel is FlashAttention-2, and the device has FlashAttention-3
}

// findAttentionOffPeak reports fused 16-bit attention by a kernel that is not the fastest for the device. The finding
// claims the time that the fastest kernel would save at its published rate.
func (c *ruleContext) findAttentionOffPeak() []analyze.Found {
	r := c.x.Roofline
	if r == nil || len(c.devices) == 0 || c.isAMD(c.devices[0]) {
		return nil
	}
	reach, ok := findReach(r.Device)
	if !ok {
		return nil
	}
	slow, worst := matchOperators(r, func(o *analyze.RooflineOperator) (slowAttention, bool) { return c.checkAttention(o, &reach) })
	if worst == nil {
		return nil
	}
	cl := c.claimByDevice(c.takeShares(func(g int32) float64 { return slow[r.Rows[g]].spare }))
	f := c.newFinding(cl, fmt.Sprintf("attention runs at %.0f %% of the %s peak, by a kernel that is not the quickest for the %s (%s)",
		100*worst.of.Share(), worst.of.Precision, r.Device, analyze.ShortName(worst.of.Kernel)))
	f.Evidence["operators"] = len(slow)
	f.Evidence["peak_percent"] = 100 * worst.of.Share()
	f.Evidence["reachable_percent"] = 100 * reach.forward
	f.Sites = c.listProductSites(func(g int32) bool { return slow[r.Rows[g]].of != nil })
	if f.PyTorch = "torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION) around the call: its warning names what keeps the flash kernel away, " +
		"most often a mask where is_causal=True does"; worst.hopper {
		f.PyTorch = "torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION) around the call, or FlashAttention-3 (flash_attn_interface)"
	}
	f.Caveats = append(f.Caveats, fmt.Sprintf("the rate is the one that %s publishes for long sequences; short ones reach less", reach.source))
	return []analyze.Found{f}
}

func findReach(device string) (attentionReach, bool) {
	for _, a := range attentionReaches {
		if strings.HasPrefix(device, a.device) && !strings.Contains(device, "PCIe") {
			return a, true
		}
	}
	return attentionReach{}, false
}

// checkAttention returns an attention operator with its possible saving. It returns false if no faster kernel is known,
// or if the operator reaches the rate of the faster kernel.
func (c *ruleContext) checkAttention(o *analyze.RooflineOperator, reach *attentionReach) (slowAttention, bool) {
	if o.Bound != "compute" || o.Precision != "16-bit" || !strings.Contains(o.Name, "attention") {
		return slowAttention{}, false
	}
	share, most := reach.forward, 1.0
	backward := strings.HasSuffix(o.Name, "_backward")
	if backward {
		share = reach.backward
	}
	a := slowAttention{of: o}
	switch {
	case strings.Contains(o.Kernel, "fmha_cutlass"):
		if c.getHeadSize(o) > flashHead || share == 0 {
			return slowAttention{}, false
		}
	case reach.source == "FlashAttention-3" && (strings.Contains(o.Kernel, "flash_fwd_kernel") || strings.Contains(o.Kernel, "flash_bwd_dq_dk_dv")):
		a.hopper = true
		if most = 1 - 1/float64(gainForward3); backward {
			most = 1 - 1/gainBackward3
		}
	default:
		return slowAttention{}, false
	}
	a.spare = most
	if share > 0 {
		a.spare = min(most, 1-o.Share()/share)
	}
	return a, a.spare > 0
}

// getHeadSize returns the head size: the last dimension of the queries or keys; 0 unknown.
func (c *ruleContext) getHeadSize(o *analyze.RooflineOperator) int64 {
	args, ok := opcost.Parse(c.t.ArgsOf(&model.Host{Stack: o.Key.Args}))
	if !ok || len(args) < 2 {
		return 0
	}
	d := args[1].Dims // the keys; in the backward operator, the queries
	if len(d) == 0 {
		return 0
	}
	return d[len(d)-1]
}
