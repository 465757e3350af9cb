package op

import (
	_ "embed"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
)

// The PTX of csr+mlp on the tensor cores, one for each family of tpgen.MMAFamilies.
var (
	//go:embed tensorproduct_mma_small.ptx.zst
	tpMMASmallPTX string
	//go:embed tensorproduct_mma_mace_large.ptx.zst
	tpMMAMaceLargePTX string
)

// Arguments: x, y, h, w2, src, dst, rowptr, out, partial, table, constants, plan, edges, segment, hidden, scale of
// the weights, 1 for three products of TF32. The host reads table, constants and the plan's header, CUDA the plan.
// One item is one segment, see tpCSRKernel; on CUDA one part of the output of as many segments as a block has warps.
var (
	tpMMASmallKernel     = device.Typed[tpmKernelArgs](device.Kernel{Name: "tp_mma_small", Host: tpMMAHost, PTX: tpMMASmallPTX, Threads: 256, PerBlock: 1})
	tpMMAMaceLargeKernel = device.Typed[tpmKernelArgs](device.Kernel{Name: "tp_mma_mace_large", Host: tpMMAHost, PTX: tpMMAMaceLargePTX, Threads: 256, PerBlock: 1})
)

var mmaKernels = map[string]*device.Kernel{
	"small": &tpMMASmallKernel, "mace_large": &tpMMAMaceLargeKernel,
}

// mmaProduct is a product with a kernel for the tensor cores.
type mmaProduct struct {
	kernel *device.Kernel
	warps  []tpgen.MMAWarp
}

// mmaProducts maps tpgen.Key to the products.
var mmaProducts = sync.OnceValues(func() (map[string]mmaProduct, error) {
	all := map[string]mmaProduct{}
	for _, f := range tpgen.MMAFamilies() {
		for n, l := range f.Layers {
			tp, err := l.Product()
			if err != nil {
				return nil, err
			}
			warps, err := tpgen.MMAPlan(f, n)
			if err != nil {
				return nil, err
			}
			all[tpgen.Key(tp)] = mmaProduct{mmaKernels[f.Name], warps}
		}
	}
	return all, nil
})

// The values of TPM_ and tpg_head in tensorproduct_mma.cuh.
const (
	mmaWarpInts  = 4
	mmaHeadInts  = 8
	mmaMostWarps = 8 // of a block; it is compiled for 256 threads
	mmaHidden    = 8 * tpgen.MMADepth

	planMMAPaths = planPasses
	planMMAScale = planCells
)

// usesTensorCores reports whether csr+mlp computes its weights in TF32.
func (t TensorProduct) usesTensorCores() bool {
	return t.Impl == ImplCSRMLP && (t.Precision == TF32 || t.Precision == TF32x3)
}

// mmaDepth reports whether the kernels for tensor cores take the hidden layer.
func (t TensorProduct) mmaDepth() bool { return t.Hidden <= mmaHidden && t.Hidden%2 == 0 }

// mmaProduct returns the kernel of the product on the tensor cores, if it has one.
func (t TensorProduct) mmaProduct() (mmaProduct, bool) {
	if !t.usesTensorCores() || !t.mmaDepth() {
		return mmaProduct{}, false
	}
	if t.madeMMA != nil {
		return *t.madeMMA, true
	}
	all, err := mmaProducts()
	if err != nil { // the list is ours, and a test goes through it
		return mmaProduct{}, false
	}
	m, ok := all[tpgen.Key(t.TP)]
	return m, ok
}

// TakesTF32 returns nil if csr+mlp has a kernel for the product in TF32 on a GPU of that architecture, else the
// reason. The host device takes every product.
func (t TensorProduct) TakesTF32(arch string) error {
	if !strings.HasPrefix(arch, "sm_") {
		return nil
	}
	m, ok := t.mmaProduct()
	if !ok {
		return gpuprof.Errorf(gpuprof.ErrUsage, "impl=csr+mlp with precision=%s takes products of %s, others where NVRTC is found, and a hidden layer of an even number of values up to %d", t.Precision, mmaPresets(), mmaHidden).
			WithFix("use impl=csr, or precision=fp32")
	}
	if m.blockWarps(t.Hidden, arch) < 1 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "impl=csr+mlp with precision=%s needs %d bytes of shared memory per block, and a GPU of %s has %d", t.Precision, m.sharedBytes(t.Hidden, 1), arch, sharedOptin(arch)).
			WithFix("use impl=csr")
	}
	return nil
}

