package gpucheck

import (
	"sort"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// gradients measures the way back through a layer at its own size: by weights and harmonics, as forces need them, and
// where the program carries a kernel for it by features, alone and with the others, as training does. Each is right on a
// poisoned output first. A product without a generated kernel gets one from NVRTC where there is one, as a workload does.
func (c *convolution) gradients(layer string, ceilings gpuprof.Ceilings) {
	r := c.r
	r.t.Helper()
	product, err := op.TensorProduct{TP: c.tp, Layout: op.IrMul}.CompileGrad(r.dev, false)
	note := ""
	if err != nil {
		note = "; without NVRTC: " + err.Error()
	}
	g := op.TensorProductGrad{Product: product}
	edges, out := len(c.src), c.tp.Out.Dim()
	dz := r.random(c.rows * out)
	colptr, perm := op.BySource(c.src, c.nodes)
	base := op.TPGradBuffers{X: c.b.X, Y: c.b.Y, W: c.b.W, DOut: upload(r, dz), Src: c.b.Src, Dst: c.b.Dst, ColPtr: upload(r, colptr), Perm: upload(r, perm)}
	dx, dy, dw := r.alloc(4*len(c.x), device.OnDevice), r.alloc(4*len(c.y), device.OnDevice), r.alloc(4*len(c.w), device.OnDevice)
	edgeWise, features, all := base, base, base
	edgeWise.DY, edgeWise.DW = dy, dw
	features.DX = dx
	all.DX, all.DY, all.DW = dx, dy, dw
	ways := []struct {
		name, kernels string
		b             op.TPGradBuffers
	}{{"tensor_product_bwd/" + layer + "/weights-harmonics", g.KernelName(), edgeWise},
		{"tensor_product_dx/" + layer, g.XKernelName(), features},
		{"tensor_product_grads/" + layer + "/all", g.KernelName() + " | " + g.XKernelName(), all}}
	if g.XKernelName() == (op.TensorProductGrad{Product: op.TensorProduct{TP: c.tp, General: true}}).XKernelName() {
		ways = ways[:1] // the general kernel of dx was no plan of ours
	}
	for _, way := range ways {
		for _, b := range []device.Buffer{dx, dy, dw} {
			r.poison(b)
		}
		bound, err := g.Bind(r.dev, way.b, c.nodes, c.rows, edges)
		r.ok(err)
		r.ok(bound.Enqueue(r.s))
		e := c.errorOfGradients(product, way.b, dz, colptr, perm)
		r.within(way.name, e, 1e-5)
		took := r.steady(0.3, r.enqueue(bound))
		f := figure{Name: way.name, Unit: "s", Value: &took, Note: "kernel " + way.kernels + note, Extra: map[string]float64{"relative_error": e, "edges": float64(edges)}}
		f.bound(ceilings.Bound(bound.Minimum(), r.dev.Info().CacheBytes))
		r.keep(f)
		r.ok(bound.Close())
	}
	r.free(base.DOut, base.ColPtr, base.Perm, dx, dy, dw)
}

// errorOfGradients compares some edges' gradients, and those of the features of a node with few edges and of one at
// random, with the float64 reference: the largest relative error of the gradients that b wants.
func (c *convolution) errorOfGradients(p op.TensorProduct, b op.TPGradBuffers, dz []float32, colptr, perm []int32) float64 {
	r := c.r
	r.t.Helper()
	in, sh, nw, out := c.tp.In1.Dim(), c.tp.In2.Dim(), c.tp.WeightNumel(), c.tp.Out.Dim()
	// reference is the way back of one edge.
	reference := func(e int) (dx, dy, dw []float64) {
		row := sort.Search(c.rows, func(row int) bool { return int(c.ptr[row+1]) > e })
		s := int(c.src[e])
		dx, dy, dw = make([]float64, in), make([]float64, sh), make([]float64, nw)
		r.ok(op.RefTensorProductGrad(p, doubles(c.x[s*in:(s+1)*in]), doubles(c.y[e*sh:(e+1)*sh]), doubles(c.w[e*nw:(e+1)*nw]), doubles(dz[row*out:(row+1)*out]), dx, dy, dw))
		return dx, dy, dw
	}
	worst := 0.0
	if b.DW != nil {
		var sumY, sumW [2]float64
		gotY, gotW := r.download(b.DY, 4*len(c.y)), r.download(b.DW, 4*len(c.w))
		edges := []int{0, len(c.src) - 1}
		for range 10 {
			edges = append(edges, r.rnd.IntN(len(c.src)))
		}
		for _, e := range edges {
			_, dy, dw := reference(e)
			distance(&sumY, device.Floats(gotY)[e*sh:(e+1)*sh], dy)
			distance(&sumW, device.Floats(gotW)[e*nw:(e+1)*nw], dw)
		}
		r.free(gotY, gotW)
		worst = max(relative(sumY), relative(sumW))
	}
	if b.DX != nil {
		var sum [2]float64
		got := r.download(b.DX, 4*len(c.x))
		for _, n := range []int{0, r.rnd.IntN(c.nodes)} {
			want := make([]float64, in)
			for _, e := range perm[colptr[n]:colptr[n+1]] {
				dx, _, _ := reference(int(e))
				for i, v := range dx {
					want[i] += v
				}
			}
			distance(&sum, device.Floats(got)[n*in:(n+1)*in], want)
		}
		r.free(got)
		worst = max(worst, relative(sum))
	}
	return worst
}
