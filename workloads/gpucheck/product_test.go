package gpucheck

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

// layer is a tensor product at a workload's own size.
type layer struct {
	name           string
	in, sh, target string
	nodes, rows    int
	degrees        []int // taken in turn
	weights        int   // an edge, to see that the layer is the one meant; 0 where anything will do
}

func (l layer) edges() int {
	n := 0
	for i := range l.rows {
		n += l.degrees[i%len(l.degrees)]
	}
	return n
}

const everyIrrep = "%[1]dx0o+%[1]dx0e+%[2]dx1o+%[2]dx1e+%[3]dx2o+%[3]dx2e+%[4]dx3o+%[4]dx3e+%[5]dx4o+%[5]dx4e"

// layers are the workload e3nn's convolutions: the third of deepaw, which has
// 74,250 edges, and those of the other presets, on 158 neighbours an atom. The
// simulator gets the same with few edges.
func (r *rig) layers() []layer {
	mace := func(name string, in, target []string) layer {
		return layer{name, with(128, in...), "0e+1o+2e+3o", with(128, target...), pick(r, 1000, 4), pick(r, 1000, 5), pick(r, []int{158}, []int{3, 0, 2}), 0}
	}
	deepaw := fmt.Sprintf(everyIrrep, 100, 33, 20, 14, 11)
	all := []layer{
		mace("mace-large", []string{"0e", "1o", "2e"}, []string{"0e", "1o", "2e", "3o"}),
		{"deepaw", deepaw, "0e+1o+2e+3o+4e", deepaw, pick(r, 12, 3), pick(r, 3000, 4), pick(r, []int{25, 25, 25, 24}, []int{2, 0, 3}), 3238},
		mace("mace-medium", []string{"0e", "1o"}, []string{"0e", "1o", "2e"}),
	}
	nequip := mace("nequip-lips", nil, nil)
	nequip.in = with(32, "0o", "0e", "1o", "1e", "2o", "2e")
	nequip.sh, nequip.target = "0e+1o+2e", nequip.in
	return append(all, nequip)
}

// with is irreps of one multiplicity: 128x0e+128x1o.
func with(mul int, irs ...string) string {
	text := ""
	for i, ir := range irs {
		if i > 0 {
			text += "+"
		}
		text += fmt.Sprintf("%dx%s", mul, ir)
	}
	return text
}

// generalCSR is csr without the kernels that are generated for the presets' products.
const generalCSR = "csr-general"

// allowed is the error that an implementation may have.
const allowed = 1e-5

// convolution is a layer's data on the device; impl by impl it is bound anew.
type convolution struct {
	r            *rig
	tp           so3.TensorProduct
	nodes, rows  int
	longest      int // edges of a row
	src, ptr     []int32
	x, y, w      []float32
	b            op.TPBuffers
	packed       device.Buffer // w where the generated kernel reads it
	out          int           // floats of the result
	bound        op.TensorProduct
	product, sum *op.Bound
}

func (r *rig) convolution(l layer) *convolution {
	r.t.Helper()
	tp := so3.UVUProduct(irreps(r.t, l.in), irreps(r.t, l.sh), irreps(r.t, l.target))
	if l.weights > 0 && tp.WeightNumel() != l.weights {
		r.t.Fatalf("%s has %d weights an edge, expected %d", l.name, tp.WeightNumel(), l.weights)
	}
	edges := l.edges()
	c := &convolution{r: r, tp: tp, nodes: l.nodes, rows: l.rows, ptr: make([]int32, 1, l.rows+1), out: l.rows * tp.Out.Dim()}
	c.longest = slices.Max(l.degrees)
	dst := make([]int32, 0, edges)
	for row := range l.rows {
		for range l.degrees[row%len(l.degrees)] {
			c.src, dst = append(c.src, int32(r.rnd.IntN(l.nodes))), append(dst, int32(row))
		}
		c.ptr = append(c.ptr, int32(len(c.src)))
	}
	c.x, c.y, c.w = r.random(l.nodes*tp.In1.Dim()), r.random(edges*tp.In2.Dim()), r.random(edges*tp.WeightNumel())
	c.b = op.TPBuffers{X: upload(r, c.x), Y: upload(r, c.y), W: upload(r, c.w), Src: upload(r, c.src), Dst: upload(r, dst), RowPtr: upload(r, c.ptr), Out: r.alloc(4*c.out, device.OnDevice)}
	c.packed = upload(r, op.Arrange(c.way(op.ImplCSR), c.w))
	return c
}

