package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// hostOperatorPercent is the least share of the step that one operator must take on the host for a finding.
const hostOperatorPercent = 25

// findHostOperator reports the operator or range with the longest self time, in a recording without a device. The
// finding claims no time, because the recording does not show how much faster another implementation is.
func (c *ruleContext) findHostOperator() []analyze.Found {
	if len(c.devices) > 0 || c.findDeviceOp() != "" && !c.quality.noKernels {
		return nil
	}
	callers := map[string]bool{}
	if c.quality.noKernels {
		callers = c.listDeviceCallers()
	}
	for _, o := range c.x.OwnTimes() {
		if o.NS*100 < c.span*hostOperatorPercent {
			return nil
		}
		if callers[o.Name] {
			continue // the operator launches device work, and waits for it, that was not recorded
		}
		ofRange := o.Kind == model.Annotation
		if ofRange && !c.hasSteps() && !o.Holds && o.Count < 3 {
			continue // such a range covers all or a part of the program, and does not point to the slow code
		}
		f := c.newFinding(claim{device: -1}, c.describeHostOperator(o))
		f.Evidence["operator"], f.Evidence["calls"] = o.Name, o.Count
		f.Evidence["own_ns"], f.Evidence["own_step_ns"] = o.NS, o.NS/c.steps
		f.Evidence["own_percent"] = percent(o.NS, c.span)
		f.PyTorch, f.AnyProgram = c.adviseHostOperator(o), ofRange || c.x.Recording.Program != analyze.PyTorch
		f.Caveats = append(f.Caveats, "no time claimed: the recording does not show how much faster another implementation is")
		if ofRange && !o.Holds {
			f.Caveats = append(f.Caveats, "a range's time contains what the host waits for in it")
		}
		return []analyze.Found{f}
	}
	return nil
}

func (c *ruleContext) listDeviceCallers() map[string]bool {
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

func (c *ruleContext) describeHostOperator(o analyze.OwnTime) string {
	title := fmt.Sprintf("%s takes %s of the host's time %s (%.0f %% of it)", o.Name, gpuprof.FormatNS(o.NS/c.steps),
		analyze.PerStepWord(c.hasSteps()), percent(o.NS, c.span))
	switch {
	case o.Kind == model.Annotation && o.Holds:
		return title + ", outside the operators in it"
	case o.Kind == model.Annotation:
		return title
	}
	return title + fmt.Sprintf(", in %s", analyze.Plural(o.Count, "call", "calls"))
}

// hostOperatorKnobs are the advised changes by operator name; the first match applies.
var hostOperatorKnobs = []struct {
	name *lazyregexp.Regexp
	text string
}{
	{lazyregexp.New(`^(gloo|mpi|c10d|ucc):`), "ranks that reach it together: much of its time can be a wait for the other ranks; fewer, larger messages, and asynchronous calls (async_op=True, isend, irecv) around work that does not need their data"},
	{lazyregexp.New(`slow_conv|thnn_conv`), "a build of PyTorch with oneDNN, whose convolutions take the place of this reference implementation (torch.backends.mkldnn.is_available()); memory_format=torch.channels_last"},
	{lazyregexp.New(`batch_norm`), "model.eval() for inference, and batch norm folded into the convolution before it (torch.nn.utils.fuse_conv_bn_eval)"},
	{lazyregexp.New(`::(_?u?random_?|normal_?|uniform_?|bernoulli_?|randn?|randint|randperm|exponential_?)$`), "draw numbers once before the loop, or where they are used: torch.randn(..., device=x.device)"},
	{lazyregexp.New(`::addc(mul|div)_$`), "the optimizer with foreach=True, or fused=True where it has that: one operator for all parameters"},
	{lazyregexp.New(`conv|::(add|ba|sparse_)?b?mm$|addmv|linear|matmul|_?scaled_dot`), `16 bits where the processor computes in them (torch.autocast("cpu", dtype=torch.bfloat16)); torch.compile(model)`},
	{lazyregexp.New(`copy_|::(cat|contiguous|clone|to|index|index_select|gather)$`), "fewer copies: results written in place (out=), one dtype and one layout from end to end"},
}

func (c *ruleContext) adviseHostOperator(o analyze.OwnTime) string {
	if o.Kind == model.Annotation && o.Holds {
		return "fewer, larger operators (larger batches, loops over tensors as one operator), and less code between them; ranges of its own in it show which part takes the time"
	}
	if o.Kind == model.Annotation || c.x.Recording.Program != analyze.PyTorch {
		return "ranges inside it show which part takes the time; a recording with the device's work as well tells computing from waiting"
	}
	for i, k := range hostOperatorKnobs {
		switch {
		case !k.name.MatchString(o.Name):
		case i == 0 && c.t.World == 1:
			return "no collective calls in a job of one rank: it has no other rank to exchange data with"
		case i == 0: // without the advice to use a device: ranks wait for each other
			return k.text
		default:
			return k.text + c.adviseUnusedDevice()
		}
	}
	return "operators that pass over the same tensors joined to one: torch.compile(model); smaller pieces that stay in the processor's cache" + c.adviseUnusedDevice()
}

// adviseUnusedDevice returns an addition to the advice if the recording names a device but has no work on it.
func (c *ruleContext) adviseUnusedDevice() string {
	for i := range c.t.Devices {
		if name := c.t.Devices[i].Name; name != "" && !c.quality.noKernels {
			return "; if the program means to use the " + name + ", move the model and its inputs there, and record with ProfilerActivity.CUDA"
		}
	}
	return ""
}

var deviceOp = lazyregexp.New(`^aten::_?(cudnn|miopen|cuda)_|_cuda(_|$)|^aten::_?(flash|efficient)_attention_(forward|backward)$`)

// asksForCuDNN is an operator that recurrent layers call on every device, also on the CPU, so it does not prove a
// GPU.
const asksForCuDNN = "aten::cudnn_is_acceptable"

// findDeviceOp returns an operator that ran on a GPU without recorded device work, "" none.
func (c *ruleContext) findDeviceOp() string {
	if len(c.devices) > 0 {
		return ""
	}
	named, any := make([]bool, len(c.t.Names)), false
	for id, name := range c.t.Names {
		named[id] = deviceOp.MatchString(name) && name != asksForCuDNN
		any = any || named[id]
	}
	for i := range c.t.Host {
		if h := &c.t.Host[i]; any && h.Kind == model.Op && named[h.Name] {
			return c.t.Name(h.Name)
		}
	}
	return ""
}