func mmaPresets() string {
	var names []string
	for _, f := range tpgen.MMAFamilies() {
		for _, l := range f.Layers {
			names = append(names, l.Preset)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// sharedOptin returns the bytes of shared memory that a block may request (CUDA C++ programming guide, compute
// capabilities).
func sharedOptin(arch string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(arch, "sm_"))
	switch n {
	case 80, 87:
		return 163 << 10
	case 90, 100, 103:
		return 227 << 10
	}
	return 99 << 10
}

// mmaPairs returns the pairs of 8 columns per path that the active lanes need.
func mmaPairs(w *tpgen.MMAWarp) int { return ceilDiv(w.Active, 16) }

// mmaUnion returns the floats that a warp uses for h and then for M.
func mmaUnion(w *tpgen.MMAWarp, hidden int) int {
	return max(ceilDiv(hidden, 8)*4*warpLanes, tpgen.MMABatch*w.Stride)
}

// sharedBytes returns the shared memory of a block of the given warps in bytes: the columns of its part, and for
// every warp its head, the weights of a batch, and h or M.
func (m mmaProduct) sharedBytes(hidden, warps int) int {
	most := 0
	for i := range m.warps {
		w := &m.warps[i]
		each := mmaHeadInts + tpgen.MMABatch*(warpLanes*w.Paths+8) + mmaUnion(w, hidden)
		most = max(most, ceilDiv(hidden, 8)*w.Paths*mmaPairs(w)*4*warpLanes+warps*each)
	}
	return most * floatBytes
}

// blockWarps returns the warps per block that shared memory allows, up to 8.
func (m mmaProduct) blockWarps(hidden int, arch string) int {
	n := mmaMostWarps
	for ; n > 0 && m.sharedBytes(hidden, n) > sharedOptin(arch); n-- {
	}
	return n
}

// mmaPlan returns the plan of a kernel for tensor cores: the header, the integers of every part, then its lanes.
func (t TensorProduct) mmaPlan(tab tpTable, m mmaProduct) tpPlan {
	paths := 0
	for i := range m.warps {
		paths = max(paths, m.warps[i].Paths)
	}
	at, numel := t.Columns()
	header := make([]int32, planInts)
	for i, v := range map[int]int{planTiles: len(m.warps), planMMAPaths: paths, planIn: t.TP.In1.Dim(), planSh: t.TP.In2.Dim(), planNumel: numel, planOut: t.TP.Out.Dim(),
		planWarps: planInts, planLanes: planInts + mmaWarpInts*len(m.warps), planPaths: tab.paths, planPathCells: tab.cells} {
		header[i] = int32(v)
	}
	header[planMMAScale] = int32(math.Float32bits(float32(t.scaleFactor())))
	var parts, lanes []int32
	for i := range m.warps {
		w := &m.warps[i]
		parts = append(parts, int32(w.Number), int32(w.Paths), int32(mmaPairs(w)), int32(mmaUnion(w, t.Hidden)))
		for l := range warpLanes {
			one := slices.Repeat([]int32{-1}, 1+2*paths)
			one[0] = int32(w.X[l])
			for p := range w.Paths {
				if ins := w.Weights[l][p]; ins >= 0 {
					one[1+p] = int32(at[ins] + w.Copy[l])
				}
				one[1+paths+p] = int32(w.Place[l][p])
			}
			lanes = append(lanes, one...)
		}
	}
	return tpPlan{ints: slices.Concat(header, parts, lanes), tiles: len(m.warps)}
}

// launchMMA appends the kernel that computes the weights on the tensor cores.
func (k *binder) launchMMA(t TensorProduct, plan tpPlan, cost rate, a tpmKernelArgs) {
	segments := items{perEdge: 1, per: t.segmentLength()}
	kernel := tpMMASmallKernel // the host device takes every product
	kernel.Name = tpCSRMLPKernel.Name
	if k.isTiled() {
		arch := k.dev.Info().Arch
		if err := t.TakesTF32(arch); err != nil {
			k.failUsage("", "%w", err)
			return
		}
		m, _ := t.mmaProduct()
		warps := m.blockWarps(t.Hidden, arch)
		if t.Threads > 0 {
			warps = min(warps, t.Threads/warpLanes)
		}
		kernel = *m.kernel
		kernel.Threads, kernel.SharedBytes = warps*warpLanes, m.sharedBytes(t.Hidden, warps)
		segments.per, segments.times = t.segmentLength()*warps, plan.tiles
	}
	split := 0
	if t.Precision == TF32x3 {
		split = 1
	}
	a.edges, a.segment, a.hidden, a.scale, a.split = edgeCount{}, t.segmentLength(), t.Hidden, t.wScale(), split
	k.addLaunch(&kernel, segments, cost, a)
}
