package op

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Every 16-bit pattern survives the way to float32 and back.
func TestHalvesSurvive(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		if v := decodeFP16(h); v == v && encodeFP16(v) != h {
			t.Fatalf("fp16 %#04x is %g, which rounds to %#04x", h, v, encodeFP16(v))
		}
		if v := decodeBF16(h); v == v && encodeBF16(v) != h {
			t.Fatalf("bf16 %#04x is %g, which rounds to %#04x", h, v, encodeBF16(v))
		}
		if v := decodeFP16(h); v != v && decodeFP16(encodeFP16(v)) == decodeFP16(encodeFP16(v)) {
			t.Fatalf("fp16 %#04x: a NaN became a number", h)
		}
	}
	for h, want := range map[uint16]float32{0x3c00: 1, 0x7bff: 65504, 0x0001: 0x1p-24, 0x0400: 0x1p-14, 0xc000: -2, 0x7c00: float32(math.Inf(1))} {
		if got := decodeFP16(h); got != want {
			t.Errorf("fp16 %#04x is %g, expected %g", h, got, want)
		}
	}
}

// Rounding gives the nearest value of the grid, the even one of two.
func TestRoundingIsToNearestEven(t *testing.T) {
	grids := []struct {
		name     string
		bits     int     // of mantissa kept
		smallest float64 // spacing of subnormals
		largest  float64
		round    func(float32) float32
	}{
		{"tf32", 10, 0x1p-136, math.MaxFloat32, roundTF32},
		{"bf16", 7, 0x1p-133, math.MaxFloat32, roundOne[BF16]},
		{"fp16", 10, 0x1p-24, 65504, roundOne[FP16]},
	}
	for _, g := range grids {
		rapid.Check(t, func(t *rapid.T) {
			x := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
			if rapid.Bool().Draw(t, "near one") {
				x = math.Float32frombits(rapid.Uint32Range(0x33000000, 0x47a00000).Draw(t, "bits near one"))
			}
			got := float64(g.round(x))
			if x != x || math.IsInf(float64(x), 0) {
				if math.Float64bits(got) != math.Float64bits(float64(x)) && x == x {
					t.Fatalf("%s of %g is %g", g.name, x, got)
				}
				return
			}
			// The spacing of the grid at x, and the nearest multiple of it.
			_, e := math.Frexp(float64(x))
			step := max(math.Ldexp(1, e-1-g.bits), g.smallest)
			want := math.RoundToEven(float64(x)/step) * step
			if math.Abs(want) > g.largest {
				want = math.Inf(int(math.Copysign(1, want)))
			}
			if got != want {
				t.Fatalf("%s of %g (%#08x) is %g, expected %g", g.name, x, math.Float32bits(x), got, want)
			}
		})
	}
}

// Every precision differs from the exact product as much as its rounding says
// and no more: the host's products round, too.
func TestPrecisions(t *testing.T) {
	const rows, kk, n, padded = 300, 41, 520, 48 // K of what is packed is a multiple of eight
	r := newRig(t, 2)
	a, b, out := r.normal(rows*kk), r.normal(kk*n), r.poisoned(rows*n)
	want := make([]float64, rows*n)
	for _, c := range []struct {
		name          string
		least, at     float64
		launches      int
		scratchFloats int64
	}{
		{"", 0, 1e-5, 1, 0}, {FP32, 0, 1e-5, 1, 0}, {TF32, 1e-4, 2e-3, 2, 0},
		{BF16, 1e-3, 2e-2, 4, (rows + n) * padded / 2}, {FP16, 1e-4, 5e-3, 4, (rows + n) * padded / 2}, {TF32x3, 0, 1e-5, 4, (rows + n) * 3 * padded},
	} {
		g := Gemm{K: kk, N: n, Scale: 0.2, Act: "tanh", Normalisation: NormExact, Precision: c.name}
		for row := range rows {
			if err := RefGemm(g, wide(a, row*kk, (row+1)*kk), wide(b, 0, kk*n), want[row*n:(row+1)*n]); err != nil {
				t.Fatal(err)
			}
		}
		poison(out)
		bound := r.must(g.Bind(r.dev, a, b, out, rows))
		r.run(bound)
		e := near(t, c.name, wide(out, 0, rows*n), want, c.at)
		t.Logf("%q: relative error %.2g", c.name, e)
		if e < c.least {
			t.Errorf("%q: relative error %.2g; it cannot have rounded", c.name, e)
		}
		if len(bound.Parts()) != c.launches {
			t.Errorf("%q: %d launches, expected %d", c.name, len(bound.Parts()), c.launches)
		}
		got, err := Need(r.dev, func(d device.Device) error {
			_, err := g.Bind(d, a, b, out, rows)
			return err
		})
		if err != nil || got != 4*c.scratchFloats {
			t.Errorf("%q: %d bytes of scratch, expected %d, %v", c.name, got, 4*c.scratchFloats, err)
		}
	}
}

func TestGemmLibrary(t *testing.T) {
	without := device.Info{Kind: "cuda", Name: "test"}
	with := device.Info{Kind: "cuda", Name: "test", Facts: map[string]string{"cublas": "12.8"}}
	for _, c := range []struct {
		library, precision string
		info               device.Info
		vendor, refused    bool
	}{
		{"", "", without, false, false}, {"auto", "", with, true, false}, {"off", "", with, false, false},
		{"on", "", with, true, false}, {"on", "", without, false, true}, {"", TF32, without, true, false},
		{"off", BF16, with, false, true}, {"maybe", "", with, false, true}, {"", "fp8", with, false, true},
	} {
		g := Gemm{K: 1, N: 1, Act: "none", Library: c.library, Precision: c.precision}
		vendor, err := g.needsVendor(c.info)
		if vendor != c.vendor || (err != nil) != c.refused {
			t.Errorf("%s: vendor %t, error %v; expected %t, refused %t", fmt.Sprintf("%+v", c), vendor, err, c.vendor, c.refused)
		}
	}
}
