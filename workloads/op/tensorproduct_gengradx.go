package op

import (
	_ "embed"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// The PTX of the generated gradients with respect to features, one per family of package tpgen that has one.
var (
	//go:embed tensorproduct_gengradx_small.ptx.zst
	tpGradXSmallPTX string
	//go:embed tensorproduct_gengradx_mace_medium.ptx.zst
	tpGradXMaceMediumPTX string
	//go:embed tensorproduct_gengradx_mace_large.ptx.zst
	tpGradXMaceLargePTX string
)

// The generated kernels for dx have the arguments and the host kernel of tpGradXKernel, and their plan as a last
// argument. On CUDA an item is one warp's part of one segment of a node's edges, and the kernel does not read table and
// constants.
var (
	tpGradXSmallKernel      = device.Typed[tpxKernelArgs](device.Kernel{Name: "tp_gradx_small", Host: tpGradXGeneratedHost, PTX: tpGradXSmallPTX, Threads: 32, PerBlock: 1})
	tpGradXMaceMediumKernel = device.Typed[tpxKernelArgs](device.Kernel{Name: "tp_gradx_mace_medium", Host: tpGradXGeneratedHost, PTX: tpGradXMaceMediumPTX, Threads: 32, PerBlock: 1})
	tpGradXMaceLargeKernel  = device.Typed[tpxKernelArgs](device.Kernel{Name: "tp_gradx_mace_large", Host: tpGradXGeneratedHost, PTX: tpGradXMaceLargePTX, Threads: 32, PerBlock: 1})
)

var generatedGradXKernels = map[string]*device.Kernel{
	"small": &tpGradXSmallKernel, "mace_medium": &tpGradXMaceMediumKernel, "mace_large": &tpGradXMaceLargeKernel,
}

// generatedGradX returns the product's generated kernel for dx, if it has one and may use it; see generatedGrad.
func (t TensorProduct) generatedGradX() (generatedGradX, bool) {
	if t.General || t.Packed && !t.usesOwnOrder() {
		return generatedGradX{}, false
	}
	if t.madeGradX != nil {
		return *t.madeGradX, true
	}
	return findGradX(t.TP)
}

// XKernelName returns the name of the CUDA kernel that computes dx.
func (t TensorProductGrad) XKernelName() string {
	if g, ok := t.Product.generatedGradX(); ok {
		return g.kernel.Name
	}
	return tpGradXKernel.Name
}

// Indices in the header of the plan that a generated kernel of dx reads; see tensorproduct_gengradx.cuh.
const (
	gradXTiles = iota
	gradXIn
	gradXNumel
	gradXOut
	gradXScale
	gradXWarps
	gradXLanes
	gradXInts
)

func (t TensorProduct) generatedGradXPlan(g generatedGradX) []int32 {
	var warps, lanes []int32
	for _, w := range g.plan.Warps {
		warps = append(warps, int32(w.Number))
		for _, l := range w.Lanes {
			writes := int32(0)
			if l.Writes {
				writes = 1
			}
			lanes = append(lanes, int32(l.X), int32(l.W), int32(l.Z), writes)
		}
	}
	header := fillHeader(gradXInts, map[int]int{gradXTiles: len(g.plan.Warps), gradXIn: t.TP.In1.Dim(), gradXNumel: t.TP.WeightNumel(), gradXOut: t.TP.Out.Dim(),
		gradXWarps: gradXInts, gradXLanes: gradXInts + len(warps)})
	header[gradXScale] = int32(math.Float32bits(float32(t.scaleFactor())))
	return slices.Concat(header, warps, lanes)
}
