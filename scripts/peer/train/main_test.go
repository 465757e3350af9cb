package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// The first step agrees with the operations' formulas in float64, in both layouts: the loss, each gradient and the
// parameters after clipping and Adam.
func TestFirstStep(t *testing.T) {
	in := sample(t, header{Atoms: 5, Edges: 14, Mul: 3, LMax: 3, Functions: 6, Hidden: 7, Cutoff: 4, Rate: 1e-2, Clip: 1e-3}, nil)
	n, err := read(in)
	if err != nil {
		t.Fatal(err)
	}
	want := reference(t, n)
	for _, layout := range []string{"mul_ir", "ir_mul"} {
		to, answers := filepath.Join(t.TempDir(), layout), &bytes.Buffer{}
		if err := run([]string{in, to, layout, "2"}, strings.NewReader("run 2\nrun 1\n"), answers); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(answers.String(), "\n"); lines != 2 {
			t.Errorf("two requests have %d answers: %q", lines, answers)
		}
		raw, err := os.ReadFile(to)
		if err != nil || len(raw) != 4*len(slices.Concat(want...)) {
			t.Fatalf("%s: %v, %d bytes", layout, err, len(raw))
		}
		for i, w := range want {
			var off, all float64
			for k, x := range w {
				got := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*k:])))
				off, all = off+(got-x)*(got-x), all+x*x
			}
			raw = raw[4*len(w):]
			if !(all > 0 && math.Sqrt(off/all) < 1e-5) { // float32, some twenty operations
				t.Errorf("%s: array %d of the loss, gradients %v and parameters is %g apart, of norm %g", layout, i, paramNames(), math.Sqrt(off/all), math.Sqrt(all))
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	small := header{Atoms: 2, Edges: 2, Mul: 1, LMax: 1, Functions: 2, Hidden: 1, Cutoff: 2, Rate: 1, Clip: 1}
	for name, c := range map[string]struct {
		h      header
		change func([]byte) []byte
		layout string
		says   string
	}{
		"edges out of order":     {small, func(b []byte) []byte { return append(b[:len(b)-8], 1, 0, 0, 0, 0, 0, 0, 0) }, "mul_ir", "sort them"},
		"an atom that is none":   {small, func(b []byte) []byte { return append(b[:len(b)-4], 2, 0, 0, 0) }, "mul_ir", "of 2 atoms"},
		"a file cut short":       {small, func(b []byte) []byte { return b[:len(b)-20] }, "mul_ir", "target"},
		"a file that goes on":    {small, func(b []byte) []byte { return append(b, 0) }, "mul_ir", "more follows"},
		"an lmax beyond the set": {header{Atoms: 2, Edges: 2, Mul: 1, LMax: 7, Functions: 2, Hidden: 1, Cutoff: 2, Rate: 1, Clip: 1}, nil, "mul_ir", "give 0 to 6"},
		"no clip":                {header{Atoms: 2, Edges: 2, Mul: 1, LMax: 1, Functions: 2, Hidden: 1, Cutoff: 2, Rate: 1}, nil, "mul_ir", "clip 0"},
		"a layout that is none":  {small, nil, "rows", "use mul_ir or ir_mul"},
	} {
		err := run([]string{sample(t, c.h, c.change), filepath.Join(t.TempDir(), "out"), c.layout, "1"}, strings.NewReader(""), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, c.says)
		}
	}
}