// way is the product in an implementation, or as generalCSR.
func (c *convolution) way(impl string) op.TensorProduct {
	p := op.TensorProduct{TP: c.tp, Impl: impl, Layout: op.IrMul}
	switch impl {
	case op.ImplUnfused:
		p.Layout = op.MulIr // e3nn's
	case op.ImplCSR:
		p.Packed, p.Segment = true, op.SegmentFor(c.longest)
	case generalCSR:
		p.Impl, p.General = op.ImplCSR, true
	}
	return p
}

// bind makes the convolution ready in one implementation.
func (c *convolution) bind(impl string) (err error) {
	c.bound = c.way(impl)
	b := c.b
	if c.bound.Packed {
		b.W = c.packed
	}
	c.product, c.sum, err = c.bound.Bind(c.r.dev, b, c.nodes, c.rows, len(c.src))
	return err
}

func (c *convolution) unbind() {
	c.r.t.Helper()
	for _, b := range []*op.Bound{c.sum, c.product} {
		if b != nil {
			c.r.ok(b.Close())
		}
	}
}

func (c *convolution) free() {
	c.r.t.Helper()
	c.r.free(c.b.X, c.b.Y, c.b.W, c.b.Src, c.b.Dst, c.b.RowPtr, c.b.Out, c.packed)
}

func (c *convolution) run() error { return c.r.enqueue(c.product, c.sum)() }

// result runs the convolution on a poisoned output and reads it back.
func (c *convolution) result() device.Buffer {
	c.r.t.Helper()
	c.r.poison(c.b.Out)
	c.r.ok(c.run())
	return c.r.download(c.b.Out, 4*c.out)
}

// errorOf compares the first, the last, the longest and some random rows with
// the float64 reference.
func (c *convolution) errorOf(got []float32) float64 {
	c.r.t.Helper()
	longest := 0
	for i := range c.rows {
		if c.ptr[i+1]-c.ptr[i] > c.ptr[longest+1]-c.ptr[longest] {
			longest = i
		}
	}
	rows := []int{0, c.rows - 1, longest}
	for range 9 {
		rows = append(rows, c.r.rnd.IntN(c.rows))
	}
	in, sh, od, n := c.tp.In1.Dim(), c.tp.In2.Dim(), c.tp.Out.Dim(), c.tp.WeightNumel()
	var sum [2]float64
	for _, row := range rows {
		var x, y, w []float64
		for e := int(c.ptr[row]); e < int(c.ptr[row+1]); e++ {
			s := int(c.src[e])
			x = append(x, doubles(c.x[s*in:(s+1)*in])...)
			y, w = append(y, doubles(c.y[e*sh:(e+1)*sh])...), append(w, doubles(c.w[e*n:(e+1)*n])...)
		}
		want := make([]float64, od)
		c.r.ok(op.RefTensorProduct(c.bound, x, y, w, want))
		distance(&sum, got[row*od:(row+1)*od], want)
	}
	return relative(sum)
}

