package op

import (
	"embed"
	"math"
	"slices"
	"sync"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// The PTX of the generated tensor-product kernels, one file per tpgen.Family (the layers that one kernel serves).
var (
	//go:embed tensorproduct_gen_small.ptx.zst
	tpSmallPTX string
	//go:embed tensorproduct_gen_mace_medium.ptx.zst
	tpMaceMediumPTX string
	//go:embed tensorproduct_gen_mace_large.ptx.zst
	tpMaceLargePTX string
	//go:embed tensorproduct_gen_nequip_lips.ptx.zst
	tpNequipLipsPTX string
	//go:embed tensorproduct_gen_deepaw_natural.ptx.zst
	tpDeepawNaturalPTX string
	//go:embed tensorproduct_gen_deepaw.ptx.zst
	tpDeepawPTX string
)

// The kernels of the generated products have tpCSRKernel's arguments, host kernel and assignment of edges to items. On
// CUDA an item is one warp's part of one segment, and table and constants are not read.
var (
	tpSmallKernel         = device.Typed[tpgKernelArgs](device.Kernel{Name: "tp_csr_small", Host: tpCSRHost, PTX: tpSmallPTX, Threads: 32, PerBlock: 1})
	tpMaceMediumKernel    = device.Typed[tpgKernelArgs](device.Kernel{Name: "tp_csr_mace_medium", Host: tpCSRHost, PTX: tpMaceMediumPTX, Threads: 32, PerBlock: 1})
	tpMaceLargeKernel     = device.Typed[tpgKernelArgs](device.Kernel{Name: "tp_csr_mace_large", Host: tpCSRHost, PTX: tpMaceLargePTX, Threads: 32, PerBlock: 1})
	tpNequipLipsKernel    = device.Typed[tpgKernelArgs](device.Kernel{Name: "tp_csr_nequip_lips", Host: tpCSRHost, PTX: tpNequipLipsPTX, Threads: 32, PerBlock: 1})
	tpDeepawNaturalKernel = device.Typed[tpgKernelArgs](device.Kernel{Name: "tp_csr_deepaw_natural", Host: tpCSRHost, PTX: tpDeepawNaturalPTX, Threads: 32, PerBlock: 1})
	tpDeepawKernel        = device.Typed[tpgKernelArgs](device.Kernel{Name: "tp_csr_deepaw", Host: tpCSRHost, PTX: tpDeepawPTX, Threads: 32, PerBlock: 1})
)

var generatedKernels = map[string]*device.Kernel{
	"small": &tpSmallKernel, "mace_medium": &tpMaceMediumKernel, "mace_large": &tpMaceLargeKernel,
	"nequip_lips": &tpNequipLipsKernel, "deepaw_natural": &tpDeepawNaturalKernel, "deepaw": &tpDeepawKernel,
}

// generated is the generated kernel of a product and its plan: a tpgen.Plan, a GradPlan or an XPlan.
type generated[P any] struct {
	kernel *device.Kernel
	plan   *P
}

type (
	generatedProduct = generated[tpgen.Plan]
	generatedGrad    = generated[tpgen.GradPlan] // for dw and dy
	generatedGradX   = generated[tpgen.XPlan]    // for dx
)

var (
	findProduct = findGenerated(generatedKernels, func(f tpgen.Family) int { return f.Room }, tpgen.PlanOf)
	findGrad    = findGenerated(generatedGradKernels, func(f tpgen.Family) int { return f.GradRoom }, tpgen.GradPlanOf)
	findGradX   = findGenerated(generatedGradXKernels, func(f tpgen.Family) int { return f.XRoom }, tpgen.XPlanOf)
)

// findGenerated returns a function that finds the generated kernel of a product and its plan. planOf plans layer n of
// family f. It is called only when the layer's product is first requested, because planning all layers takes 40 ms. A
// family for which room returns 0 has no kernel.
func findGenerated[P any](kernels map[string]*device.Kernel, room func(tpgen.Family) int, planOf func(f tpgen.Family, n int) (*P, error)) func(so3.TensorProduct) (generated[P], bool) {
	byKey := sync.OnceValue(func() map[string]func() (generated[P], error) { // see tpgen.Key
		all := map[string]func() (generated[P], error){}
		for _, f := range tpgen.Families() {
			for n, layer := range f.Layers {
				if tp, err := layer.Product(); err == nil && room(f) > 0 {
					all[tpgen.Key(tp)] = sync.OnceValues(func() (generated[P], error) {
						plan, err := planOf(f, n)
						return generated[P]{kernels[f.Name], plan}, err
					})
				}
			}
		}
		return all
	})
	return func(tp so3.TensorProduct) (generated[P], bool) {
		plan, ok := byKey()[tpgen.Key(tp)]
		if !ok {
			return generated[P]{}, false
		}
		g, err := plan()
		return g, err == nil // an error cannot happen: a test plans every layer
	}
}

// madeKernel is the Name of every kernel that Compile generates.
const madeKernel = "tp_csr_compiled"

// generatedHeaders are the headers that generated kernels include.
//
//go:embed op.cuh tensorproduct.cuh tensorproduct_gen.cuh tensorproduct_grad.cuh tensorproduct_gengrad.cuh tensorproduct_gengradx.cuh
var generatedHeaders embed.FS

func compileGenerated(compiler device.KernelCompiler, text string) (string, error) {
	src := device.CUDASource{Text: text, Headers: map[string]string{}}
	all, err := generatedHeaders.ReadDir(".")
	if err != nil {
		return "", err
	}
	for _, f := range all {
		header, err := generatedHeaders.ReadFile(f.Name())
		if err != nil {
			return "", err
		}
		src.Headers[f.Name()] = string(header)
	}
	return compiler.Compile(src)
}

// Compile generates a kernel for csr at run time if no family of tpgen has the product and the device has a compiler.
// The first time on a machine this takes seconds. If it generates none, or on an error, it returns t unchanged.
func (t TensorProduct) Compile(dev device.Device) (TensorProduct, error) {
	compiler, ok := dev.(device.KernelCompiler)
	if _, known := t.findGenerated(); !ok || known || t.General || t.Impl != ImplCSR {
		return t, nil
	}
	if _, err := compiler.Compiler(); err != nil {
		return t, err
	}
	m, err := tpgen.Make(t.TP)
	if err != nil {
		return t, gpuprof.Errorf(gpuprof.ErrUsage, "generating a tensor product: %w", err)
	}
	ptx, err := compileGenerated(compiler, m.Source)
	if err == nil {
		kernel := device.Typed[tpgKernelArgs](device.Kernel{Name: madeKernel, Host: tpCSRHost, PTX: ptx, Entry: m.Kernel, Threads: warpLanes, PerBlock: 1})
		t.made = &generatedProduct{&kernel, m.Plan}
	}
	return t, err
}

// generatedProduct returns the product's generated kernel, if it has one and may use it. Only csr may use it, and only
// if the weights are in the columns that the kernel reads.
func (t TensorProduct) generatedProduct() (generatedProduct, bool) {
	if t.Impl != ImplCSR || t.General {
		return generatedProduct{}, false
	}
	g, ok := t.findGenerated()
	if !ok || !t.Packed && !g.plan.Spec.Straight() {
		return generatedProduct{}, false
	}
	return g, true
}

func (t TensorProduct) findGenerated() (generatedProduct, bool) {
	if t.made != nil {
		return *t.made, true
	}
	return findProduct(t.TP)
}

// Columns returns the column at[i] where the weights of instruction i begin in a row of W and of W2, and the row's
// width. Columns follow the order of the instructions; with Packed they follow the order of the product's generated
// kernel, if there is one. The width of a packed row is a multiple of 8, so that rows start at multiples of 16 bytes
// even if a vendor library reads them as 16-bit values. Columns that belong to no instruction must hold finite numbers.
func (t TensorProduct) Columns() (at []int, stride int) {
	at, stride = t.TP.WeightOffsets(), t.TP.WeightNumel()
	if !t.Packed {
		return at, stride
	}
	if g, ok := t.findGenerated(); ok {
		at, stride = g.plan.Spec.Columns.At, g.plan.Spec.Columns.Stride
	}
	return at, ceilDiv(stride, packAlign) * packAlign
}

// Arrange copies rows of weights, in the order of the instructions, to the columns that the product reads (see
// Columns). Columns that belong to no instruction become 0.
func Arrange[T float32 | float64](t TensorProduct, rows []T) []T {
	at, stride := t.Columns()
	own, numel := t.TP.WeightOffsets(), t.TP.WeightNumel()
	if numel == 0 {
		return nil
	}
	out := make([]T, len(rows)/numel*stride)
	for r := range len(rows) / numel {
		for n, ins := range t.TP.Instructions {
			if !ins.HasWeight {
				continue
			}
			count := 1
			for _, d := range t.TP.WeightShape(n) {
				count *= d
			}
			copy(out[r*stride+at[n]:][:count], rows[r*numel+own[n]:][:count])
		}
	}
	return out
}

func (t TensorProduct) weightStride() int {
	_, n := t.Columns()
	return n
}

// KernelName returns the name of the CUDA kernel that computes most of the product.
func (t TensorProduct) KernelName() string {
	switch t.Impl {
	case ImplUnfused:
		return contractKernel.Name
	case ImplFused:
		return tpFusedKernel.Name
	}
	if g, ok := t.generatedProduct(); ok {
		return g.kernel.Name
	}
	return tpCSRKernel.Name
}

// Indices in a plan's header that have another meaning for a generated kernel; see tensorproduct_gen.cuh.
const (
	planScale    = planPasses
	planLaneInts = planCells
)

// generatedPlan returns the plan of a generated kernel: the header, then for every warp the number of its part, then
// the lanes.
func (t TensorProduct) generatedPlan(tab tpTable, g generatedProduct) tpPlan {
	const headInts = 8 // size of tpg_head, which precedes M
	laneInts := 3 + g.plan.Paths
	header := fillHeader(planInts, map[int]int{planTiles: len(g.plan.Warps), planIn: t.TP.In1.Dim(), planSh: t.TP.In2.Dim(), planNumel: t.weightStride(), planOut: t.TP.Out.Dim(),
		planWarps: planInts, planLanes: planInts + len(g.plan.Warps), planLaneInts: laneInts, planPaths: tab.paths, planPathCells: tab.cells})
	header[planScale] = int32(math.Float32bits(float32(t.scaleFactor())))
	var numbers, lanes []int32
	for _, w := range g.plan.Warps {
		numbers = append(numbers, int32(w.Number))
		for _, l := range w.Lanes {
			one := make([]int32, laneInts)
			one[0], one[1], one[2] = int32(l.X), int32(l.W), int32(l.Line)
			for i, p := range l.Places {
				one[3+i] = int32(p)
			}
			lanes = append(lanes, one...)
		}
	}
	return tpPlan{ints: slices.Concat(header, numbers, lanes), tiles: len(g.plan.Warps), threads: warpLanes,
		shared: (headInts + g.plan.Floats) * floatBytes, kernel: g.kernel}
}
