package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// mostOfWork is the least share of a device's busy time that one kernel must take, mostOfTwo that two kernels must
	// take.
	mostOfWork = 0.5
	mostOfTwo  = 0.8
	// leastOfSpan is the least share of the step that the kernels must take.
	leastOfSpan = 0.05
	// The finding comes first only if the other findings claim less than the share mostAside of the step, or less than
	// the share asideOfKernel of the kernel's time. Idle time after a launch (queued) does not count in these claims.
	mostAside, asideOfKernel = 0.1, 1. / 3
)

// libraryKernel matches kernels of libraries, whose source is not the program's.
var libraryKernel = lazyregexp.New(`cutlass|cublas|cudnn|nccl|rocblas|\b(cub|thrust|at|c10)::|^(volta|turing|ampere|sm\d+|Cijk)_`)

// closureArgument matches template arguments that bring code of their own: closures, as nvcc and Clang name them.
var closureArgument = lazyregexp.New(`\blambda\b|__nv_h?dl_wrapper|\{lambda`)

// plainArgument matches numbers and built-in types in template arguments.
var plainArgument = lazyregexp.New(`\b(\d\w*|void|bool|true|false|(un)?signed|char|short|int|long|float|double|const|volatile|__restrict__|u?int\d+_t|size_t|__?half2?|__nv_\w+|c10::(Half|BFloat16|complex))\b`)

// functionKey returns the same text for instances of a template that run the same code: those that differ in numbers
// and built-in types. Frameworks such as Kokkos launch different code through one template, which gets it as an argument.
func functionKey(name string) string {
	if closureArgument.MatchString(name) {
		return name
	}
	return plainArgument.ReplaceAllString(name, "")
}

// kernelSum adds up the launches of one kernel function. Instances of a template that run the same code count as one
// function.
type kernelSum struct {
	name        string         // short name, without template arguments
	instances   []model.NameID // full names of the instances of a template
	ns          int64
	launches    int
	fewest      int64      // blocks of the smallest launch
	most        int64      // blocks of the largest launch
	sameThreads bool       // the blocks of all launches have one size
	like        *model.GPU // the longest run of the kernel
}

// findOneKernel reports that one or two kernels take most of a device's busy time, in a program that is not built on a
// deep-learning framework. The finding claims no time: the recording does not show how much faster the kernels can be.
// The advice is the command of a kernel profiler, which shows it. Other rules cover kernels that wait for unified
// memory or use only a part of the device.
func (c *ruleContext) findOneKernel() []analyze.Found {
	if c.x.ServesRequests() {
		return nil
	}
	switch c.x.Recording.Program {
	case analyze.CUDA, analyze.HIP, analyze.OpenACC, analyze.OpenMP, analyze.Julia, analyze.CuPyNumba, analyze.Triton:
	default:
		return nil
	}
	for _, d := range c.devices {
		kernels, work, moved := c.sumKernels(d)
		if len(kernels) == 0 || float64(moved) >= leastMigration*float64(c.span) {
			continue
		}
		top, ns := kernels[:1], kernels[0].ns
		if float64(ns) < mostOfWork*float64(work) && len(kernels) > 1 {
			top, ns = kernels[:2], ns+kernels[1].ns
		}
		if share := []float64{mostOfWork, mostOfTwo}[len(top)-1]; float64(ns) < share*float64(work) || float64(ns) < leastOfSpan*float64(c.span) {
			continue
		}
		k := &kernels[0]
		if libraryKernel.MatchString(c.t.Name(k.like.Name)) || d.gridFill(k.like, d.warpSize()) < notFull {
			continue
		}
		return []analyze.Found{c.describeKernel(d, top, ns, work)}
	}
	return nil
}

// sumKernels returns the kernels of a device in the steps that are not dropped, the most time first. work is the time
// of all operations, moved the time of migrations of unified memory, ns.
func (c *ruleContext) sumKernels(d *ruleDevice) (out []kernelSum, work, moved int64) {
	at, byKey := map[model.NameID]int{}, map[string]int{} // indexes in out, by full name and by functionKey
	for i, g := range d.Ops {
		op := &c.t.GPU[g]
		if !d.counted[i] {
			continue
		}
		work += op.Dur()
		if op.Memory == model.Migrated {
			moved += op.Dur()
		}
		if op.Kind != model.Kernel || op.Graph {
			continue
		}
		k, seen := at[op.Name]
		if !seen {
			full := c.t.Name(op.Name)
			key := functionKey(full)
			if k, seen = byKey[key]; !seen {
				k = len(out)
				byKey[key], out = k, append(out, kernelSum{name: analyze.ShortName(full), fewest: op.Blocks, most: op.Blocks, sameThreads: true, like: op})
			}
			at[op.Name] = k
			out[k].instances = append(out[k].instances, op.Name)
		}
		out[k].ns += op.Dur()
		out[k].launches++
		out[k].fewest, out[k].most = min(out[k].fewest, op.Blocks), max(out[k].most, op.Blocks)
		out[k].sameThreads = out[k].sameThreads && op.Threads == out[k].like.Threads
		if op.Dur() > out[k].like.Dur() {
			out[k].like = op
		}
	}
	slices.SortStableFunc(out, func(a, b kernelSum) int { return cmp.Compare(b.ns, a.ns) })
	return out, work, moved
}

