package op

import (
	_ "embed"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
)

// The PTX of the generated gradients with respect to weights and harmonics, one per family of package tpgen.
var (
	//go:embed tensorproduct_gengrad_small.ptx.zst
	tpGradSmallPTX string
	//go:embed tensorproduct_gengrad_mace_medium.ptx.zst
	tpGradMaceMediumPTX string
	//go:embed tensorproduct_gengrad_mace_large.ptx.zst
	tpGradMaceLargePTX string
	//go:embed tensorproduct_gengrad_nequip_lips.ptx.zst
	tpGradNequipLipsPTX string
	//go:embed tensorproduct_gengrad_deepaw_natural.ptx.zst
	tpGradDeepawNaturalPTX string
	//go:embed tensorproduct_gengrad_deepaw.ptx.zst
	tpGradDeepawPTX string
)

// The generated kernels for dw and dy have the arguments of tpGradKernel, then plan, partial, edges and segment. An
// item is a segment of edges, on CUDA one warp's part of it. The host kernel writes dy. The CUDA kernel does not use
// dy, table and constants: a warp writes its share of dy to partial, and tpGradDYKernel adds the shares.
var (
	tpGradSmallKernel         = device.Typed[tpdKernelArgs](device.Kernel{Name: "tp_grad_small", Host: tpGradGeneratedHost, PTX: tpGradSmallPTX, Threads: 32, PerBlock: 1})
	tpGradMaceMediumKernel    = device.Typed[tpdKernelArgs](device.Kernel{Name: "tp_grad_mace_medium", Host: tpGradGeneratedHost, PTX: tpGradMaceMediumPTX, Threads: 32, PerBlock: 1})
	tpGradMaceLargeKernel     = device.Typed[tpdKernelArgs](device.Kernel{Name: "tp_grad_mace_large", Host: tpGradGeneratedHost, PTX: tpGradMaceLargePTX, Threads: 32, PerBlock: 1})
	tpGradNequipLipsKernel    = device.Typed[tpdKernelArgs](device.Kernel{Name: "tp_grad_nequip_lips", Host: tpGradGeneratedHost, PTX: tpGradNequipLipsPTX, Threads: 32, PerBlock: 1})
	tpGradDeepawNaturalKernel = device.Typed[tpdKernelArgs](device.Kernel{Name: "tp_grad_deepaw_natural", Host: tpGradGeneratedHost, PTX: tpGradDeepawNaturalPTX, Threads: 32, PerBlock: 1})
	tpGradDeepawKernel        = device.Typed[tpdKernelArgs](device.Kernel{Name: "tp_grad_deepaw", Host: tpGradGeneratedHost, PTX: tpGradDeepawPTX, Threads: 32, PerBlock: 1})
)

// One item of tpGradDYKernel is one value of dy. It adds the columns of a row of partial that belong to the value, in
// the order of the plan.
var tpGradDYKernel = device.Typed[tpGradDyArgs](device.Kernel{Name: "tp_grad_dy", Host: tpGradDYHost, Grain: 256, PTX: tpGradPTX, Threads: 128, PerBlock: 128})

var generatedGradKernels = map[string]*device.Kernel{
	"small": &tpGradSmallKernel, "mace_medium": &tpGradMaceMediumKernel, "mace_large": &tpGradMaceLargeKernel,
	"nequip_lips": &tpGradNequipLipsKernel, "deepaw_natural": &tpGradDeepawNaturalKernel, "deepaw": &tpGradDeepawKernel,
}

// generatedGrad returns the product's generated kernel for dw and dy, which needs weights in the product's own order.
func (t TensorProduct) generatedGrad() (generatedGrad, bool) {
	if t.General || t.Packed && !t.usesOwnOrder() {
		return generatedGrad{}, false
	}
	if t.madeGrad != nil {
		return *t.madeGrad, true
	}
	return findGrad(t.TP)
}

