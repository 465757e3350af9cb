package gpucheck

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// What the card does at best: every roofline bound rests on these.
func TestCeilings(t *testing.T) {
	r := newRig(t)
	c, err := r.dev.Ceilings(context.Background())
	r.ok(err)
	if !(c.CopyBytesPerS > 0) || !(c.FlopsPerS > 0) {
		t.Errorf("ceilings %+v", c)
	}
	r.keep(figure{Name: "ceiling/copy", Unit: "B/s", Value: &c.CopyBytesPerS, Note: "bytes read plus bytes written"})
	r.keep(figure{Name: "ceiling/gemm_fp32", Unit: "flop/s", Value: &c.FlopsPerS})
	for _, rate := range []struct {
		name, unit string
		value      float64
	}{
		{"read", "B/s", c.ReadBytesPerS}, {"write", "B/s", c.WriteBytesPerS}, {"cache", "B/s", c.CacheBytesPerS}, {"launch", "s", c.LaunchS},
		{"fma_fp64", "flop/s", c.FP64FlopsPerS}, {"gemm_" + op.TF32, "flop/s", c.TF32FlopsPerS}, {"gemm_" + op.BF16, "flop/s", c.BF16FlopsPerS}, {"gemm_" + op.FP16, "flop/s", c.FP16FlopsPerS},
	} {
		f := figure{Name: "ceiling/" + rate.name, Unit: rate.unit, Value: &rate.value}
		if !(rate.value > 0) {
			f.Value, f.Note = nil, "not measured: memory was short"
			if !r.hasBLAS() {
				f.Note = noBLAS
			}
		}
		r.keep(f)
	}
}

const noBLAS = "not measured: cuBLAS was not found; it comes with PyTorch"

// hasBLAS reports whether the vendor's products are there; the kernels that
// stand in for them are right and no ceiling.
func (r *rig) hasBLAS() bool { return r.dev.Libraries()["cublas"] != "" }

// matmul is out [rows,n] = a [rows,k] b [k,n] at one shape.
type matmul struct {
	r           *rig
	rows, k, n  int
	a, b        []float32
	da, db, out device.Buffer
}

func (r *rig) newMatmul(rows, k, n int) *matmul {
	r.t.Helper()
	m := &matmul{r: r, rows: rows, k: k, n: n, a: r.random(rows * k), b: r.random(k * n)}
	m.da, m.db, m.out = upload(r, m.a), upload(r, m.b), r.alloc(4*rows*n, device.OnDevice)
	return m
}

func (m *matmul) free() { m.r.free(m.da, m.db, m.out) }

// bind is the product as the workloads run it: rounding to 16 bits included.
func (m *matmul) bind(precision, library string) *op.Bound {
	m.r.t.Helper()
	b, err := op.Gemm{K: m.k, N: m.n, Scale: 1, Act: "none", Normalisation: "exact", Precision: precision, Library: library}.Bind(m.r.dev, m.da, m.db, m.out, m.rows)
	m.r.ok(err)
	return b
}

// time is the library's product alone, its inputs already rounded.
func (m *matmul) time(precision string) float64 {
	m.r.t.Helper()
	f, err := m.r.dev.Load(&device.Kernel{Name: "gemm_" + precision, Sig: "bbbiif", Lib: "gemm_" + precision})
	m.r.ok(err)
	a, b := m.da, m.db
	if precision == op.BF16 || precision == op.FP16 {
		a, b = upload(m.r, halves(m.a, precision)), upload(m.r, halves(m.b, precision))
		defer m.r.free(a, b)
	}
	var args device.Args
	args.SetBuf(0, a)
	args.SetBuf(1, b)
	args.SetBuf(2, m.out)
	args.SetInt(3, m.k)
	args.SetInt(4, m.n)
	args.SetF32(5, 1)
	return m.r.steady(0.3, func() error { return m.r.s.Launch(f, m.rows, &args) })
}

// halves cuts values to 16 bits; which way they are rounded does not matter to
// a time.
func halves(v []float32, precision string) []uint16 {
	out := make([]uint16, len(v))
	for i, x := range v {
		u := math.Float32bits(x)
		if precision == op.BF16 {
			out[i] = uint16(u >> 16)
			continue
		}
		// Sign, exponent moved from base 127 to 15, ten bits; what is below the
		// smallest normal number becomes zero.
		if e := int(u>>23&255) - 112; e > 0 && e < 31 {
			out[i] = uint16(u>>16&0x8000) | uint16(e)<<10 | uint16(u>>13&0x3ff)
		}
	}
	return out
}

