package op

import (
	_ "embed"

	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed radial.ptx.zst
var radialPTX string

// Radial turns edges into tensor-product weights: a Basis of N = MLP.In functions b, and an MLP on them. One kernel
// computes b and the first layer with its activation in float32. It writes the hidden layer h as the operand of the
// second layer's product, rounded or split if the precision needs it. So b, and the hidden layer before its activation,
// never go to memory.
//
//	vec [E,3], w1 [In,Hidden], w2 [Hidden,Out] -> w [E,Out]
//	h = silu_c(b w1/sqrt(In)),  w = h w2/sqrt(Hidden)
type Radial struct {
	Basis Basis
	MLP   MLP
}

// One item of radialKernel is one edge.
var radialKernel = device.Typed[radialArgs](device.Kernel{Name: "radial", Host: radialHost, Grain: 8, PTX: radialPTX, Threads: 128, PerBlock: 128})

const (
	radialEdges     = 128 // edges per CUDA block
	radialFunctions = 32  // largest number of functions
	radialShared    = 48 << 10
	radialHidden    = 1024 // largest width of a hidden layer that is rounded
)

// Bind binds the operation for up to edgeCap edges.
func (r Radial) Bind(dev device.Device, vec, w1, w2, w device.Buffer, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "radial functions and MLP", edgeCap)
	m := r.MLP
	k.checkPositive("Out", m.Out)
	_, second := m.gemmLayers()
	p := packingOf(second.Precision, second.K)
	h := k.allocateScratch(p.wordCount(int64(edgeCap)))
	minimum := k.addRadial(r, p, vec, w1, h)
	k.checkBuffer("w2", w2, int64(m.Hidden)*int64(m.Out))
	k.checkBuffer("w", w, int64(edgeCap)*int64(m.Out))
	if p.form == packPlain {
		minimum = minimum.add(k.addGemm(second, h, w2, w))
	} else {
		vendor, err := second.needsVendor(loadLibraries(dev))
		k.failOn(err)
		k.addVendorProduct(second, p, h, k.packRight(p, w2, second.K, second.N), w, libraryKernel(second.precisionName()))
		second.N -= second.Padding
		minimum = minimum.add(k.gemmCost(second, activation{}, vendor))
	}
	// A fused implementation would not write the hidden layer.
	minimum.perEdge.BytesWritten -= int64(p.productDepth()) * p.bytes
	minimum.perEdge.BytesRead -= int64(m.Hidden) * floatBytes
	k.b.minimum = minimum
	return k.finishBinding()
}

// addRadial appends the launch that computes h. It returns the cost of the launch.
func (k *binder) addRadial(r Radial, p packing, vec, w1, h device.Buffer) rate {
	m, s := r.MLP, r.Basis
	k.checkPositive("In", m.In)
	k.checkPositive("Hidden", m.Hidden)
	k.failOn(s.Check())
	shared := m.In * (radialEdges + ceilDiv(p.inner, 4)*4) * floatBytes
	switch {
	case s.N != m.In:
		k.failUsage("make them as many", "an MLP of %d inputs does not fit %d radial functions", m.In, s.N)
	case s.N > radialFunctions || shared > radialShared:
		k.failUsage("use fewer", "%d radial functions with a hidden layer of %d need more than a block's shared memory", s.N, m.Hidden)
	case p.form != packPlain && p.inner > radialHidden:
		k.failUsage("use fewer", "a hidden layer of %d values is too long to be rounded", m.Hidden)
	}
	first, _ := m.gemmLayers()
	act, c, err := findActivation(first.Act, first.Normalisation)
	k.failOn(err)
	k.checkBuffer("vec", vec, 3*int64(k.b.capacity))
	k.checkBuffer("w1", w1, int64(m.In)*int64(m.Hidden))
	kind, _ := s.kindNumber() // Check has accepted it
	flops := s.edgeFlops() + 2*m.In*m.Hidden + m.Hidden*(act.flops+1)
	// The kernel computes radial functions in fp64 on host and GPU.
	cost := rate{fixed: Moved(m.In*m.Hidden, m.In*m.Hidden, 0), perEdge: Moved(flops, 3, 0).In("fp64", int64(s.edgeFlops()))}
	cost.perEdge.BytesWritten = int64(p.productDepth()) * p.bytes
	k.addLaunch(withShared(&radialKernel, shared), items{perEdge: 1}, cost, radialArgs{
		vec: vec, w1: w1, h: h, count: itemCount, functions: s.N, kind: kind, envelope: s.Envelope,
		cutoff: float32(s.Cutoff), hidden: m.Hidden, inner: p.inner, form: p.form, scale: first.Scale, c: float32(c),
	})
	return cost
}
