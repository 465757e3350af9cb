package op

import (
	"embed"
	"math"
	"slices"
	"sync"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
)

// The PTX of the generated products, one for each family of package tpgen.
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

// The kernels of the generated products have the arguments of tpCSRKernel, whose
// host kernel computes the same, and cover the same edges with one item; on CUDA an
// item is one warp's part of one segment, and table and constants are not read.
var (
	tpSmallKernel         = device.Kernel{Name: "tp_csr_small", Sig: "bbbbbbbbbbbii", Host: tpCSRHost, PTX: tpSmallPTX, Threads: 32, PerBlock: 1}
	tpMaceMediumKernel    = device.Kernel{Name: "tp_csr_mace_medium", Sig: "bbbbbbbbbbbii", Host: tpCSRHost, PTX: tpMaceMediumPTX, Threads: 32, PerBlock: 1}
	tpMaceLargeKernel     = device.Kernel{Name: "tp_csr_mace_large", Sig: "bbbbbbbbbbbii", Host: tpCSRHost, PTX: tpMaceLargePTX, Threads: 32, PerBlock: 1}
	tpNequipLipsKernel    = device.Kernel{Name: "tp_csr_nequip_lips", Sig: "bbbbbbbbbbbii", Host: tpCSRHost, PTX: tpNequipLipsPTX, Threads: 32, PerBlock: 1}
	tpDeepawNaturalKernel = device.Kernel{Name: "tp_csr_deepaw_natural", Sig: "bbbbbbbbbbbii", Host: tpCSRHost, PTX: tpDeepawNaturalPTX, Threads: 32, PerBlock: 1}
	tpDeepawKernel        = device.Kernel{Name: "tp_csr_deepaw", Sig: "bbbbbbbbbbbii", Host: tpCSRHost, PTX: tpDeepawPTX, Threads: 32, PerBlock: 1}
)

// generatedKernels are the kernels by family.
var generatedKernels = map[string]*device.Kernel{
	"small": &tpSmallKernel, "mace_medium": &tpMaceMediumKernel, "mace_large": &tpMaceLargeKernel,
	"nequip_lips": &tpNequipLipsKernel, "deepaw_natural": &tpDeepawNaturalKernel, "deepaw": &tpDeepawKernel,
}

// generatedProduct is a product that a generated kernel computes.
type generatedProduct struct {
	kernel *device.Kernel
	plan   *tpgen.Plan
}

// generatedProducts are all of them, by tpgen.Key. They are constants that take
// some milliseconds to make.
var generatedProducts = sync.OnceValues(func() (map[string]generatedProduct, error) {
	all := map[string]generatedProduct{}
	for _, f := range tpgen.Families() {
		for n := range f.Layers {
			plan, err := tpgen.PlanOf(f, n)
			if err != nil {
				return nil, err
			}
			all[tpgen.Key(plan.Spec.TP)] = generatedProduct{generatedKernels[f.Name], plan}
		}
	}
	return all, nil
})

// madeKernel and madeMMA are the Names of all kernels that Compile makes.
const (
	madeKernel = "tp_csr_compiled"
	madeMMA    = "tp_mma_compiled"
)

// The headers of all generated kernels.
//
//go:embed op.cuh tensorproduct.cuh tensorproduct_gen.cuh tensorproduct_mma.cuh tensorproduct_grad.cuh tensorproduct_gengrad.cuh tensorproduct_gengradx.cuh
var generatedHeaders embed.FS

// compileGenerated is the PTX of a generated source.
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

