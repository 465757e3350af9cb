package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// smallGrid: kernels with fewer blocks than the device has multiprocessors,
// weighted by time. It claims nothing: what more blocks would gain depends on
// how the work can be split. Communication kernels use few blocks on purpose
// and do not count.
func (c *ruleContext) smallGrid() []analyze.Found {
	type load struct {
		weighted     float64
		ns, under    int64
		kernels, few int
	}
	by := map[*ruleDevice]*load{}
	s := c.newSites("kernel")
	c.steadyOps(anyOp, func(d *ruleDevice, g int32, op *model.GPU) {
		if op.Kind != model.Kernel || op.Blocks <= 0 || d.props.SMs <= 0 || c.x.Class(g) == model.Communication {
			return
		}
		l := by[d]
		if l == nil {
			l = &load{}
			by[d] = l
		}
		l.weighted += float64(op.Dur()) * float64(op.Blocks) / float64(d.props.SMs)
		l.ns += op.Dur()
		l.kernels++
		if op.Blocks < int64(d.props.SMs) {
			l.few++
			l.under += op.Dur()
			s.gpu(g, op.Dur())
		}
	})
	for _, d := range c.devices {
		l := by[d]
		if l == nil || l.ns == 0 || l.weighted >= float64(l.ns) || float64(l.under) < analyze.LeastShare*float64(c.span) {
			continue
		}
		f := c.finding(claim{device: -1}, fmt.Sprintf("kernels are too small for the device: %.2f blocks for each of its %d multiprocessors, weighted by time", l.weighted/float64(l.ns), d.props.SMs))
		f.Evidence["blocks_per_sm"] = l.weighted / float64(l.ns)
		f.Evidence["multiprocessors"] = d.props.SMs
		f.Evidence["kernels"] = l.kernels
		f.Evidence["kernels_below_one_block_per_sm"] = l.few
		f.Evidence["kernel_ns"] = l.ns
		f.Evidence["kernel_below_one_block_per_sm_ns"] = l.under
		if len(c.devices) > 1 {
			f.Evidence["device"] = d.props.ID
		}
		f.Sites = s.top()
		f.PyTorch = "larger batches (DataLoader(..., batch_size=...)), torch.vmap or batched operators instead of a loop, torch.compile to fuse small kernels"
		f.Caveats = append(f.Caveats, "no time claimed: the gain from more blocks depends on how the work can be split; a kernel profiler shows it")
		return []analyze.Found{f}
	}
	return nil
}
