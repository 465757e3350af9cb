package rules

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// mostOf is the least share of calls, bytes or time for which a value counts as the setting of the recording.
const mostOf = 0.6

// listSettings lists the settings of the program that events show, in the steps that are not dropped. It omits settings
// without a clear value.
func (c *ruleContext) listSettings() []analyze.Setting {
	var out []analyze.Setting
	for _, s := range []struct {
		name  string
		value string
		rules []string
	}{
		{"matrix products", c.getProductPrecision(), []string{gpuprof.RuleNoAMP, gpuprof.RuleNoTF32, gpuprof.RuleTensorCores}},
		{"data loader", c.getLoaderSetting(), []string{gpuprof.RuleDataloaderStall}},
		{"copies to the device", c.getCopySetting(), []string{gpuprof.RulePageableH2D}},
		{"kernels started by", c.getLaunchSetting(), []string{gpuprof.RuleLaunchBound}},
		{"code", c.getCompilerSetting(), []string{gpuprof.RuleLaunchBound, gpuprof.RuleElementwiseChain}},
		{"optimizer", c.getOptimizerSetting(), []string{gpuprof.RuleOptimizerLoop}},
		{"attention", c.getAttentionSetting(), []string{gpuprof.RuleUnfusedAttention}},
		{"scalars read per step", c.countScalarReads(), []string{gpuprof.RuleItem, gpuprof.RuleHiddenSync}},
	} {
		if s.value != "" {
			out = append(out, analyze.Setting{Name: s.name, Value: s.value, Rules: s.rules})
		}
	}
	return out
}

var precisionNames = map[precision]string{
	precFP32: "fp32", precTF32: "tf32", precHalf: "16-bit", precHalfSIMT: "16-bit without tensor cores",
	precFP8: "fp8", precFP64: "fp64", precInt8: "int8",
}

// getProductPrecision returns the precision in which matrix products and convolutions spend most of their time, "" if
// none has a clear majority.
func (c *ruleContext) getProductPrecision() string {
	p := c.sumProducts(func(*ruleDevice) bool { return true })
	var whole int64
	by := map[string]int64{}
	for m, ns := range p.ns {
		if m.kind == matmulGEMM || m.kind == matmulConv {
			whole += ns
			by[precisionNames[m.prec]] += ns
		}
	}
	return findMajority(by, whole)
}

// findMajority returns the value whose amount in by is at least the share mostOf of whole; "" if there is none.
func findMajority(by map[string]int64, whole int64) string {
	for value, n := range by {
		if float64(n) >= mostOf*float64(whole) && n > 0 {
			return value
		}
	}
	return ""
}

// getLoaderSetting describes which processes make batches: workers or the main process; "" without a loader.
func (c *ruleContext) getLoaderSetting() string {
	if l := c.getLoaderFacts(); l != nil && l.Workers > 0 {
		return analyze.Plural(l.Workers, "worker process", "worker processes")
	}
	by, all := map[string]int64{}, int64(0)
	for i := range c.t.Host {
		if h := &c.t.Host[i]; c.nameHasMark(h.Name, markLoader) && c.x.InSteady(h.Start) {
			value := "in the main process"
			if usesWorkers(c.t.Name(h.Name)) {
				value = "worker processes"
			}
			by[value]++
			all++
		}
	}
	return findMajority(by, all)
}

// getCopySetting returns the kind of host memory from which most bytes are copied to the devices, "" if none has a
// clear majority.
func (c *ruleContext) getCopySetting() string {
	by, all := map[string]int64{}, int64(0)
	c.eachSteadyOp(anyOperation, func(_ *ruleDevice, _ int32, op *model.GPU) {
		if op.Kind != model.Memcpy || op.Dir != model.H2D {
			return
		}
		all += op.Bytes
		switch op.Memory {
		case model.Pageable:
			by["from pageable memory"] += op.Bytes
		case model.Pinned:
			by["from pinned memory"] += op.Bytes
		}
	})
	return findMajority(by, all)
}

// launchedByGraphs is the value of getLaunchSetting for programs whose kernels are nodes of CUDA graphs.
const launchedByGraphs = "CUDA graphs"

