package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// mostOf is the share of calls, bytes or time from which a setting holds for the recording: below it
// the program has no one value.
const mostOf = 0.6

// settingsSeen lists the settings that the events of the steady part show. A setting without a clear
// value is left out.
func (c *ruleContext) settingsSeen() []analyze.Setting {
	var out []analyze.Setting
	for _, s := range []struct {
		name  string
		value string
		rules []string
	}{
		{"matrix products", c.productPrecision(), []string{gpuprof.RuleNoAMP, gpuprof.RuleNoTF32, gpuprof.RuleTensorCores}},
		{"data loader", c.loaderSetting(), []string{gpuprof.RuleDataloaderStall}},
		{"copies to the device", c.copySetting(), []string{gpuprof.RulePageableH2D}},
		{"kernels started by", c.launchSetting(), []string{gpuprof.RuleLaunchBound}},
		{"code", c.compilerSetting(), []string{gpuprof.RuleLaunchBound, gpuprof.RuleElementwiseChain}},
		{"optimizer", c.optimizerSetting(), []string{gpuprof.RuleOptimizerLoop}},
		{"attention", c.attentionSetting(), []string{gpuprof.RuleUnfusedAttention}},
		{"scalars read per step", c.scalarReads(), []string{gpuprof.RuleItem, gpuprof.RuleHiddenSync}},
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

// productPrecision is the precision of most of the time in matrix products and convolutions, "" unclear.
func (c *ruleContext) productPrecision() string {
	p := c.products(func(*ruleDevice) bool { return true })
	var whole int64
	by := map[string]int64{}
	for m, ns := range p.ns {
		if m.kind == matmulGEMM || m.kind == matmulConv {
			whole += ns
			by[precisionNames[m.prec]] += ns
		}
	}
	return mostly(by, whole)
}

// mostly is the value with most of the whole, "" where none has enough of it.
func mostly(by map[string]int64, whole int64) string {
	for value, n := range by {
		if float64(n) >= mostOf*float64(whole) && n > 0 {
			return value
		}
	}
	return ""
}

// loaderSetting tells whether batches are made in the program's own process, "" without a loader.
func (c *ruleContext) loaderSetting() string {
	if l := c.loaderFacts(); l != nil && l.Workers > 0 {
		return analyze.Plural(l.Workers, "worker process", "worker processes")
	}
	by, all := map[string]int64{}, int64(0)
	for i := range c.t.Host {
		if h := &c.t.Host[i]; c.is(h.Name, markLoader) && c.x.InSteady(h.Start) {
			value := "in the main process"
			if usesWorkers(c.t.Name(h.Name)) {
				value = "worker processes"
			}
			by[value]++
			all++
		}
	}
	return mostly(by, all)
}

// copySetting is the kind of host memory behind most bytes copied to the devices.
func (c *ruleContext) copySetting() string {
	by, all := map[string]int64{}, int64(0)
	c.steadyOps(anyOp, func(_ *ruleDevice, _ int32, op *model.GPU) {
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
	return mostly(by, all)
}

// launchSetting tells whether graphs start most kernels.
func (c *ruleContext) launchSetting() string {
	by, all := map[string]int64{}, int64(0)
	c.steadyOps(anyOp, func(_ *ruleDevice, _ int32, op *model.GPU) {
		switch {
		case op.Kind != model.Kernel:
			return
		case c.ofGraph(op):
			by["CUDA graphs"]++
		case op.Launch >= 0:
			by["a launch each"]++
		}
		all++
	})
	return mostly(by, all)
}

// compilerSetting tells whether a compiler made kernels of a PyTorch program.
func (c *ruleContext) compilerSetting() string {
	if c.x.Recording.Program != analyze.PyTorch {
		return ""
	}
	for _, d := range c.devices {
		for i, g := range d.Ops {
			if op := &c.t.GPU[g]; d.mine[i] && op.Kind == model.Kernel && strings.HasPrefix(c.t.Name(op.Name), "triton_") {
				return "compiled"
			}
		}
	}
	for _, name := range c.t.Names {
		if strings.HasPrefix(name, "Torch-Compiled Region") || strings.Contains(name, "CompiledFxGraph") {
			return "compiled"
		}
	}
	if len(c.devices) == 0 {
		return ""
	}
	return "eager"
}

// optimizerSetting is the implementation of PyTorch's optimizer, by its operators: "" where none is seen.
func (c *ruleContext) optimizerSetting() string {
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

// updatesParameter are the operators by which an optimizer's loop changes one parameter.
var updatesParameter = map[string]bool{"aten::add_": true, "aten::addcdiv_": true, "aten::addcmul_": true, "aten::lerp_": true}

// attentionSetting tells whether fused kernels compute attention, "" where none is seen.
func (c *ruleContext) attentionSetting() string {
	for _, d := range c.devices {
		for i, g := range d.Ops {
			if d.mine[i] && c.matmul(&c.t.GPU[g]).kind == matmulAttention {
				return "fused"
			}
		}
	}
	if roles, any := c.attentionNames(); any {
		scores := make([]bool, len(c.t.GPU))
		for _, d := range c.devices {
			for _, stream := range c.streamsOf(d) {
				if c.attentionsOf(stream, roles, scores) > 0 {
					return "single operators"
				}
			}
		}
	}
	return ""
}

// scalarReads is how many values a step reads from a device by .item() and the like, waiting for it.
func (c *ruleContext) scalarReads() string {
	if !c.stepped() || c.x.Recording.Program != analyze.PyTorch || len(c.devices) == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g", float64(len(c.owners(ownedByItem)))/float64(c.steps))
}