func (c *ruleContext) describeKernel(d *ruleDevice, top []kernelSum, ns, work int64) analyze.Found {
	k := &top[0]
	name := k.name
	what := fmt.Sprintf("%s takes %.0f %% of the work of the device: %s in %s", name, percent(k.ns, work), c.formatMean(k.ns),
		analyze.Plural(k.launches, "launch", "launches"))
	if len(top) > 1 {
		what = fmt.Sprintf("%s and %s take %.0f %% of the work of the device, the first %s in %s", name, top[1].name, percent(ns, work),
			c.formatMean(k.ns), analyze.Plural(k.launches, "launch", "launches"))
	}
	if k.fewest > 0 && k.like.Threads > 0 {
		if k.fewest < k.most {
			what += fmt.Sprintf(", with %d to %d blocks", k.fewest, k.most)
		} else {
			what += " of " + analyze.Plural(int(k.most), "block", "blocks")
		}
		if k.sameThreads {
			what += " of " + analyze.Plural(int(k.like.Threads), "thread", "threads")
		}
	}
	r := c.t.Resources[k.like.Name]
	if r.LocalBytes > 0 {
		what += fmt.Sprintf(", with %s of local memory per thread", gpuprof.FormatBytes(float64(r.LocalBytes)))
	}
	f := c.newFinding(claim{device: -1}, what)
	claimed := c.l.Claimed(d.Device)
	aside := float64(claimed.Minus(d.Queued).Total())
	f.First = k.ns > claimed.Total() && aside < max(mostAside*float64(c.span), asideOfKernel*float64(k.ns))
	f.Evidence["kernel"], f.Evidence["launches"], f.Evidence["kernel_ns"] = name, k.launches, k.ns
	f.Evidence["work_percent"] = percent(ns, work)
	f.Evidence["blocks"], f.Evidence["threads_per_block"], f.Evidence["multiprocessors"] = k.like.Blocks, int64(k.like.Threads), d.props.SMs
	if r != (model.KernelResources{}) {
		f.Evidence["registers_per_thread"], f.Evidence["shared_bytes_per_block"], f.Evidence["local_bytes_per_thread"] = r.Registers, r.SharedBytes, r.LocalBytes
	}
	s := c.newSites("kernel")
	c.eachSteadyOp(func(g int32) bool { return slices.Contains(k.instances, c.t.GPU[g].Name) }, func(_ *ruleDevice, g int32, op *model.GPU) { s.addGPU(g, op.Dur()) })
	f.Sites = s.topSites()
	f.PyTorch, f.AnyProgram = "profile one launch of the kernel, and change what limits it", true
	f.Command = kernelCommand(name, k.launches, d.props.AMD())
	f.Caveats = append(f.Caveats, "no time claimed: the recording does not show how far the kernel is from the limits of the device; a profiler of kernels does")
	return f
}

func (c *ruleContext) formatMean(ns int64) string {
	if !c.hasSteps() {
		return gpuprof.FormatNS(ns)
	}
	return gpuprof.FormatNS(ns/c.steps) + " per step"
}

// kernelCommand returns the command that profiles one launch of a kernel: the second launch if there are several,
// because the first may include loading code.
func kernelCommand(name string, launches int, amd bool) string {
	name = name[strings.LastIndex(name, "::")+1:]
	pattern := strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '.' // any character, in a regular expression
	}, strings.Trim(name, ":.…"))
	if amd {
		return "rocprof-compute profile --name NEW --kernel " + pattern + " -- YOUR COMMAND"
	}
	skip := ""
	if launches > 1 {
		skip = "--launch-skip 1 "
	}
	return "ncu --set full --kernel-name regex:" + pattern + " " + skip + "--launch-count 1 YOUR COMMAND"
}
