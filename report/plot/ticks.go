package plot

import (
	"math"
	"strconv"

	gplot "gonum.org/v1/plot"
)

// decades marks an axis that holds decimal logarithms: powers of ten with
// decimal prefixes, and 2 and 5 between them when the axis is short. The data
// are logarithms, rather than the axis's scale, because gonum/plot v0.17 lays
// out the label of a logarithmic axis off its middle and shrinks the plot.
type decades struct{}

func (decades) Ticks(lo, hi float64) []gplot.Tick {
	lo, hi = math.Pow(10, lo), math.Pow(10, hi)
	if !(lo > 0) || !(hi > lo) || math.IsInf(hi, 0) {
		return []gplot.Tick{{Value: 0, Label: "1"}}
	}
	var out []gplot.Tick
	short := hi/lo < 100
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)) && len(out) < 400; e++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			if v < lo*0.999 || v > hi*1.001 {
				continue
			}
			t := gplot.Tick{Value: math.Log10(v)}
			if m == 1 || short && (m == 2 || m == 5) {
				t.Label = si(v)
			}
			out = append(out, t)
		}
	}
	return out
}

// nice marks a linear axis at about six multiples of 1, 2 or 5.
type nice struct{}

func (nice) Ticks(lo, hi float64) []gplot.Tick {
	span := hi - lo
	if !(span > 0) || math.IsInf(span, 0) || span < 1e-12*math.Abs(hi) {
		return []gplot.Tick{{Value: lo, Label: strconv.FormatFloat(lo, 'g', 4, 64)}}
	}
	step := math.Pow(10, math.Floor(math.Log10(span/5)))
	for _, m := range []float64{1, 2, 5, 10} {
		if span/(step*m) <= 7 {
			step *= m
			break
		}
	}
	var out []gplot.Tick
	for k := math.Ceil(lo/step - 1e-9); k*step <= hi*(1+1e-12) && len(out) < 20; k++ {
		v := k * step
		out = append(out, gplot.Tick{Value: v, Label: linear(v, step)})
	}
	return out
}

// unlabelled are the marks of nice without their labels, for plots above
// another one with the same axis.
type unlabelled struct{}

func (unlabelled) Ticks(lo, hi float64) []gplot.Tick {
	out := nice{}.Ticks(lo, hi)
	for i := range out {
		out[i].Label = ""
	}
	return out
}

// few are at most three of the marks of nice, for low plots.
type few struct{}

func (few) Ticks(lo, hi float64) []gplot.Tick {
	all := nice{}.Ticks(lo, hi)
	for len(all) > 3 {
		var half []gplot.Tick
		for i := 0; i < len(all); i += 2 {
			half = append(half, all[i])
		}
		all = half
	}
	return all
}

// ratios marks an axis that holds decimal logarithms of ratios near one.
type ratios struct{}

func (ratios) Ticks(lo, hi float64) []gplot.Tick {
	lo, hi = math.Pow(10, lo), math.Pow(10, hi)
	if !(lo > 0) || !(hi > lo) || math.IsInf(hi, 0) {
		return []gplot.Tick{{Value: 0, Label: "1"}}
	}
	var out []gplot.Tick
	if hi/lo < 3 {
		for _, t := range (nice{}).Ticks(lo, hi) {
			if t.Value > 0 {
				out = append(out, gplot.Tick{Value: math.Log10(t.Value), Label: t.Label})
			}
		}
		return out
	}
	steps := []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9}
	if hi/lo > 6 {
		steps = []float64{1, 1.5, 2, 3, 5, 7}
	}
	if hi/lo > 30 {
		steps = []float64{1, 2, 5}
	}
	for e := math.Floor(math.Log10(lo)); e <= math.Log10(hi) && len(out) < 100; e++ {
		for _, m := range steps {
			if v := m * math.Pow(10, e); v >= lo*0.999 && v <= hi*1.001 {
				out = append(out, gplot.Tick{Value: math.Log10(v), Label: strconv.FormatFloat(v, 'g', 3, 64)})
			}
		}
	}
	return out
}

// linear prints a tick with as many decimals as its step needs.
func linear(v, step float64) string {
	if math.Abs(v) >= 1000 && step >= 100 {
		return si(v)
	}
	if v == 0 {
		return "0"
	}
	return strconv.FormatFloat(v, 'f', max(0, int(math.Ceil(-math.Log10(step)-1e-9))), 64)
}

// si prints a tick with a decimal prefix: "0.01", "100", "10 G".
func si(v float64) string {
	for _, s := range []struct {
		size float64
		name string
	}{{1e15, " P"}, {1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if math.Abs(v) >= s.size*0.999 {
			return strconv.FormatFloat(math.Round(v/s.size*1000)/1000, 'g', 4, 64) + s.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