// usesOwnOrder reports whether the weights are in the order of the instructions, without gaps.
func (t TensorProduct) usesOwnOrder() bool {
	at, stride := t.Columns()
	return stride == t.TP.WeightNumel() && slices.Equal(at, t.TP.WeightOffsets())
}

// KernelName returns the name of the CUDA kernel that computes dw and dy.
func (t TensorProductGrad) KernelName() string {
	if g, ok := t.Product.generatedGrad(); ok {
		return g.kernel.Name
	}
	return tpGradKernel.Name
}

// Names of the kernels that CompileGrad generates: for dw and dy, and for dx.
const (
	madeGradKernel  = "tp_grad_compiled"
	madeGradXKernel = "tp_gradx_compiled"
)

// CompileGrad generates kernels for the product's gradients at run time, as Compile does for the product. It generates
// a kernel for dw and dy and, if the argument dx is set, one for dx. A kernel for dx exists only if no two blocks of
// features agree in degree and multiplicity. After an error the gradients use the general kernels.
func (t TensorProduct) CompileGrad(dev device.Device, dx bool) (TensorProduct, error) {
	compiler, ok := dev.(device.KernelCompiler)
	if !ok || t.General || t.Packed && !t.usesOwnOrder() {
		return t, nil
	}
	_, known := t.generatedGrad()
	var features *tpgen.Made[tpgen.XPlan] // nil if the kernel exists, is not requested, or cannot be generated
	if _, knownX := t.generatedGradX(); dx && !knownX {
		features, _ = tpgen.MakeX(t.TP)
	}
	if known && features == nil {
		return t, nil
	}
	if _, err := compiler.Compiler(); err != nil {
		return t, err
	}
	if !known {
		m, err := tpgen.MakeGrad(t.TP)
		if err != nil {
			return t, gpuprof.Errorf(gpuprof.ErrUsage, "generating the gradients of a tensor product: %w", err)
		}
		ptx, err := compileGenerated(compiler, m.Source)
		if err != nil {
			return t, err
		}
		kernel := device.Typed[tpdKernelArgs](device.Kernel{Name: madeGradKernel, Host: tpGradGeneratedHost, PTX: ptx, Entry: m.Kernel, Threads: warpLanes, PerBlock: 1})
		t.madeGrad = &generatedGrad{&kernel, m.Plan}
	}
	if features == nil {
		return t, nil
	}
	ptx, err := compileGenerated(compiler, features.Source)
	if err != nil {
		return t, err
	}
	kernel := device.Typed[tpxKernelArgs](device.Kernel{Name: madeGradXKernel, Host: tpGradXGeneratedHost, PTX: ptx, Entry: features.Kernel, Threads: warpLanes, PerBlock: 1})
	t.madeGradX = &generatedGradX{&kernel, features.Plan}
	return t, nil
}

// Indices in the header of the plan that a generated kernel of dw and dy reads; see tensorproduct_gengrad.cuh.
const (
	gradTiles = iota
	gradIn
	gradSh
	gradNumel
	gradOut
	gradScale
	gradColumns
	gradLaneInts
	gradPaths
	gradWarps
	gradLanes
	gradStarts
	gradLists
	gradInts
)

// gradSegment is the maximum number of edges of an item. The kernel computes no sum over edges, so a segment may end
// anywhere. Short segments shorten the last wave of blocks, but read the dz of a row more often.
const gradSegment = 64

const gradLanePlaces = 4