// getLaunchSetting returns how most kernels are launched, by CUDA graphs or one by one; "" if neither has a clear
// majority.
func (c *ruleContext) getLaunchSetting() string {
	by, all := map[string]int64{}, int64(0)
	c.eachSteadyOp(anyOperation, func(_ *ruleDevice, _ int32, op *model.GPU) {
		switch {
		case op.Kind != model.Kernel:
			return
		case c.isGraphOp(op):
			by[launchedByGraphs]++
		case op.Launch >= 0:
			by["a launch each"]++
		}
		all++
	})
	return findMajority(by, all)
}

// getCompilerSetting returns "compiled" or "eager" for a PyTorch program; "" if unknown or for other programs.
func (c *ruleContext) getCompilerSetting() string {
	switch {
	case c.x.Recording.Program != analyze.PyTorch:
		return ""
	case c.isCompiled():
		return "compiled"
	case len(c.devices) == 0:
		return ""
	}
	return "eager"
}

// isCompiled reports whether a part of a PyTorch program runs under torch.compile.
func (c *ruleContext) isCompiled() bool {
	triton := func(name string) bool { return strings.HasPrefix(name, "triton_") }
	if slices.ContainsFunc(c.t.Names, triton) { // most traces have no such name: their operations are not searched
		for _, d := range c.devices {
			for i, g := range d.Ops {
				if op := &c.t.GPU[g]; d.counted[i] && op.Kind == model.Kernel && triton(c.t.Name(op.Name)) {
					return true
				}
			}
		}
	}
	return slices.ContainsFunc(c.t.Names, func(name string) bool {
		return strings.HasPrefix(name, "Torch-Compiled Region") || strings.Contains(name, "CompiledFxGraph")
	})
}

// adviseFusion returns the advice for consecutive operators that one kernel could compute. why ends the advice to
// compile them. If the program uses torch.compile already, the advice is that they ran outside its compiled regions.
func (c *ruleContext) adviseFusion(why string) string {
	if c.isCompiled() {
		return "these operators inside a compiled function: the program uses torch.compile, but they ran outside its compiled regions or as calls from them (TORCH_LOGS=graph_breaks shows where regions end)"
	}
	if flag := c.adviseEngine(ruleFusion); flag != "" && c.x.ServesRequests() {
		if c.getLaunchSetting() == launchedByGraphs {
			return analyze.NoChange // the engine is not in its eager mode
		}
		return flag
	}
	return "torch.compile(model), or only of the functions that run these operators: " + why
}

// getOptimizerSetting returns the implementation of PyTorch's optimizer, from its operators; "" unknown.
func (c *ruleContext) getOptimizerSetting() string {
	found := ""
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if h.Kind != model.Op || !c.x.InSteady(h.Start) || !c.x.InOptimizer(int32(i)) {
			continue
		}
		switch name := c.t.Name(h.Name); {
		case strings.HasPrefix(name, "aten::_fused_"):
			return "fused"
		case strings.HasPrefix(name, "aten::_foreach_"):
			return "foreach"
		case updatesParameter[name]:
			found = "a loop over the parameters"
		}
	}
	return found
}

// updatesParameter holds the operators with which an optimizer loop changes one parameter.
var updatesParameter = map[string]bool{"aten::add_": true, "aten::addcdiv_": true, "aten::addcmul_": true, "aten::lerp_": true}

// getAttentionSetting returns "fused" or "single operators" for the attention of the program; "" without attention.
func (c *ruleContext) getAttentionSetting() string {
	for _, d := range c.devices {
		for i, g := range d.Ops {
			if d.counted[i] && c.getMatmul(&c.t.GPU[g]).kind == matmulAttention {
				return "fused"
			}
		}
	}
	if roles, any := c.assignAttentionRoles(); any {
		scores := make([]bool, len(c.t.GPU))
		for _, d := range c.devices {
			for _, stream := range c.splitStreams(d) {
				if c.markAttentions(stream, roles, scores) > 0 {
					return "single operators"
				}
			}
		}
	}
	return ""
}

// countScalarReads returns the number of scalars that a step reads with .item() and similar calls; "" unknown.
func (c *ruleContext) countScalarReads() string {
	if !c.hasSteps() || c.x.Recording.Program != analyze.PyTorch || len(c.devices) == 0 {
		return ""
	}
	return formatCount(float64(len(c.listOwners(ownedByItem)))/float64(c.steps), 3)
}
