package op

import "github.com/gpuprof/gpuprof"

// Gemm is a dense layer over edges, out = c*phi(Scale * a b):
//
//	a [E,K], b [K,N] -> out [E,N]
//
// Act is an activation's name ("none" for a plain product) and Normalisation
// ("exact" or "e3nn") its constant c.
type Gemm struct {
	K, N               int
	Scale              float32
	Act, Normalisation string
}

// gemmKernel: a, b, out, n, K, N, act, scale, c. One item is one row.
var gemmKernel = gpuprof.Kernel{Name: "gemm", Sig: "bbbiiiiff", Host: gemmHost, Grain: 8, Threads: 256, PerBlock: 64}

// Bind binds the operation for up to edgeCap rows.
func (g Gemm) Bind(dev gpuprof.Device, a, b, out gpuprof.Buffer, edgeCap int) (*Bound, error) {
	k := newBinder(dev, "gemm", edgeCap)
	k.b.minimum = k.gemm(g, a, b, out)
	return k.done()
}

// gemm appends the launch and returns its cost.
func (k *binder) gemm(g Gemm, a, b, out gpuprof.Buffer) rate {
	k.positive("K", g.K)
	k.positive("N", g.N)
	act, c, err := findActivation(g.Act, g.Normalisation)
	if err != nil {
		k.usage("%v", err)
	}
	e := int64(k.b.capacity)
	k.want("a", a, e*int64(g.K))
	k.want("b", b, int64(g.K)*int64(g.N))
	k.want("out", out, e*int64(g.N))
	epilogue := 0
	if act.id != actNone {
		epilogue = g.N * (act.flops + 1)
	}
	// The scale is folded into a, one product an element of it.
	cost := rate{fixed: move(0, g.K*g.N, 0), perEdge: move(g.K+2*g.K*g.N+epilogue, g.K, g.N)}
	k.launch(&gemmKernel, items{perEdge: 1}, cost, a, b, out, itemCount{}, g.K, g.N, act.id, g.Scale, float32(c))
	return cost
}