// errorOf compares 24 random rows of the output with float64.
func (m *matmul) errorOf(precision string, out []float32) float64 {
	m.r.t.Helper()
	g := op.Gemm{K: m.k, N: m.n, Scale: 1, Act: "none", Normalisation: "exact", Precision: precision}
	b := doubles(m.b)
	var sum [2]float64
	for i := range 24 {
		row := m.r.rnd.IntN(m.rows)
		if i == 0 {
			row = m.rows - 1
		}
		want := make([]float64, m.n)
		m.r.ok(op.RefGemm(g, doubles(m.a[row*m.k:(row+1)*m.k]), b, want))
		distance(&sum, out[row*m.n:(row+1)*m.n], want)
	}
	return relative(sum)
}

// Products at the workloads' own shapes in every precision, the error beside
// the speed: the radial MLP's last layer in deepaw, and a GRU's recurrent
// product in energyflow.
func TestGemmShapes(t *testing.T) {
	r := newRig(t)
	ceilings, err := r.dev.Ceilings(context.Background())
	r.ok(err)
	for _, shape := range [][3]int{pick(r, [3]int{74250, 100, 3238}, [3]int{30, 10, 37}), pick(r, [3]int{12544, 1024, 3072}, [3]int{21, 16, 24})} {
		m := r.newMatmul(shape[0], shape[1], shape[2])
		flops := 2 * float64(m.rows) * float64(m.k) * float64(m.n)
		for _, c := range []struct {
			precision, library string
			tolerance          float64
		}{
			{op.FP32, "off", 1e-5}, {op.FP32, "auto", 1e-5}, {op.TF32, "auto", 2e-3}, {op.BF16, "auto", 2e-2}, {op.FP16, "auto", 5e-3},
		} {
			name := fmt.Sprintf("gemm/%dx%dx%d/%s", m.rows, m.k, m.n, c.precision)
			if c.library == "off" {
				name += "-own"
			}
			bound := m.bind(c.precision, c.library)
			r.poison(m.out)
			r.ok(bound.Enqueue(r.s))
			got := r.download(m.out, 4*m.rows*m.n)
			e := m.errorOf(c.precision, device.Floats(got))
			r.free(got)
			r.within(name, e, c.tolerance)
			took := r.steady(0.2, r.enqueue(bound))
			least := bound.Minimum()
			f := figure{Name: name, Unit: "s", Value: &took, Extra: map[string]float64{"relative_error": e, "flop_per_s": flops / took}}
			f.bound(ceilings.Bound(least, r.dev.Info().CacheBytes))
			if c.library != "off" && r.hasBLAS() {
				alone := m.time(c.precision)
				f.Extra["library_alone_s"], f.Note = alone, "the product is cuBLAS's"
			} else {
				f.Note = "the product is our own kernel's"
			}
			r.keep(f)
			r.ok(bound.Close())
		}
		m.free()
	}
}

// Copies to and from the card, from both kinds of host memory.
func TestHostLink(t *testing.T) {
	r := newRig(t)
	size := pick(r, 256<<20, 4096)
	dev := r.alloc(size, device.OnDevice)
	for _, p := range []device.Place{device.Pinned, device.Pageable} {
		host := r.alloc(size, p)
		b := host.Bytes()
		for i := range b {
			b[i] = byte(i * 7)
		}
		r.ok(r.s.Copy(dev, 0, host, 0, size))
		r.ok(r.s.Sync())
		clear(b)
		r.ok(r.s.Copy(host, 0, dev, 0, size))
		r.ok(r.s.Sync())
		for i := range b {
			if b[i] != byte(i*7) {
				t.Fatalf("byte %d of %s memory came back as %d", i, p, b[i])
			}
		}
		up := float64(size) / r.steady(0.1, func() error { return r.s.Copy(dev, 0, host, 0, size) })
		down := float64(size) / r.steady(0.1, func() error { return r.s.Copy(host, 0, dev, 0, size) })
		r.keep(figure{Name: "host_link/h2d/" + p.String(), Unit: "B/s", Value: &up})
		r.keep(figure{Name: "host_link/d2h/" + p.String(), Unit: "B/s", Value: &down})
		r.free(host)
	}
	r.free(dev)
}