// generatedGradPlan returns the plan's integers: header, warps and lanes, then for every harmonic the columns of
// partial that add to its dy.
func (t TensorProduct) generatedGradPlan(g generatedGrad) []int32 {
	laneInts := gradLanePlaces + 2*g.plan.Paths
	sh := t.TP.In2.Dim()
	of := make([][]int32, sh)
	var warps, lanes, starts, lists []int32
	for _, w := range g.plan.Warps {
		warps = append(warps, int32(w.Number), int32(w.At))
		for c, j := range w.Harmonics {
			of[j] = append(of[j], int32(w.At+c))
		}
		for _, l := range w.Lanes {
			one := make([]int32, laneInts)
			one[0], one[1], one[2] = int32(l.X), int32(l.W), int32(l.Line)
			for i, p := range l.Places {
				if one[gradLanePlaces+i] = int32(p); p >= 0 {
					one[3] |= 1 << i
				}
				one[gradLanePlaces+g.plan.Paths+i] = int32(l.Weights[i])
			}
			lanes = append(lanes, one...)
		}
	}
	for _, columns := range of {
		starts = append(starts, int32(len(lists)))
		lists = append(lists, columns...)
	}
	starts = append(starts, int32(len(lists)))
	at := gradInts
	header := fillHeader(gradInts, map[int]int{gradTiles: len(g.plan.Warps), gradIn: t.TP.In1.Dim(), gradSh: sh, gradNumel: t.TP.WeightNumel(), gradOut: t.TP.Out.Dim(),
		gradColumns: g.plan.Columns, gradLaneInts: laneInts, gradPaths: g.plan.Paths, gradWarps: at, gradLanes: at + len(warps),
		gradStarts: at + len(warps) + len(lanes), gradLists: at + len(warps) + len(lanes) + len(starts)})
	header[gradScale] = int32(math.Float32bits(float32(t.scaleFactor())))
	return slices.Concat(header, warps, lanes, starts, lists)
}

func partialWords(g generatedGrad, edgeCap int, dy bool) int64 {
	if !dy {
		return 0
	}
	return int64(edgeCap) * int64(g.plan.Columns)
}

func (k *binder) tpGradGenerated(t TensorProductGrad, g generatedGrad, cost rate, x, w, dout, table, constants device.Buffer, b TPGradBuffers, dw, dy device.Buffer, what int) {
	p := t.Product
	sh, columns := p.TP.In2.Dim(), g.plan.Columns
	plan, partial := k.uploadInts(p.generatedGradPlan(g)), k.allocateScratch(partialWords(g, k.b.capacity, what&gradY != 0))
	segment := min(p.segmentLength(), gradSegment)
	segments := items{perEdge: 1, per: segment, times: len(g.plan.Warps)}
	k.addLaunch(withShared(g.kernel, g.plan.Floats*floatBytes), segments, cost, tpdKernelArgs{
		x: x, y: b.Y, w: w, dout: dout, src: b.Src, dst: b.Dst, dw: dw, dy: dy, table: table, constants: constants,
		what: what, plan: plan, partial: partial, edges: edgeCount, segment: segment,
	})
	if what&gradY != 0 {
		k.addLaunch(&tpGradDYKernel, items{perEdge: sh}, rate{perEdge: Moved(columns, columns, sh)}, tpGradDyArgs{
			partial: partial, plan: plan, dy: dy, what: what, columns: columns, sh: sh, count: itemCount,
		})
	}
}

func tpGradGeneratedHost(args *device.Args, lo, hi int) {
	a := device.View[tpdKernelView](args)
	edges, segment := a.edges.Int(), a.segment.Int()
	tpGrad(&tpGradView{
		x: a.x, y: a.y, w: a.w, dout: a.dout, src: a.src, dst: a.dst, dw: a.dw, dy: a.dy, plan: a.table, constants: a.constants, what: a.what,
	}, min(lo*segment, edges), min(hi*segment, edges))
}

func tpGradDYHost(args *device.Args, lo, hi int) {
	a := device.View[tpGradDyView](args)
	partial, plan, dy, what, columns, sh := a.partial.Floats(), a.plan.Ints(), a.dy.Floats(), a.what.Int(), a.columns.Int(), a.sh.Int()
	starts, lists := plan[plan[gradStarts]:], plan[plan[gradLists]:]
	for i := lo; i < hi; i++ {
		row, j, sum := partial[i/sh*columns:], i%sh, float32(0)
		for _, c := range lists[starts[j]:starts[j+1]] {
			sum += row[c]
		}
		if what&gradAddY != 0 {
			sum += dy[i]
		}
		dy[i] = sum
	}
}