// Every implementation at the workloads' sizes: right on fresh inputs and a
// poisoned output, and how fast beside the roofline bound; csr with its generated
// kernel and without. csr has to be ten times as fast as unfused, and near its bound
// of bytes where the tensor product is what a step spends its time on: instructions
// limit deepaw's.
func TestTensorProducts(t *testing.T) {
	r := newRig(t)
	ceilings, err := r.dev.Ceilings(context.Background())
	r.ok(err)
	for i, l := range r.layers() {
		if !r.real && !nightly && i > 1 {
			break // on the simulator by day the two whose way back is looked at too
		}
		c := r.convolution(l)
		demanded := map[string]float64{"mace-large": 1.5, "deepaw": 2.5}[l.name]
		unfused := 0.0
		for _, impl := range []string{op.ImplUnfused, op.ImplFused, op.ImplCSR, generalCSR} {
			name := "tensor_product/" + l.name + "/" + impl
			if err := c.bind(impl); err != nil {
				r.keep(figure{Name: name, Unit: "s", Note: "not measured: " + err.Error()})
				continue
			}
			got := c.result()
			e := c.errorOf(device.Floats(got))
			r.free(got)
			r.within(name, e, allowed)
			took := r.steady(0.3, c.run)
			least := c.product.Minimum()
			traffic := ceilings.Bound(gpuprof.Cost{BytesRead: least.BytesRead, BytesWritten: least.BytesWritten}, r.dev.Info().CacheBytes)
			f := figure{Name: name, Unit: "s", Value: &took, Note: "kernel " + c.bound.KernelName(), Extra: map[string]float64{
				"relative_error": e, "edges": float64(len(c.src)), "bytes_bound_s": traffic.S}}
			f.bound(ceilings.Bound(least, r.dev.Info().CacheBytes))
			switch impl {
			case op.ImplUnfused:
				unfused = took
			case op.ImplCSR:
				f.Extra["unfused_over_this"] = unfused / took
				if demanded > 0 && unfused > 0 {
					f.Limit = fmt.Sprintf("at most a tenth of unfused, and at most %g times the roofline bound of bytes", demanded)
					f.Pass = ptr(unfused >= 10*took && took <= demanded*traffic.S)
				}
			}
			r.keep(f)
			c.unbind()
		}
		if i < 2 { // the layers whose way back has a prediction in docs/performance.md
			c.gradients(l.name, ceilings)
		}
		c.free()
	}
}

// csr, with its generated kernel and without, gives the same bits a hundred times over, each time into a poisoned output. The simulator is slow at that; package op has the test for it.
func TestHundredRunsAreBitIdentical(t *testing.T) {
	const runs = 100
	r := newRig(t)
	for _, l := range r.layers()[:2] {
		c := r.convolution(l)
		for _, impl := range []string{op.ImplCSR, generalCSR} {
			name := "bit_identity/" + l.name + "/" + impl
			r.ok(c.bind(impl))
			first := c.result()
			r.within(l.name+"/"+impl, c.errorOf(device.Floats(first)), allowed)
			again := r.alloc(4*c.out, device.Pinned)
			differ := 0
			for range runs - 1 {
				r.poison(c.b.Out)
				r.ok(c.run())
				r.ok(r.s.Copy(again, 0, c.b.Out, 0, 4*c.out))
				r.ok(r.s.Sync())
				if !bytes.Equal(again.Bytes()[:4*c.out], first.Bytes()[:4*c.out]) {
					differ++
				}
			}
			if differ > 0 {
				t.Errorf("%s, %s: %d of %d runs differ from the first", l.name, impl, differ, runs-1)
			}
			r.keep(figure{Name: name, Unit: "runs", Value: ptr(float64(runs - differ)), Limit: "100 equal runs", Pass: ptr(differ == 0)})
			r.free(first, again)
			c.unbind()
		}
		c.free()
	}
}

