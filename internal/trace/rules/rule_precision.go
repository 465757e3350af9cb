package rules

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// Tensor cores have at most eight times the rate of the ordinary ones with
	// TF32 (A100: 156 against 19.5 TF/s) and sixteen with 16 bits; 16-bit operands
	// need half the bytes. Eight is taken as the bound of both, as memory and
	// everything around the products keep it from being reached.
	tensorGain = 8
	// From TF32 to 16 bits the rate doubles and the bytes halve.
	halfGain = 2
)

// amd says whether a device is one of AMD's: by its name, else by the calls of
// HIP's runtime, since some recordings have no name.
func (c *ruleContext) amd(d *ruleDevice) bool {
	if d.props.Name != "" {
		return d.props.AMD()
	}
	for i, f := range c.names {
		if f.what&(markLaunch|markSync) != 0 && strings.HasPrefix(c.t.Names[i], "hip") {
			return true
		}
	}
	return false
}

var instinct = regexp.MustCompile(`MI([1-9]\d\d)`)

// halfRate is how many times the rate of FP32 products those in 16 bits have at
// most; 0 unknown, or none. AMD's data sheets have for the matrix cores 1307
// against 163 TF/s (MI300X), 383 against 96 (MI250X) and 185 against 46 (MI100).
func (c *ruleContext) halfRate(d *ruleDevice) int64 {
	m := instinct.FindStringSubmatch(d.props.Name)
	switch {
	case c.capability(d) >= 70:
		return tensorGain
	case m == nil || !c.amd(d):
		return 0
	case m[1] >= "300":
		return tensorGain
	}
	return 4
}

// products adds up the matrix products of the steady part on devices ok takes.
type products struct {
	ns    map[matmul]int64
	count map[precision]int
}

func (c *ruleContext) products(ok func(*ruleDevice) bool) products {
	p := products{map[matmul]int64{}, map[precision]int{}}
	ns, count := make([]int64, len(c.names)), make([]int, len(c.names))
	c.steadyOps(anyOp, func(d *ruleDevice, _ int32, op *model.GPU) {
		if m := c.matmul(op); m.kind != notMatmul && ok(d) {
			ns[op.Name] += op.Dur()
			count[op.Name]++
		}
	})
	for name := range ns {
		m := c.names[name].matmul
		p.ns[m] += ns[name]
		p.count[m.prec] += count[name]
	}
	return p
}

func (c *ruleContext) matmul(op *model.GPU) matmul {
	if op.Kind != model.Kernel || int(op.Name) >= len(c.names) {
		return matmul{}
	}
	return c.names[op.Name].matmul
}

// of is the time in kernels of one precision.
func (p *products) of(prec precision) int64 {
	return p.ns[matmul{matmulGEMM, prec}] + p.ns[matmul{matmulConv, prec}]
}

// isProduct says whether an operation is a matrix product or convolution in
// one of the precisions.
func (c *ruleContext) isProduct(g int32, precs ...precision) bool {
	m := c.matmul(&c.t.GPU[g])
	return (m.kind == matmulGEMM || m.kind == matmulConv) && slices.Contains(precs, m.prec)
}

// noTF32: FP32 products on the ordinary cores of a device that has TF32
// (compute capability 8.0). It claims at most seven eighths of the time no
// other operation overlaps.
func (c *ruleContext) noTF32() []analyze.Found {
	able := func(d *ruleDevice) bool { return c.capability(d) >= 80 }
	p := c.products(able)
	if p.of(precFP32) == 0 {
		return nil
	}
	pick := func(g int32) bool { return c.isProduct(g, precFP32) }
	exposed := c.exclusives(pick)
	cl := c.claimGPU(func(d *ruleDevice) model.Spans {
		if !able(d) {
			return nil
		}
		e := exposed[d.Device]
		return e.First(e.Total() * (tensorGain - 1) / tensorGain)
	})
	c.tf32NS = cl.ns
	f := c.finding(cl, fmt.Sprintf("FP32 matrix products run on the ordinary cores for %s although the device has TF32", c.perStep(c.under(pick))))
	f.Evidence["kernels"] = p.count[precFP32]
	f.Evidence["gemm_ns"] = p.ns[matmul{matmulGEMM, precFP32}]
	f.Evidence["conv_ns"] = p.ns[matmul{matmulConv, precFP32}]
	f.Evidence["tf32_ns"] = p.of(precTF32)
	f.Evidence["exposed_ns"] = most(exposed)
	f.Sites = c.gpuSites(pick)
	f.PyTorch = `torch.set_float32_matmul_precision("high"); torch.backends.cudnn.allow_tf32 = True`
	f.Caveats = append(f.Caveats, "TF32 keeps 10 bits of the significand: check the result against FP32; the bound is the ratio of peak rates (8), products limited by memory gain less")
	if p.of(precTF32) > 0 {
		f.Caveats = append(f.Caveats, "other products of this trace use TF32 already: it is allowed, and for these shapes the library may still choose the ordinary cores")
	}
	f.Caveats = append(f.Caveats, c.archCaveat()...)
	return []analyze.Found{f}
}