// Compile gives csr, and csr+mlp on the tensor cores, a generated kernel where the product is in no list and
// the device compiles at run time, and leaves the product as it is everywhere else. It takes seconds the
// first time on a machine. With an error csr runs on the general kernel.
func (t TensorProduct) Compile(dev device.Device) (TensorProduct, error) {
	compiler, ok := dev.(device.KernelCompiler)
	if !ok || t.General || !t.compiles() {
		return t, nil
	}
	if _, err := compiler.Compiler(); err != nil {
		return t, err
	}
	if t.onTensorCores() {
		m, err := tpgen.MakeMMA(t.TP)
		if err != nil {
			return t, gpuprof.Errorf(gpuprof.ErrUsage, "generating a tensor product: %w", err)
		}
		ptx, err := compileGenerated(compiler, m.Source)
		if err == nil {
			t.madeMMA = &mmaProduct{&device.Kernel{Name: madeMMA, Sig: tpMMASmallKernel.Sig, Host: tpMMAHost, PTX: ptx, Entry: m.Kernel, Threads: warpLanes, PerBlock: 1}, m.Warps}
		}
		return t, err
	}
	m, err := tpgen.Make(t.TP)
	if err != nil {
		return t, gpuprof.Errorf(gpuprof.ErrUsage, "generating a tensor product: %w", err)
	}
	ptx, err := compileGenerated(compiler, m.Source)
	if err == nil {
		t.made = &generatedProduct{&device.Kernel{Name: madeKernel, Sig: tpCSRKernel.Sig, Host: tpCSRHost, PTX: ptx, Entry: m.Kernel, Threads: warpLanes, PerBlock: 1}, m.Plan}
	}
	return t, err
}

// compiles says that the product would have a kernel of Compile's.
func (t TensorProduct) compiles() bool {
	if t.onTensorCores() {
		_, known := t.mma()
		return !known && t.mmaDepth()
	}
	_, known := t.known()
	return !known && t.Impl == ImplCSR
}

// generated is the product's generated kernel, if it has one and may use it: in
// csr, with the weights where that kernel reads them.
func (t TensorProduct) generated() (generatedProduct, bool) {
	if t.Impl != ImplCSR || t.General {
		return generatedProduct{}, false
	}
	g, ok := t.known()
	if !ok || !t.Packed && !g.plan.Spec.Straight() {
		return generatedProduct{}, false
	}
	return g, true
}

func (t TensorProduct) known() (generatedProduct, bool) {
	if t.made != nil {
		return *t.made, true
	}
	all, err := generatedProducts()
	if err != nil { // the list is ours, and a test goes through it
		return generatedProduct{}, false
	}
	g, ok := all[tpgen.Key(t.TP)]
	return g, ok
}

// Columns is where the weights of a product lie in a row of W and of W2: in the
// order of the instructions, or with Packed where the product's generated kernel
// reads them, if it has one, in rows that start on 16 bytes also where a library's
// product reads them as 16-bit values. Columns of no weight have to hold finite numbers.
func (t TensorProduct) Columns() (at []int, stride int) {
	at, stride = t.TP.WeightOffsets(), t.TP.WeightNumel()
	if !t.Packed {
		return at, stride
	}
	if g, ok := t.known(); ok {
		at, stride = g.plan.Spec.Columns.At, g.plan.Spec.Columns.Stride
	}
	return at, ceilDiv(stride, packAlign) * packAlign
}

// Arrange is rows of weights, which lie in the order of the instructions, in the
// columns that the product reads. Columns of no weight are 0.
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

func (t TensorProduct) stride() int {
	_, n := t.Columns()
	return n
}

// KernelName is the kernel that computes most of the product on a device of
// blocks of threads (CUDA).
func (t TensorProduct) KernelName() string {
	switch t.Impl {
	case ImplUnfused:
		return contractKernel.Name
	case ImplFused:
		return tpFusedKernel.Name
	case ImplCSRMLP:
		if m, ok := t.mma(); ok {
			return m.kernel.Name
		}
		return tpCSRMLPKernel.Name
	}
	if g, ok := t.generated(); ok {
		return g.kernel.Name
	}
	return tpCSRKernel.Name
}

// Places of the header that a generated plan uses otherwise; see tensorproduct_gen.cuh.
const (
	planScale    = planPasses
	planLaneInts = planCells
)

// generatedPlan is the plan of a generated kernel: the header, the part's number
// of every warp, then the lanes.
func (t TensorProduct) generatedPlan(tab tpTable, g generatedProduct) tpPlan {
	const headInts = 8 // tpg_head, before M
	laneInts := 3 + g.plan.Paths
	header := make([]int32, planInts)
	for i, v := range map[int]int{planTiles: len(g.plan.Warps), planIn: t.TP.In1.Dim(), planSh: t.TP.In2.Dim(), planNumel: t.stride(), planOut: t.TP.Out.Dim(),
		planWarps: planInts, planLanes: planInts + len(g.plan.Warps), planLaneInts: laneInts, planPaths: tab.paths, planPathCells: tab.cells} {
		header[i] = int32(v)
	}
	header[planScale] = int32(math.Float32bits(float32(t.scale())))
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