// Sums by destination beside the measured copy rate: with an atomic per run of
// equal destinations, the same on edges in random order, and by sorted rows.
func TestScatter(t *testing.T) {
	r := newRig(t)
	ceilings, err := r.dev.Ceilings(context.Background())
	r.ok(err)
	for _, size := range [][3]int{pick(r, [3]int{1000, 158, 1152}, [3]int{3, 4, 7}), pick(r, [3]int{3000, 25, 992}, [3]int{5, 2, 33})} {
		rows, degree, width := size[0], size[1], size[2]
		edges := rows * degree
		src, dst, ptrs := r.random(edges*width), make([]int32, edges), make([]int32, rows+1)
		for e := range dst {
			dst[e] = int32(e / degree)
			ptrs[e/degree+1] = int32(e + 1)
		}
		shuffled := slices.Clone(dst)
		r.rnd.Shuffle(edges, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		b := op.ScatterBuffers{Src: upload(r, src), RowPtr: upload(r, ptrs), Out: r.alloc(4*rows*width, device.OnDevice)}
		for _, c := range []struct {
			name  string
			dst   []int32
			limit string
		}{{"atomic", dst, scatterLimit}, {"atomic-shuffled", shuffled, ""}, {"sorted", dst, scatterLimit}} {
			b.Dst = upload(r, c.dst)
			s := op.ScatterAdd{C: width, Deterministic: c.name == "sorted"}
			bound, err := s.Bind(r.dev, b, rows, edges)
			r.ok(err)
			r.poison(b.Out)
			r.ok(bound.Enqueue(r.s))
			name := fmt.Sprintf("scatter/%dx%d/%s", edges, width, c.name)
			got := r.download(b.Out, 4*rows*width)
			r.within(name, scatterError(s, src, c.dst, []int{0, rows / 2, rows - 1}, device.Floats(got)), 1e-5)
			r.free(got)
			took := r.steady(0.2, r.enqueue(bound))
			least := bound.Minimum()
			limit := ceilings.Bound(least, r.dev.Info().CacheBytes)
			f := figure{Name: name, Unit: "s", Value: &took, Limit: c.limit, Extra: map[string]float64{"bytes_per_s": float64(least.Bytes()) / took}}
			if c.limit != "" {
				f.Pass = ptr(limit.S >= 0.7*took)
			}
			f.bound(limit)
			r.keep(f)
			r.ok(bound.Close())
			r.free(b.Dst)
		}
		r.free(b.Src, b.RowPtr, b.Out)
	}
}

const scatterLimit = "at least 70 % of the roofline bound"

// scatterError compares some rows of got with the sums in float64.
func scatterError(s op.ScatterAdd, src []float32, dst []int32, rows []int, got []float32) float64 {
	var sum [2]float64
	for _, row := range rows {
		var of []float64
		for e, d := range dst {
			if int(d) == row {
				of = append(of, doubles(src[e*s.C:(e+1)*s.C])...)
			}
		}
		want := make([]float64, s.C)
		op.RefScatter(s, of, want)
		distance(&sum, got[row*s.C:(row+1)*s.C], want)
	}
	return relative(sum)
}

// The layers are the ones the workloads run.
func TestLayerSizes(t *testing.T) {
	real := (&rig{t: t, real: true}).layers()
	edges := map[string]int{"mace-large": 158_000, "deepaw": 74_250, "mace-medium": 158_000, "nequip-lips": 158_000}
	if len(real) != len(edges) {
		t.Errorf("%d layers, expected %d", len(real), len(edges))
	}
	for _, l := range real {
		if l.edges() != edges[l.name] {
			t.Errorf("%s has %d edges, expected %d", l.name, l.edges(), edges[l.name])
		}
		c := &convolution{tp: so3.UVUProduct(irreps(t, l.in), irreps(t, l.sh), irreps(t, l.target))}
		if own, general := c.way(op.ImplCSR).KernelName(), c.way(generalCSR).KernelName(); own == general || general != "tp_csr" {
			t.Errorf("%s is computed by %s and %s, expected a generated kernel and the general one", l.name, own, general)
		}
	}
	i := slices.IndexFunc(real, func(l layer) bool { return l.name == "deepaw" })
	tp := so3.UVUProduct(irreps(t, real[i].in), irreps(t, real[i].sh), irreps(t, real[i].target))
	if len(tp.Instructions) != 130 || tp.WeightNumel() != 3238 {
		t.Errorf("deepaw's last layer has %d paths and %d weights an edge, expected 130 and 3,238", len(tp.Instructions), tp.WeightNumel())
	}
}
