package gpuprof

import (
	"math"
	"strings"
	"testing"
)

// What an H200 showed: copies at 4.229 TB/s, products at 51.28 (fp32), 367.8
// (tf32), 683.8 (bf16) and 647.3 (fp16) Tflop/s. The rest is made up.
var h200 = Ceilings{
	CopyBytesPerS: 4.229e12, ReadBytesPerS: 4.4e12, WriteBytesPerS: 4.3e12, CacheBytesPerS: 7e12,
	FlopsPerS: 51.28e12, FP64FlopsPerS: 30e12, TF32FlopsPerS: 367.8e12, BF16FlopsPerS: 683.8e12, FP16FlopsPerS: 647.3e12, LaunchS: 1.5e-6,
}

const l2 = 60 << 20

func TestBound(t *testing.T) {
	const gflop, mb = int64(1e9), int64(1e6)
	for name, c := range map[string]struct {
		least  Cost
		rates  func(Ceilings) Ceilings
		want   float64
		by, no string
	}{
		"nothing":             {},
		"float32 products":    {least: Cost{Flops: 400 * gflop}, want: 400e9 / 51.28e12, by: "fp32 arithmetic"},
		"bf16 products":       {least: Cost{Flops: 400 * gflop, BF16: 400 * gflop}, want: 400e9 / 683.8e12, by: "bf16 arithmetic"},
		"tf32 and an addend":  {least: Cost{Flops: 401 * gflop, TF32: 400 * gflop}, want: 400e9 / 367.8e12, by: "tf32 arithmetic"},
		"mostly float32":      {least: Cost{Flops: 400 * gflop, FP16: 10 * gflop}, want: 390e9 / 51.28e12, by: "fp32 arithmetic"},
		"double":              {least: Cost{Flops: 3 * gflop, FP64: 3 * gflop}, want: 3e9 / 30e12, by: "fp64 arithmetic"},
		"reads only":          {least: Cost{BytesRead: l2 + 1000*mb}, want: float64(l2)/7e12 + 1e9/4.4e12, by: "bytes"},
		"writes only":         {least: Cost{BytesWritten: l2 + 1000*mb}, want: float64(l2)/7e12 + 1e9/4.3e12, by: "bytes"},
		"a copy":              {least: Cost{BytesRead: 1000 * mb, BytesWritten: 1000 * mb}, want: float64(l2)/7e12 + (2e9-float64(l2))/4.229e12, by: "bytes"},
		"harmonics fit in L2": {least: Cost{Flops: 158000 * 60, FP64: 158000 * 60, BytesRead: 158000 * 12, BytesWritten: 158000 * 64}, want: 158000 * 76 / 7e12, by: "bytes"},
		"a recurrence":        {least: Cost{Flops: gflop, BytesRead: mb, Sequence: 1500}, want: 1500 * 1.5e-6, by: "launches in sequence"},
		"precision unknown": {least: Cost{Flops: 400 * gflop, BF16: 400 * gflop}, no: "bf16",
			rates: func(c Ceilings) Ceilings { c.BF16FlopsPerS = 0; return c }},
		"other precision unknown": {least: Cost{Flops: 400 * gflop}, want: 400e9 / 51.28e12, by: "fp32 arithmetic",
			rates: func(c Ceilings) Ceilings { c.BF16FlopsPerS = 0; return c }},
		"reads unknown":  {least: Cost{BytesRead: 2000 * mb, BytesWritten: mb}, no: "reads of memory", rates: func(c Ceilings) Ceilings { c.ReadBytesPerS = 0; return c }},
		"cache unknown":  {least: Cost{BytesRead: mb}, no: "cached data", rates: func(c Ceilings) Ceilings { c.CacheBytesPerS = 0; return c }},
		"launch unknown": {least: Cost{Flops: gflop, Sequence: 4}, no: "launch", rates: func(c Ceilings) Ceilings { c.LaunchS = 0; return c }},
		"a rate of NaN":  {least: Cost{Flops: gflop}, no: "fp32", rates: func(c Ceilings) Ceilings { c.FlopsPerS = math.NaN(); return c }},
	} {
		t.Run(name, func(t *testing.T) {
			rates := h200
			if c.rates != nil {
				rates = c.rates(rates)
			}
			b := rates.Bound(c.least, l2)
			if math.Abs(b.S-c.want) > 1e-12*c.want || b.By != c.by || (c.no == "") != (b.Missing == "") || !strings.Contains(b.Missing, c.no) {
				t.Errorf("%+v, want %g by %q, missing %q", b, c.want, c.by, c.no)
			}
		})
	}
}

// More work never has a shorter bound, whatever it is, and adds no jump at the
// size of the cache.
func TestBoundGrows(t *testing.T) {
	for _, grow := range []func(int64) Cost{
		func(n int64) Cost { return Cost{BytesRead: n} },
		func(n int64) Cost { return Cost{BytesWritten: n} },
		func(n int64) Cost { return Cost{BytesRead: n, BytesWritten: n / 3} },
		func(n int64) Cost { return Cost{Flops: n, FP64: n / 2} },
		func(n int64) Cost { return Cost{Flops: n, Sequence: n >> 20} },
	} {
		last := 0.0
		for n := int64(1 << 20); n < 1<<32; n += n >> 3 {
			b := h200.Bound(grow(n), l2)
			if b.S < last || last > 0 && b.S > 1.3*last+2e-6 {
				t.Fatalf("%d: %g after %g", n, b.S, last)
			}
			last = b.S
		}
	}
}

func TestBoundBeside(t *testing.T) {
	b := Bound{S: 3.09e-6, By: "bytes"}
	if got := b.Beside(1e-6); got.S != 0 || !strings.Contains(got.Missing, "309 %") || !strings.Contains(got.Missing, "bytes") {
		t.Errorf("%+v", got)
	}
	for _, measured := range []float64{3.09e-6, 1, 0, math.NaN()} {
		if got := b.Beside(measured); got != b {
			t.Errorf("beside %g: %+v", measured, got)
		}
	}
}

func TestBestCeilings(t *testing.T) {
	low := Ceilings{CopyBytesPerS: 1, FlopsPerS: 90e12, BF16FlopsPerS: math.Inf(1), LaunchS: 1e-6, ReadBytesPerS: math.NaN(), WriteBytesPerS: -1}
	got := h200.Best(low)
	want := h200
	want.FlopsPerS, want.LaunchS = 90e12, 1e-6
	if got != want || low.Best(h200) != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if z := (Ceilings{}).Best(Ceilings{}); z != (Ceilings{}) {
		t.Errorf("of nothing %+v", z)
	}
}
