package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// mostlyIdle: the rule claims time only if kernels fill less than this share of the device (gridFill).
	mostlyIdle = 0.5
	// notFull: kernels are reported only if they fill less than this share of the device.
	notFull = 0.8
	// Kernels that do not fill the device must take the share mostOfStep of the step for a claim. The title names a
	// single kernel if it takes the share oneKernel of their time.
	mostOfStep = 0.5
	oneKernel  = 0.8
)

// gridLoad adds up the share of a device that the grids of its kernels fill, weighted by time.
type gridLoad struct {
	warp         int32                       // threads per warp
	weighted     float64                     // sum over kernels of the filled share times the duration, ns
	ns, under    int64                       // time of all kernels, and of kernels that do not fill the device, ns
	narrow       int64                       // part of under in blocks smaller than a warp, with enough blocks, ns
	serial       int64                       // part of under in kernels of one thread, ns
	kernels, few int                         // number of all kernels, and of kernels that do not fill the device
	by           map[model.NameID]int64      // under by kernel name, ns
	like         map[model.NameID]*model.GPU // the first launch of each name in by
	alike        map[model.NameID]bool       // all launches of the name have one grid
}

// gridFill returns the share of the device that a kernel's grid can use: a block runs on one multiprocessor, and a
// thread on one lane of a warp. It is 1 if the grid or the device is unknown.
func (d *ruleDevice) gridFill(op *model.GPU, warp int32) float64 {
	if op.Blocks <= 0 || d.props.SMs <= 0 {
		return 1
	}
	full := min(1, float64(op.Blocks)/float64(d.props.SMs))
	if op.Threads > 0 {
		full *= min(1, float64(op.Threads)/float64(warp))
	}
	return full
}

func (d *ruleDevice) warpSize() int32 {
	if d.props.AMD() {
		return 64
	}
	return 32
}

// findSmallGrid reports kernels with fewer blocks than multiprocessors, or with blocks smaller than a warp. The finding
// claims the time that grids which fill the device would save, under two conditions: these kernels take most of the
// step (or isLongAlone holds), and the kernels fill on average, weighted by time, less than half of the device.
// Otherwise it claims no time, because the gain depends on how the work can be split. Communication kernels use few
// blocks on purpose and do not count.
func (c *ruleContext) findSmallGrid() []analyze.Found {
	by := map[*ruleDevice]*gridLoad{}
	s := c.newSites("kernel")
	kernel := func(g int32) bool { return c.t.GPU[g].Kind == model.Kernel && !c.x.Class(g).Communicates() }
	c.eachSteadyOp(kernel, func(d *ruleDevice, g int32, op *model.GPU) {
		if op.Blocks <= 0 || d.props.SMs <= 0 {
			return
		}
		if by[d] == nil {
			by[d] = &gridLoad{warp: d.warpSize(), by: map[model.NameID]int64{}, like: map[model.NameID]*model.GPU{}, alike: map[model.NameID]bool{}}
		}
		l := by[d]
		full := d.gridFill(op, l.warp)
		if op.Threads > 0 && op.Threads < l.warp && op.Blocks >= int64(d.props.SMs) {
			l.narrow += op.Dur()
		}
		if isSerialGrid(op) {
			l.serial += op.Dur()
		}
		if l.add(op, full); full < 1 {
			s.addGPU(g, op.Dur())
		}
	})
	for _, d := range c.devices {
		l := by[d]
		if l == nil || l.ns == 0 || l.weighted >= notFull*float64(l.ns) || float64(l.under) < analyze.LeastShare*float64(c.span) {
			continue
		}
		f := c.describeGrids(d, l, kernel)
		f.Evidence["fill"] = l.weighted / float64(l.ns)
		f.Evidence["multiprocessors"] = d.props.SMs
		f.Evidence["kernels"] = l.kernels
		f.Evidence["kernels_below_one_block_per_sm"] = l.few
		f.Evidence["kernel_ns"] = l.ns
		f.Evidence["kernel_below_one_block_per_sm_ns"] = l.under
		if len(c.devices) > 1 {
			f.Evidence["device"] = d.props.ID
		}
		f.Sites = s.topSites()
		f.PyTorch = "larger batches (DataLoader(..., batch_size=...)), torch.vmap or batched operators instead of a loop"
		if !c.isCompiled() {
			f.PyTorch += ", torch.compile to fuse small kernels"
		}
		if l.narrow*2 >= l.under {
			f.PyTorch, f.AnyProgram = fmt.Sprintf("blocks of 128 or 256 threads: a multiple of the %d that run together", l.warp), true
		} else if l.serial*2 >= l.under {
			f.PyTorch, f.AnyProgram = serialChange(c.x.Recording.Program), true
		}
		return []analyze.Found{f}
	}
	return nil
}

