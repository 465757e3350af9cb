package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// tensorCores: a program that computes in 16 bits on tensor cores, or means to,
// and whose products nevertheless run on the ordinary cores in part: operands in
// 16 bits whose sizes the tensor cores do not take, and products left in FP32. It
// claims at most seven eighths of those that nothing else overlaps, less what the
// rules before took.
func (c *ruleContext) tensorCores() []analyze.Found {
	able := func(d *ruleDevice) bool { return c.capability(d) >= 70 } // the names of AMD's kernels do not tell which cores compute FP32
	p := c.products(able)
	half, odd, full := p.of(precHalf)+p.of(precFP8), p.of(precHalfSIMT), p.of(precFP32)
	if half+odd == 0 || odd+full == 0 {
		return nil
	}
	pick := func(g int32) bool { return c.isProduct(g, precHalfSIMT, precFP32) }
	exposed := c.exclusives(pick)
	cl := c.claimGPU(func(d *ruleDevice) model.Spans {
		if !able(d) {
			return nil
		}
		free := exposed[d.Device].Minus(c.l.Claimed(d.Device))
		return free.First(free.Total() * (tensorGain - 1) / tensorGain)
	})
	share := percent(half, half+odd+full)
	f := c.finding(cl, fmt.Sprintf("matrix products and convolutions use tensor cores for %.0f %% of their own time and the ordinary cores for the rest (%s)", share, c.perStep(c.under(pick))))
	f.Evidence["tensor_core_ns"] = half
	f.Evidence["ordinary_16_bit_ns"] = odd
	f.Evidence["ordinary_fp32_ns"] = full
	f.Evidence["tensor_core_percent"] = share
	f.Evidence["exposed_ns"] = most(exposed)
	f.Sites = c.productSites(pick)
	f.PyTorch = "pad sizes to multiples of 8 (channels, features, vocabulary, batch), and keep the products named above inside autocast"
	if odd == 0 {
		f.PyTorch = `put the products named above inside torch.autocast("cuda", dtype=torch.bfloat16): they run in FP32`
	}
	f.Caveats = append(f.Caveats, "the bound is the ratio of peak rates (8): products limited by memory gain less, and padding computes more")
	f.Caveats = append(f.Caveats, c.archCaveat()...)
	return []analyze.Found{f}
}

// productSites are the places of the products that pick chooses, with the shapes
// of their operands where the profiler recorded them.
func (c *ruleContext) productSites(pick func(g int32) bool) []gpuprof.Site {
	s := c.newSites("kernel")
	c.steadyOps(pick, func(_ *ruleDevice, g int32, op *model.GPU) { s.gpuAs(g, c.shapesOf(g), op.Dur()) })
	return s.top()
}

// shapesOf is the shapes of the operands of a product, in brackets behind a
// space; "" unknown.
func (c *ruleContext) shapesOf(g int32) string {
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
