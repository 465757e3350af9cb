package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// findTensorCores reports that a program with 16-bit operands runs part of its matrix products and convolutions on
// ordinary cores. Tensor cores do not accept the sizes, or the products are left in FP32. The finding claims at most
// seven eighths of the unclaimed time in which only these kernels run, three quarters on chips with small tensor cores.
func (c *ruleContext) findTensorCores() []analyze.Found {
	// Names of AMD's kernels do not show on which cores FP32 runs.
	able := func(d *ruleDevice) bool { return c.getCapability(d) >= 70 }
	p := c.sumProducts(able)
	half, odd, full := p.precisionNS(precHalf)+p.precisionNS(precFP8), p.precisionNS(precHalfSIMT), p.precisionNS(precFP32)
	if half+odd == 0 || odd+full == 0 {
		return nil
	}
	pick := func(g int32) bool { return c.isProduct(g, precHalfSIMT, precFP32) }
	exposed, best := c.exclusiveByDevice(pick), int64(smallHalfGain)
	cl := c.claimGPU(func(d *ruleDevice) model.Spans {
		if !able(d) {
			return nil
		}
		free, rate := exposed[d.Device].Minus(c.l.Claimed(d.Device)), c.getHalfRate(d)
		best = max(best, rate)
		return free.First(free.Total() * (rate - 1) / rate)
	})
	share := percent(half, half+odd+full)
	f := c.newFinding(cl, fmt.Sprintf("matrix products and convolutions use tensor cores for %.0f %% of their own time and the ordinary cores for the rest (%s)", share, c.formatPerStep(c.runningTime(pick))))
	f.Evidence["tensor_core_ns"] = half
	f.Evidence["ordinary_16_bit_ns"] = odd
	f.Evidence["ordinary_fp32_ns"] = full
	f.Evidence["tensor_core_percent"] = share
	f.Evidence["exposed_ns"] = longestNS(exposed)
	f.Sites = c.listProductSites(pick)
	f.PyTorch = "pad sizes to multiples of 8 (channels, features, vocabulary, batch), and keep the products named above inside autocast"
	if odd == 0 {
		f.PyTorch = `put the products named above inside torch.autocast("cuda", dtype=torch.bfloat16): they run in FP32`
	}
	f.Caveats = append(f.Caveats, fmt.Sprintf("the bound is the ratio of peak rates (%d): products limited by memory gain less, and padding computes more", best))
	f.Caveats = append(f.Caveats, c.getArchCaveat()...)
	return []analyze.Found{f}
}

// listProductSites returns the places of the products that pick accepts, with operand shapes if recorded.
func (c *ruleContext) listProductSites(pick func(g int32) bool) []gpuprof.Site {
	s := c.newSites("kernel")
	c.eachSteadyOp(pick, func(_ *ruleDevice, g int32, op *model.GPU) { s.addGPUWithSuffix(g, c.formatShapes(g), op.Dur()) })
	return s.topSites()
}

// formatShapes returns the operand shapes of a product as " (…)"; "" unknown.
func (c *ruleContext) formatShapes(g int32) string {
	h := c.x.EnclosingOp(g)
	if h < 0 || c.t.Host[h].Stack == 0 {
		return ""
	}
	stack := c.t.Host[h].Stack
	text, ok := c.shapes[stack]
	if !ok {
		if args, ok := opcost.Parse(c.t.ArgsOf(&c.t.Host[h])); ok {
			text = strings.TrimRight(" "+args.Shapes(), " ")
		}
		c.shapes[stack] = text
	}
	return text
}