// serialChange returns the change for kernels that run on one thread, in the terms of the program's framework.
func serialChange(p analyze.Program) string {
	const why = "; one thread uses one lane of one multiprocessor"
	switch p {
	case analyze.OpenACC:
		return "parallel loop gang vector on the loop that the kernel runs, with independent where the compiler suspects a dependence" + why
	case analyze.OpenMP:
		return "target teams distribute parallel for on the loop that the kernel runs" + why
	}
	return "divide the work of the kernel among many blocks of 128 or 256 threads" + why
}

// longKernel: kernels of at least this mean time are too long to be small pieces of one larger grid.
const longKernel = 100_000 // ns

// isLongAlone reports whether long kernels that do not fill the device take most of its busy time, in the recording of
// a program that runs once. These kernels need not take most of the recording for a claim, because the device idles
// while the program starts and ends.
func (c *ruleContext) isLongAlone(d *ruleDevice, l *gridLoad) bool {
	return c.x.Recording.Kind == analyze.OnePass && l.few > 0 && l.under >= longKernel*int64(l.few) && float64(l.under) >= mostOfStep*float64(d.Busy.TotalAnd(d.steady))
}

func isSerialGrid(op *model.GPU) bool { return op.Blocks == 1 && op.Threads == 1 }

func (l *gridLoad) add(op *model.GPU, full float64) {
	l.weighted += float64(op.Dur()) * full
	l.ns += op.Dur()
	l.kernels++
	if full >= 1 {
		return
	}
	l.few++
	l.under += op.Dur()
	l.by[op.Name] += op.Dur()
	first := l.like[op.Name]
	if first == nil {
		l.like[op.Name], l.alike[op.Name] = op, true
	} else if first.Blocks != op.Blocks || first.Threads != op.Threads {
		l.alike[op.Name] = false
	}
}

func (c *ruleContext) describeGrids(d *ruleDevice, l *gridLoad, kernel func(g int32) bool) analyze.Found {
	cl := claim{device: -1}
	full := l.weighted / float64(l.ns)
	if full < mostlyIdle && (float64(l.under) >= mostOfStep*float64(c.span) || c.isLongAlone(d, l)) {
		cl = c.claimGPU(func(on *ruleDevice) model.Spans {
			var spans []model.Span
			warp := on.warpSize()
			c.eachSteadyOp(kernel, func(d *ruleDevice, _ int32, op *model.GPU) {
				if d == on {
					spans = append(spans, model.Span{Start: op.Start, End: op.End - int64(float64(op.Dur())*d.gridFill(op, warp))})
				}
			})
			return model.UnionOf(spans)
		})
	}
	what := fmt.Sprintf("kernels are too small for the device: they fill %s of its %d multiprocessors, weighted by time", formatCount(full*float64(d.props.SMs), 2), d.props.SMs)
	if l.serial*2 >= l.under {
		most := slices.MaxFunc(slices.Sorted(maps.Keys(l.by)), func(a, b model.NameID) int { return cmp.Compare(l.by[a], l.by[b]) })
		what = fmt.Sprintf("kernels are serial, the longest is %s: one thread runs each on a device of %d multiprocessors", analyze.ShortName(c.t.Name(most)), d.props.SMs)
	}
	for name, ns := range l.by {
		if float64(ns) < oneKernel*float64(l.under) || !l.alike[name] {
			continue
		}
		op, grid := l.like[name], ""
		if isSerialGrid(op) {
			what = fmt.Sprintf("%s is a serial kernel: one thread runs it on a device of %d multiprocessors", analyze.ShortName(c.t.Name(name)), d.props.SMs)
			break
		}
		if op.Threads > 0 {
			grid = fmt.Sprintf(" of %s", analyze.Plural(int(op.Threads), "thread", "threads"))
		}
		what = fmt.Sprintf("%s runs in %s%s on a device of %d multiprocessors", analyze.ShortName(c.t.Name(name)), analyze.Plural(int(op.Blocks), "block", "blocks"), grid, d.props.SMs)
		if op.Threads > 0 && op.Threads < l.warp {
			what += fmt.Sprintf(", whose warps have %d threads", l.warp)
		}
	}
	f := c.newFinding(cl, what)
	if f.ClaimNS > 0 {
		f.Caveats = append(f.Caveats, "the claim is what a device that the kernels fill would save: how far the work can be split, a kernel profiler shows")
	} else {
		f.Caveats = append(f.Caveats, "no time claimed: the gain from more blocks depends on how the work can be split; a kernel profiler shows it")
	}
	return f
}