// noAMP: FP32 products and none in 16 bits on tensor cores, on a device that
// has them (compute capability 7.0, or AMD Instinct MI100 and later). It claims at
// most seven eighths (MI100 and MI200: three quarters) of the time of products on
// the ordinary cores and half of those in TF32, less what no-tf32 took.
func (c *ruleContext) noAMP() []analyze.Found {
	able := func(d *ruleDevice) bool { return c.halfRate(d) > 0 }
	p := c.products(able)
	fp32, tf := p.of(precFP32), p.of(precTF32)
	if fp32+tf == 0 || c.hasHalf() {
		return nil
	}
	amd := slices.ContainsFunc(c.devices, c.amd)
	if amd && p.of(precUnknown) > 0 {
		return nil // composable kernels name no type: those may be in 16 bits
	}
	onFP32 := func(g int32) bool { return c.isProduct(g, precFP32) }
	either := func(g int32) bool { return c.isProduct(g, precFP32, precTF32) }
	plain, both := c.exclusives(onFP32), c.exclusives(either)
	cl := c.claimGPU(func(d *ruleDevice) model.Spans {
		if !able(d) {
			return nil
		}
		slow, all := plain[d.Device], both[d.Device]
		rate := c.halfRate(d)
		limit := slow.Total()*(rate-1)/rate + (all.Total()-slow.Total())*(halfGain-1)/halfGain
		taken := all.And(c.l.Claimed(d.Device))
		return all.Minus(taken).First(limit - taken.Total())
	})
	if cl.ns == 0 && c.tf32NS == 0 {
		return nil
	}
	f := c.finding(cl, fmt.Sprintf("matrix products and convolutions run in FP32 for %s, none in 16 bits", c.perStep(c.under(either))))
	f.Evidence["kernels"] = p.count[precFP32] + p.count[precTF32]
	f.Evidence["fp32_gemm_ns"] = p.ns[matmul{matmulGEMM, precFP32}]
	f.Evidence["fp32_conv_ns"] = p.ns[matmul{matmulConv, precFP32}]
	f.Evidence["tf32_ns"] = tf
	f.Evidence["exposed_ns"] = most(both)
	f.Evidence["claimed_by_no_tf32_ns"] = c.tf32NS
	f.Sites = c.gpuSites(either)
	f.PyTorch = c.autocastLine(amd)
	check := "result"
	if c.training() {
		check = "loss"
	}
	if cl.ns == 0 && c.tf32NS > 0 {
		f.Caveats = append(f.Caveats, "no-tf32 claims this time already; 16 bits are the other way to save it")
	}
	f.Caveats = append(f.Caveats, "check the "+check+": bf16 keeps 8 bits of the significand, fp16 11 and a narrow range; casts cost time, and products limited by memory gain at most twofold")
	f.Caveats = append(f.Caveats, c.archCaveat()...)
	return []analyze.Found{f}
}

// autocastLine is the line for the type that the recorded devices have: bfloat16 from Ampere on and on AMD's, float16
// before, with a scaler in a training. Where the capability is unknown the line has both.
func (c *ruleContext) autocastLine(amd bool) string {
	least := math.MaxInt
	for _, d := range c.devices {
		least = min(least, c.capability(d))
	}
	scaler := ""
	if c.training() {
		scaler = " with torch.amp.GradScaler"
	}
	switch {
	case amd || least >= 80:
		return `with torch.autocast("cuda", dtype=torch.bfloat16):`
	case least > 0:
		line := `with torch.autocast("cuda", dtype=torch.float16):`
		if scaler != "" {
			line += " and torch.amp.GradScaler"
		}
		return line
	}
	return `with torch.autocast("cuda", dtype=torch.bfloat16): (before Ampere dtype=torch.float16` + scaler + ")"
}

// hasHalf says whether anything in the trace ran in 16 bits (or fewer) on
// tensor cores.
func (c *ruleContext) hasHalf() bool {
	for i := range c.t.GPU {
		if m := c.matmul(&c.t.GPU[i]); m.prec == precHalf || m.prec == precFP8 {
			return true
		}
	}
	return false
}

// gpuSites are the places that launch what pick chooses.
func (c *ruleContext) gpuSites(pick func(g int32) bool) []gpuprof.Site {
	s := c.newSites("kernel")
	c.steadyOps(pick, func(_ *ruleDevice, g int32, op *model.GPU) { s.gpu(g, op.Dur()) })
	return s.top()
}
