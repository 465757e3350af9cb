package rules

import (
	"fmt"
	"regexp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// hostOperatorPercent is the share of the step from which on one operator of the host is a finding.
const hostOperatorPercent = 25

// hostOperator: in a recording of the host alone, the operator or range whose own time is the
// longest. It claims nothing: how much faster another implementation is, the recording does not
// show.
func (c *ruleContext) hostOperator() []analyze.Found {
	if len(c.devices) > 0 || c.onDevice() != "" && !c.quality.noKernels {
		return nil
	}
	callers := map[string]bool{}
	if c.quality.noKernels {
		callers = c.deviceCallers()
	}
	for _, o := range c.x.OwnTimes() {
		if o.NS*100 < c.span*hostOperatorPercent {
			return nil
		}
		if callers[o.Name] {
			continue // its time is that of launches, and of waiting for work whose records were lost
		}
		ofRange := o.Kind == model.Annotation
		if ofRange && !c.stepped() && !o.Holds && o.Count < 3 {
			continue // it names the program or a part of it, and nothing tells what is slow
		}
		f := c.finding(claim{device: -1}, c.hostOperatorTitle(o))
		f.Evidence["operator"], f.Evidence["calls"] = o.Name, o.Count
		f.Evidence["own_ns"], f.Evidence["own_step_ns"] = o.NS, o.NS/c.steps
		f.Evidence["own_percent"] = percent(o.NS, c.span)
		f.PyTorch, f.AnyProgram = c.hostOperatorKnob(o), ofRange || c.x.Recording.Program != analyze.PyTorch
		f.Caveats = append(f.Caveats, "no time claimed: the recording does not show how much faster another implementation is")
		if ofRange && !o.Holds {
			f.Caveats = append(f.Caveats, "a range's time contains what the host waits for in it")
		}
		return []analyze.Found{f}
	}
	return nil
}

// deviceCallers are the names of operators and ranges in which calls of the device's runtime are made.
func (c *ruleContext) deviceCallers() map[string]bool {
	callers := map[string]bool{}
	for i := range c.t.Host {
		if c.t.Host[i].Kind != model.API {
			continue
		}
		for h := c.x.Parent(int32(i)); h >= 0; h = c.x.Parent(h) {
			callers[c.t.Name(c.t.Host[h].Name)] = true
		}
	}
	return callers
}

// hostOperatorTitle is the sentence about an operator or range and its own time.
func (c *ruleContext) hostOperatorTitle(o analyze.OwnTime) string {
	title := fmt.Sprintf("%s takes %s of the host's time %s (%.0f %% of it)", o.Name, gpuprof.FormatNS(o.NS/c.steps),
		analyze.PerStepWord(c.stepped()), percent(o.NS, c.span))
	switch {
	case o.Kind == model.Annotation && o.Holds:
		return title + ", outside the operators in it"
	case o.Kind == model.Annotation:
		return title
	}
	return title + fmt.Sprintf(", in %s", analyze.Plural(o.Count, "call", "calls"))
}

// hostOperatorKnobs are changes by the names of PyTorch's operators, the first that matches.
var hostOperatorKnobs = []struct {
	name *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`slow_conv|thnn_conv`), "a build of PyTorch with oneDNN, whose convolutions take the place of this reference implementation (torch.backends.mkldnn.is_available()); memory_format=torch.channels_last"},
	{regexp.MustCompile(`batch_norm`), "model.eval() for inference, and batch norm folded into the convolution before it (torch.nn.utils.fuse_conv_bn_eval)"},
	{regexp.MustCompile(`::(_?u?random_?|normal_?|uniform_?|bernoulli_?|randn?|randint|randperm|exponential_?)$`), "draw numbers once before the loop, or where they are used: torch.randn(..., device=x.device)"},
	{regexp.MustCompile(`::addc(mul|div)_$`), "the optimizer with foreach=True, or fused=True where it has that: one operator for all parameters"},
	{regexp.MustCompile(`conv|::(add|ba|sparse_)?b?mm$|addmv|linear|matmul|_?scaled_dot`), `16 bits where the processor computes in them (torch.autocast("cpu", dtype=torch.bfloat16)); torch.compile(model)`},
	{regexp.MustCompile(`copy_|::(cat|contiguous|clone|to|index|index_select|gather)$`), "fewer copies: results written in place (out=), one dtype and one layout from end to end"},
}

// hostOperatorKnob is what to change about an operator or range.
func (c *ruleContext) hostOperatorKnob(o analyze.OwnTime) string {
	if o.Kind == model.Annotation && o.Holds {
		return "fewer, larger operators (larger batches, loops over tensors as one operator), and less code between them; ranges of its own in it show which part takes the time"
	}
	if o.Kind == model.Annotation || c.x.Recording.Program != analyze.PyTorch {
		return "ranges inside it show which part takes the time; a recording with the device's work as well tells computing from waiting"
	}
	for _, k := range hostOperatorKnobs {
		if k.name.MatchString(o.Name) {
			return k.text + c.elsewhere()
		}
	}
	return "operators that pass over the same tensors joined to one: torch.compile(model); smaller pieces that stay in the processor's cache" + c.elsewhere()
}

// elsewhere is added to a change where the recording names a device that has no work in it.
func (c *ruleContext) elsewhere() string {
	for i := range c.t.Devices {
		if name := c.t.Devices[i].Name; name != "" && !c.quality.noKernels {
			return "; if the program means to use the " + name + ", move the model and its inputs there, and record with ProfilerActivity.CUDA"
		}
	}
	return ""
}

// deviceOp is the name of an operator that only a GPU runs.
var deviceOp = regexp.MustCompile(`^aten::_?(cudnn|miopen|cuda)_|_cuda(_|$)|^aten::_?(flash|efficient)_attention_(forward|backward)$`)

// onDevice is an operator that ran on a GPU of which nothing was recorded, "" none.
func (c *ruleContext) onDevice() string {
	if len(c.devices) > 0 {
		return ""
	}
	named, any := make([]bool, len(c.t.Names)), false
	for id, name := range c.t.Names {
		named[id] = deviceOp.MatchString(name)
		any = any || named[id]
	}
	for i := range c.t.Host {
		if h := &c.t.Host[i]; any && h.Kind == model.Op && named[h.Name] {
			return c.t.Name(h.Name)
		}
	}
	return ""
}