// sample writes an input with edges around a ring, sorted by destination.
func sample(t *testing.T, h header, change func([]byte) []byte) string {
	t.Helper()
	n := &network{header: h}
	count := 3*int(h.Edges) + int(h.Atoms)
	if err := n.deriveOps(); err == nil {
		count += int(h.Atoms)*n.in.Dim() + n.mlp.Hidden*(n.mlp.In+n.mlp.Out) + n.linear.WeightNumel() + n.readout.Count
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	v := make([]float32, count)
	for i := range v {
		v[i] = float32(rnd.NormFloat64())
	}
	var src, dst []int32
	for e := range h.Edges {
		dst = append(dst, e*h.Atoms/h.Edges)
		src = append(src, (dst[e]+1+e%max(1, h.Atoms-1))%h.Atoms)
	}
	var buf bytes.Buffer
	for _, part := range []any{h, v, src, dst} {
		if err := binary.Write(&buf, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	all := buf.Bytes()
	if change != nil {
		all = change(all)
	}
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, all, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reference is a step in float64 and mul_ir: the loss, gradients and parameters.
func reference(t *testing.T, n *network) [][]float64 {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var p, g [][]float64
	for _, v := range n.params {
		p, g = append(p, op.As[float64](v)), append(g, make([]float64, len(v)))
	}
	n.linear.Layout, n.gate.Layout = op.MulIr, op.MulIr
	product := op.TensorProduct{TP: n.product, Layout: op.MulIr, Scale: float32(1 / math.Sqrt(neighbours))}
	in, atoms, loss := n.in.Dim(), float64(n.Atoms), 0.0
	zeros := func(n int) []float64 { return make([]float64, n) }
	vec, x := op.As[float64](n.vec), p[0]
	at := rowOffsets(n.dst, n.Atoms)
	for r := range n.Atoms {
		var y, w, from, basis []float64
		for e := at[r]; e < at[r+1]; e++ {
			be, ye, we := zeros(n.basis.N), zeros(n.sph.Dim()), zeros(n.mlp.Out)
			op.RefBasis(n.basis, vec[3*e:3*e+3], be)
			op.RefSph(n.sph, vec[3*e:3*e+3], ye)
			must(op.RefMLP(n.mlp, be, p[1], p[2], we))
			basis, y, w, from = append(basis, be...), append(y, ye...), append(w, we...), append(from, x[int(n.src[e])*in:][:in]...)
		}
		mid, pre, out := zeros(n.product.Out.Dim()), zeros(n.linear.Out.Dim()), zeros(n.readout.Width)
		must(op.RefTensorProduct(product, from, y, w, mid))
		op.RefLinear(n.linear, mid, p[3], pre)
		must(op.RefGate(n.gate, pre, out))
		off := -float64(n.target[r])
		for u, f := range p[4] {
			off += f * out[u]
		}
		loss += off * off / (2 * atoms)
		dout, dpre, dmid := zeros(len(out)), zeros(len(pre)), zeros(len(mid))
		for u, f := range p[4] {
			dout[u] = off / atoms * f
			g[4][u] += off / atoms * out[u]
		}
		must(op.RefGateGrad(n.gate, pre, dout, dpre))
		op.RefLinearGrad(n.linear, mid, p[3], dpre, dmid, g[3])
		for i, e := 0, at[r]; e < at[r+1]; i, e = i+1, e+1 {
			dx, dy, dw := zeros(in), zeros(n.sph.Dim()), zeros(n.mlp.Out)
			must(op.RefTensorProductGrad(product, from[i*in:][:in], y[i*len(dy):][:len(dy)], w[i*len(dw):][:len(dw)], dmid, dx, dy, dw))
			for k, d := range dx {
				g[0][int(n.src[e])*in+k] += d
			}
			must(op.RefMLPGrad(n.mlp, basis[i*n.basis.N:][:n.basis.N], p[1], p[2], dw, zeros(n.basis.N), g[1], g[2]))
		}
	}
	factor := optim.RefClip(n.Clip, g...)
	if factor > 0.9 {
		t.Fatalf("clipping leaves %g of the gradients: it would not be tested", factor)
	}
	for i := range p {
		cut := slices.Clone(g[i])
		for k := range cut {
			cut[k] *= factor
		}
		optim.RefAdam(n.Rate, 1, p[i], cut, zeros(len(cut)), zeros(len(cut)))
	}
	return slices.Concat([][]float64{{loss}}, g, p)
}
