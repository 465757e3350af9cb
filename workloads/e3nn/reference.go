package e3nn

import (
	"context"
	"math"
	"runtime"
	"sync"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// rowReference holds the reference for one destination row, in float64 and the session's layout. It is computed from
// the batch's float32 vectors and the float32 parameters.
type rowReference struct {
	y      []float64 // [edges, harmonics]
	layers []layerReference
	rho    float64   // the row's value, its contribution to the energy
	f      []float64 // [edges, 3], the gradient of rho with respect to every edge's vector
}

type layerReference struct {
	w        []float64 // [edges, weights]
	messages []float64 // [edges, mid], before the sum over neighbours
	mid, out []float64
	pre      []float64 // input of the gate
	da       []float64 // [edges, hidden], in training: gradient of the row's value with respect to the hidden layers
}

// wide holds the parameters of all layers in float64.
type wide struct{ x, w1, w2, mix, readout [][]float64 }

func widen(p params) wide {
	each := func(in [][]float32) (out [][]float64) {
		for _, v := range in {
			out = append(out, op.As[float64](v))
		}
		return out
	}
	return wide{each(p.x), each(p.w1), each(p.w2), each(p.mix), each(p.readout)}
}

func (c *checker) computeReference(sl *slot) error {
	c.refs = make([]rowReference, len(c.rows))
	errs := make([]error, len(c.rows))
	p := widen(c.s.params)
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				if c.ctx.Err() == nil {
					c.refs[i], errs[i] = c.s.referenceRow(c.ctx, sl, c.rows[i], p)
				}
			}
		}()
	}
	for i := range c.rows {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return c.ctx.Err()
}

func (s *session) referenceRow(ctx context.Context, sl *slot, row int, p wide) (rowReference, error) {
	rowptr := device.Ints(sl.host.rowptr)
	lo, hi := int(rowptr[row]), int(rowptr[row+1])
	src, vec := device.Ints(sl.host.src)[lo:hi], op.As[float64](device.Floats(sl.host.vec)[3*lo:3*hi])
	n := hi - lo
	sh := (s.model.LMax + 1) * (s.model.LMax + 1)
	ref := rowReference{y: make([]float64, n*sh)}
	basis := make([]float64, n*basisSize)
	for e := range n {
		op.RefSph(op.Sph{LMax: s.model.LMax}, vec[3*e:3*e+3], ref.y[e*sh:(e+1)*sh])
		op.RefBasis(s.radialBasis(), vec[3*e:3*e+3], basis[e*basisSize:(e+1)*basisSize])
	}
	for i, l := range s.model.Layers {
		lr, err := s.referenceLayer(ctx, i, l, src, basis, ref.y, p)
		if err != nil {
			return ref, err
		}
		ref.layers = append(ref.layers, lr)
	}
	if s.goesBack() {
		err := s.referenceBack(ctx, &ref, src, vec, basis, p)
		return ref, err
	}
	return ref, nil
}

// referenceLayer computes a layer for one row, edge by edge from its definition, in mul_ir order. It returns the values
// in the session's layout.
func (s *session) referenceLayer(ctx context.Context, i int, l layer, src []int32, basis, y []float64, p wide) (layerReference, error) {
	n, nw, mid := len(src), l.TP.WeightNumel(), l.TP.Out.Dim()
	sh, in := (s.model.LMax+1)*(s.model.LMax+1), l.In.Dim()
	r := layerReference{w: make([]float64, n*nw), messages: make([]float64, n*mid), mid: make([]float64, mid), out: make([]float64, l.Out.Dim())}
	message := make([]float64, mid)
	for e, node := range src {
		if err := ctx.Err(); err != nil { // one edge of a large model takes long
			return r, err
		}
		w := r.w[e*nw : (e+1)*nw]
		b := basis[e*basisSize : (e+1)*basisSize]
		mlp := s.mlps[i]
		mlp.Out, mlp.Padding = nw, 0 // weights in the product's own order
		if err := op.RefMLP(mlp, b, p.w1[i], p.w2[i], w); err != nil {
			return r, err
		}
		x := p.x[i][int(node)*in : (int(node)+1)*in]
		if err := l.TP.Eval(x, y[e*sh:(e+1)*sh], w, message); err != nil {
			return r, err
		}
		stored := r.messages[e*mid : (e+1)*mid]
		op.ToLayout(s.layout, l.TP.Out, stored, message)
		for k, v := range stored {
			r.mid[k] += v / math.Sqrt(neighbours)
		}
	}
	r.pre = make([]float64, l.Linear.Out.Dim())
	op.RefLinear(l.Linear, r.mid, p.mix[i], r.pre)
	return r, op.RefGate(l.Gate, r.pre, r.out)
}
