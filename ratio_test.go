package gpuprof_test

import (
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestRatios(t *testing.T) {
	for _, c := range []struct {
		got, want string
	}{
		{gpuprof.FormatRatio(1.2854), "x1.285"},
		{gpuprof.FormatRatio(12.34), "x12.3"},
		{gpuprof.FormatRatio(120.4), "x120"},
		{gpuprof.FormatRatio(2e-5), "x2.0e-05"},
		{gpuprof.FormatRatio(0), "x0.000"},
		{gpuprof.FormatRatio(math.NaN()), "unknown"},
		{gpuprof.FormatRatio(math.Inf(1)), "unknown"},
		{gpuprof.FormatP(0.0123), "0.012"},
		{gpuprof.FormatP(0.0009), "<0.001"},
		{gpuprof.FormatP(math.NaN()), "unknown"},
		{gpuprof.FormatCount(0), "0"},
		{gpuprof.FormatCount(999), "999"},
		{gpuprof.FormatCount(1000), "1,000"},
		{gpuprof.FormatCount(-1234567), "-1,234,567"},
		{gpuprof.FormatCount(1234.56), "1,234.6"},
		{gpuprof.FormatCount(2.5), "2.5"},
		{gpuprof.FormatCount(math.NaN()), "unknown"},
		{gpuprof.FormatInterval(1.285, 1.251, 1.32), "95 % +25.1 % to +32.0 %"},
		{gpuprof.FormatInterval(0.31, 0.28, 0.35), "95 % -72.0 % to -65.0 %"},
		{gpuprof.FormatInterval(4.3, 3.9, 5.6), "95 % x3.900 to x5.600"},
		{gpuprof.FormatInterval(1, math.NaN(), 1), ""},
		{gpuprof.FormatInterval(1, 0, 0), ""},
		{gpuprof.FormatRatioChange(1.285, 1.251, 2.2), "+28.5 % (95 % +25.1 % to +120.0 %)"},
		{gpuprof.FormatRatioChange(4.3, 3.9, 5.6), "x4.300 (95 % x3.900 to x5.600)"},
		{gpuprof.FormatRatioChange(0.8, math.NaN(), math.NaN()), "-20.0 %"},
		{gpuprof.FormatRatioChange(math.NaN(), 1, 1), ""},
		{gpuprof.FormatRatioChange(0, 1, 1), ""},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
