package gpuprof_test

import (
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestBarDrawable(t *testing.T) {
	ratio := func(x float64) *gpuprof.Bar { return &gpuprof.Bar{Ratio: &gpuprof.BarRatio{Value: x}} }
	whole := func(total float64, parts ...float64) *gpuprof.Bar {
		b := &gpuprof.Bar{Total: total}
		for _, v := range parts {
			b.Parts = append(b.Parts, gpuprof.BarPart{Value: v})
		}
		return b
	}
	for _, c := range []struct {
		name string
		bar  *gpuprof.Bar
		want bool
	}{
		{"none", nil, false},
		{"no figure", &gpuprof.Bar{}, false},
		{"ratio", ratio(1.5), true},
		{"ratio of nothing", ratio(0), false},
		{"endless ratio", ratio(math.Inf(1)), false},
		{"no ratio", ratio(math.NaN()), false},
		{"parts", whole(4, 1, 3), true},
		{"parts below the whole", whole(4, 1), true},
		{"whole alone", whole(4), false},
		{"negative part", whole(4, -1, 5), false},
		{"part that is no number", whole(4, math.NaN()), false},
		{"nothing as a whole", whole(0, 0), false},
	} {
		if got := c.bar.Drawable(); got != c.want {
			t.Errorf("%s: drawable %v, want %v", c.name, got, c.want)
		}
	}
}
