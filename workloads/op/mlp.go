package op

import (
	"math"

	"github.com/gpuprof/gpuprof"
)

// MLP turns radial functions into tensor-product weights:
//
//	b [E,In], w1 [In,Hidden], w2 [Hidden,Out] -> w [E,Out]
//	h = silu_c(b w1/sqrt(In)),  w = h w2/sqrt(Hidden)
//
// Normalisation ("exact" when empty, or "e3nn") chooses the constant of silu_c.
type MLP struct {
	In, Hidden, Out int
	Normalisation   string
}

// Scratch is the bytes Bind allocates: the hidden layer.
func (m MLP) Scratch(edgeCap int) int64 {
	return max(int64(edgeCap)*int64(m.Hidden), 1) * floatBytes
}

func (m MLP) layers() (Gemm, Gemm) {
	norm := m.Normalisation
	if norm == "" {
		norm = NormExact
	}
	return Gemm{K: m.In, N: m.Hidden, Scale: float32(1 / math.Sqrt(float64(m.In))), Act: "silu", Normalisation: norm},
		Gemm{K: m.Hidden, N: m.Out, Scale: float32(1 / math.Sqrt(float64(m.Hidden))), Act: "none", Normalisation: norm}
}

// Bind binds the operation for up to edgeCap edges; two launches.
func (m MLP) Bind(dev gpuprof.Device, b, w1, w2, w gpuprof.Buffer, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "mlp", edgeCap)
	k.positive("In", m.In)
	k.positive("Hidden", m.Hidden)
	k.positive("Out", m.Out)
	h := k.scratch(int64(edgeCap) * int64(m.Hidden))
	first, second := m.layers()
	minimum := k.gemm(first, b, w1, h).add(k.gemm(second, h, w2, w))
	// A fused implementation keeps the hidden layer to itself.
	minimum.perEdge.BytesWritten -= int64(m.Hidden) * floatBytes
	minimum.perEdge.BytesRead -= int64(m.Hidden) * floatBytes
	k.b.minimum = minimum
	return k.done()
}
