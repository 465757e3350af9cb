package figure

import (
	"math"
	"strconv"
)

// ticksOf returns labelled ticks of an axis. long is the length of the axis and each the preferred distance of ticks,
// both in units of the layout.
func (a *Axis) ticksOf(long, each float64) []Tick {
	most := int(min(max(long/each, 2), 9))
	switch {
	case a.Ticks != nil:
		return a.Ticks
	case a.Scale == Log && a.Changes:
		return changeTicks(a.Min, a.Max, most)
	case a.Scale == Log:
		return decadeTicks(a.Min, a.Max, a.unitSize(), most)
	}
	var out []Tick
	all := stepTicks(a.Min/a.unitSize(), a.Max/a.unitSize(), most)
	for _, v := range all {
		out = append(out, Tick{v * a.unitSize(), tickText(v, all)})
	}
	return out
}

func (a *Axis) unitSize() float64 {
	if a.Unit > 0 {
		return a.Unit
	}
	return 1
}

// stepTicks returns about most round values between lo and hi, but at least two, since one shows no scale.
func stepTicks(lo, hi float64, most int) []float64 {
	span := hi - lo
	if !(span > 0) || math.IsInf(span, 0) || span < 1e-12*math.Abs(hi) {
		return nil
	}
	unit, factors := math.Pow(10, math.Floor(math.Log10(span/float64(most)))), []float64{0.5, 1, 2, 5, 10}
	at := 1
	for at < len(factors)-1 && span/(unit*factors[at]) > float64(most) {
		at++
	}
	out := multiplesOf(lo, hi, unit*factors[at])
	if len(out) < 2 {
		out = multiplesOf(lo, hi, unit*factors[at-1])
	}
	return out
}

func multiplesOf(lo, hi, step float64) []float64 {
	var out []float64
	for k := math.Ceil(lo/step - 1e-9); k*step <= hi+step*1e-9 && len(out) < 30; k++ {
		out = append(out, k*step+0) // +0 turns -0 into 0
	}
	return out
}

// tickText formats a tick with as many decimals as are needed to distinguish the ticks.
func tickText(v float64, all []float64) string {
	step := math.Abs(v)
	if len(all) > 1 {
		step = all[1] - all[0]
	}
	if math.Abs(v) < step*1e-9 {
		return "0"
	}
	if math.Abs(v) >= 10000 {
		return formatSI(v)
	}
	if step < 1e-9 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return strconv.FormatFloat(v, 'f', max(0, int(math.Ceil(-math.Log10(step)-1e-9))), 64)
}

// decadeTicks returns powers of ten, with 2 and 5 between them on a short axis.
func decadeTicks(lo, hi, unit float64, most int) []Tick {
	lo, hi = lo/unit, hi/unit
	if !(lo > 0) || !(hi > lo) || math.IsInf(hi, 0) {
		return nil
	}
	decades := math.Log10(hi / lo)
	between := []float64{1}
	if decades*3 <= float64(most) {
		between = []float64{1, 2, 5}
	}
	every := max(1, math.Ceil(decades/float64(most)))
	var out []Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Log10(hi) && len(out) < 40; e += every {
		for _, m := range between {
			if v := m * math.Pow(10, e); v >= lo*0.999 && v <= hi*1.001 {
				out = append(out, Tick{v * unit, formatSI(v)})
			}
		}
	}
	return out
}

// changeTicks returns ticks that show small changes in percent and large ones as factors.
func changeTicks(lo, hi float64, most int) []Tick {
	if !(lo > 0) || !(hi > lo) || math.IsInf(hi, 0) {
		return nil
	}
	var out []Tick
	if hi/lo < 1.8 {
		for _, v := range stepTicks((lo-1)*100, (hi-1)*100, most) {
			text := strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) + " %"
			if v > 0 {
				text = "+" + text
			}
			out = append(out, Tick{1 + v/100, text})
		}
		return out
	}
	values := []float64{0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20}
	if hi/lo < 6 {
		values = []float64{0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5}
	}
	for _, v := range values {
		if v >= lo && v <= hi {
			out = append(out, Tick{v, "x" + strconv.FormatFloat(v, 'f', -1, 64)})
		}
	}
	return out
}

// formatSI formats a tick with a decimal prefix: "0.01", "100", "10 G".
func formatSI(v float64) string {
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
