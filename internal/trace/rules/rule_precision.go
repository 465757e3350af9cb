package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// tensorGain is the largest gain of tensor cores over ordinary cores. The rate with TF32 is at most eight times as
	// high (A100: 156 against 19.5 TF/s), with 16 bits sixteen times, and 16-bit operands need half the bytes. Eight is
	// the bound for both, because memory and other work keep programs below sixteen.
	tensorGain = 8
	// halfGain is the gain from TF32 to 16 bits: double rate, half the bytes.
	halfGain = 2
	// smallTF32Gain and smallHalfGain are the largest gains on smaller chips (compute capability 8.6, 8.9 and 12). An
	// L40S has 183 TF/s in TF32, 362 in 16 bits and 91.6 in FP32. geForceTF32Gain and geForceHalfGain are for a GeForce
	// with one of these chips, which has half the tensor rates if it sums in FP32: an RTX 4090 has 82.6, 165 and 82.6
	// TF/s.
	smallTF32Gain, smallHalfGain     = 2, 4
	geForceTF32Gain, geForceHalfGain = 1, 2
)

// isAMD reports whether a device is from AMD, by its name, or without a name by calls of the HIP runtime.
func (c *ruleContext) isAMD(d *ruleDevice) bool {
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

var instinct = lazyregexp.New(`MI([1-9]\d\d)`)

// getHalfRate returns the largest ratio of 16-bit to FP32 product rates, 0 if unknown or without 16-bit cores. Matrix
// cores in AMD's data sheets: 1307 to 163 TF/s (MI300X), 383 to 96 (MI250X), 185 to 46 (MI100).
func (c *ruleContext) getHalfRate(d *ruleDevice) int64 {
	m := instinct.FindStringSubmatch(d.props.Name)
	switch {
	case c.isSmallGeForce(d):
		return geForceHalfGain
	case isSmallChip(c.getCapability(d)):
		return smallHalfGain
	case c.getCapability(d) >= 70:
		return tensorGain
	case m == nil || !c.isAMD(d):
		return 0
	case m[1] >= "300":
		return tensorGain
	}
	return 4
}

func (c *ruleContext) getTF32Rate(d *ruleDevice) int64 {
	switch {
	case c.isSmallGeForce(d):
		return geForceTF32Gain
	case isSmallChip(c.getCapability(d)):
		return smallTF32Gain
	}
	return tensorGain
}

func (c *ruleContext) isSmallGeForce(d *ruleDevice) bool {
	return isSmallChip(c.getCapability(d)) && strings.Contains(d.props.Name, "GeForce")
}

// isSmallChip reports whether chips of a compute capability have small tensor cores, with a lower gain over ordinary
// cores: GA10x, AD10x, GB20x.
func isSmallChip(capability int) bool {
	return capability == 86 || capability == 89 || capability >= 120
}

// products holds the time of matrix products and convolutions by kind and precision, ns, and their number by precision.
type products struct {
	ns    map[matmul]int64
	count map[precision]int
}

func (c *ruleContext) sumProducts(ok func(*ruleDevice) bool) products {
	p := products{map[matmul]int64{}, map[precision]int{}}
	ns, count := make([]int64, len(c.names)), make([]int, len(c.names))
	c.eachSteadyOp(anyOperation, func(d *ruleDevice, _ int32, op *model.GPU) {
		if m := c.getMatmul(op); m.kind != notMatmul && ok(d) {
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

func (c *ruleContext) getMatmul(op *model.GPU) matmul {
	if op.Kind != model.Kernel || int(op.Name) >= len(c.names) {
		return matmul{}
	}
	return c.names[op.Name].matmul
}

func (p *products) precisionNS(prec precision) int64 {
	return p.ns[matmul{matmulGEMM, prec}] + p.ns[matmul{matmulConv, prec}]
}

func (c *ruleContext) isProduct(g int32, precs ...precision) bool {
	m := c.getMatmul(&c.t.GPU[g])
	return (m.kind == matmulGEMM || m.kind == matmulConv) && slices.Contains(precs, m.prec)
}

// findNoTF32 reports FP32 matrix products, or FP32 convolutions, on ordinary cores of a device with TF32 (compute
// capability 8.0 or later), if none of this kind uses TF32: PyTorch enables TF32 separately for both kinds. The finding
// claims at most seven eighths of the time in which only these kernels run, half on chips with small tensor cores. On a
// GeForce with one of them TF32 is no faster than FP32, so only 16 bits save time (findNoAMP).
func (c *ruleContext) findNoTF32() []analyze.Found {
	able := func(d *ruleDevice) bool { return c.getCapability(d) >= 80 && c.getTF32Rate(d) > 1 }
	p := c.sumProducts(able)
	refused := func(kind matmulKind) bool {
		return p.ns[matmul{kind, precFP32}] > 0 && p.ns[matmul{kind, precTF32}] == 0
	}
	gemm, conv := refused(matmulGEMM), refused(matmulConv)
	if !gemm && !conv {
		return nil
	}
	pick := func(g int32) bool {
		m := c.getMatmul(&c.t.GPU[g])
		return m.prec == precFP32 && (m.kind == matmulGEMM && gemm || m.kind == matmulConv && conv)
	}
	exposed := c.exclusiveByDevice(pick)
	best := int64(smallTF32Gain)
	cl := c.claimGPU(func(d *ruleDevice) model.Spans {
		if !able(d) {
			return nil
		}
		e, rate := exposed[d.Device], c.getTF32Rate(d)
		best = max(best, rate)
		return e.First(e.Total() * (rate - 1) / rate)
	})
	c.tf32NS = cl.ns
	f := c.newFinding(cl, fmt.Sprintf("FP32 %s run on the ordinary cores for %s although the device has TF32", nameProducts(gemm, conv), c.formatPerStep(c.runningTime(pick))))
	kernels := 0
	c.eachSteadyOp(pick, func(*ruleDevice, int32, *model.GPU) { kernels++ })
	f.Evidence["kernels"] = kernels
	f.Evidence["gemm_ns"] = p.ns[matmul{matmulGEMM, precFP32}]
	f.Evidence["conv_ns"] = p.ns[matmul{matmulConv, precFP32}]
	f.Evidence["tf32_ns"] = p.precisionNS(precTF32)
	f.Evidence["exposed_ns"] = longestNS(exposed)
	f.Sites = c.listGPUSites(pick)
	f.PyTorch = adviseTF32(gemm, conv)
	f.Caveats = append(f.Caveats, fmt.Sprintf("TF32 keeps 10 bits of the significand: check the result against FP32; the bound is the largest ratio of peak rates of chips of this kind (%d), products limited by memory gain less", best))
	if p.precisionNS(precTF32) > 0 {
		f.Caveats = append(f.Caveats, "other products of this trace use TF32 already: PyTorch allows it for matrix products and for convolutions apart")
	}
	f.Caveats = append(f.Caveats, c.getArchCaveat()...)
	return []analyze.Found{f}
}

func nameProducts(gemm, conv bool) string {
	switch {
	case !conv:
		return "matrix products"
	case !gemm:
		return "convolutions"
	}
	return "matrix products and convolutions"
}

func adviseTF32(gemm, conv bool) string {
	const forGEMM, forConv = `torch.set_float32_matmul_precision("high")`, "torch.backends.cudnn.allow_tf32 = True"
	switch {
	case !conv:
		return forGEMM
	case !gemm:
		return forConv
	}
	return forGEMM + "; " + forConv
}

// precisionText names the precisions of products by their times, ns.
func precisionText(fp32, tf32 int64) string {
	switch {
	case tf32 == 0:
		return "FP32"
	case fp32 == 0:
		return "TF32"
	}
	return "FP32 and TF32"
}

// findNoAMP reports FP32 matrix products and convolutions of a program that computes none in 16 bits, on a device with
// 16-bit tensor cores (from compute capability 7.0 or AMD Instinct MI100 on). The finding claims half of the time of
// TF32 products, and at most seven eighths of the time of products on ordinary cores. The latter is three quarters on
// MI100, MI200 and chips with small tensor cores, and half on a GeForce with one of them. Time that no-tf32 has claimed
// is subtracted.
func (c *ruleContext) findNoAMP() []analyze.Found {
	able := func(d *ruleDevice) bool { return c.getHalfRate(d) > 0 }
	p := c.sumProducts(able)
	fp32, tf := p.precisionNS(precFP32), p.precisionNS(precTF32)
	if fp32+tf == 0 || c.usesHalf() {
		return nil
	}
	amd := slices.ContainsFunc(c.devices, c.isAMD)
	if amd && p.precisionNS(precUnknown) > 0 {
		return nil // names of Composable Kernel have no type: the products may be in 16 bits
	}
	onFP32 := func(g int32) bool { return c.isProduct(g, precFP32) }
	either := func(g int32) bool { return c.isProduct(g, precFP32, precTF32) }
	plain, both := c.exclusiveByDevice(onFP32), c.exclusiveByDevice(either)
	cl := c.claimGPU(func(d *ruleDevice) model.Spans {
		if !able(d) {
			return nil
		}
		slow, all := plain[d.Device], both[d.Device]
		rate := c.getHalfRate(d)
		limit := slow.Total()*(rate-1)/rate + (all.Total()-slow.Total())*(halfGain-1)/halfGain
		taken := all.And(c.l.Claimed(d.Device))
		return all.Minus(taken).First(limit - taken.Total())
	})
	if cl.ns == 0 && c.tf32NS == 0 {
		return nil
	}
	f := c.newFinding(cl, fmt.Sprintf("matrix products and convolutions run in %s for %s, none in 16 bits", precisionText(fp32, tf), c.formatPerStep(c.runningTime(either))))
	f.Evidence["kernels"] = p.count[precFP32] + p.count[precTF32]
	f.Evidence["fp32_gemm_ns"] = p.ns[matmul{matmulGEMM, precFP32}]
	f.Evidence["fp32_conv_ns"] = p.ns[matmul{matmulConv, precFP32}]
	f.Evidence["tf32_ns"] = tf
	f.Evidence["exposed_ns"] = longestNS(both)
	f.Evidence["claimed_by_no_tf32_ns"] = c.tf32NS
	f.Sites = c.listGPUSites(either)
	f.PyTorch = c.getAutocastLine(amd)
	check := "result"
	if c.isTraining() {
		check = "loss"
	}
	if cl.ns == 0 && c.tf32NS > 0 {
		f.Caveats = append(f.Caveats, "no-tf32 claims this time already; 16 bits are the other way to save it")
	}
	if fp32 > 0 && slices.ContainsFunc(c.devices, c.isSmallGeForce) {
		f.Caveats = append(f.Caveats, "on a GeForce the peak rates of TF32 and FP32 are equal: 16 bits have twice the rate")
	}
	f.Caveats = append(f.Caveats, "check the "+check+": bf16 keeps 8 bits of the significand, fp16 11 and a narrow range; casts cost time, and products limited by memory gain at most twofold")
	f.Caveats = append(f.Caveats, c.getArchCaveat()...)
	return []analyze.Found{f}
}

// getAutocastLine returns the autocast line for the recorded devices: bfloat16 from Ampere on and on AMD, before that
// float16, with a scaler for training. If the capability is unknown, the line names both types.
func (c *ruleContext) getAutocastLine(amd bool) string {
	least := math.MaxInt
	for _, d := range c.devices {
		least = min(least, c.getCapability(d))
	}
	scaler := ""
	if c.isTraining() {
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

// usesHalf reports whether anything ran in 16 bits or fewer on tensor cores.
func (c *ruleContext) usesHalf() bool {
	for i := range c.t.GPU {
		if m := c.getMatmul(&c.t.GPU[i]); m.prec == precHalf || m.prec == precFP8 {
			return true
		}
	}
	return false
}

func (c *ruleContext) listGPUSites(pick func(g int32) bool) []gpuprof.Site {
	s := c.newSites("kernel")
	c.eachSteadyOp(pick, func(_ *ruleDevice, g int32, op *model.GPU) { s.addGPU(g, op.Dur()) })
	return s.topSites()
}
