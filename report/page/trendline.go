package page

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Signs in a trend line. changeSign precedes the first session after a change. classSign precedes the first session of
// another class (machine and settings). outsideSign replaces the bar of a value far outside the line's range.
const (
	changeSign  = '|'
	classSign   = '¦'
	outsideSign = '!'
)

// trendColumns limits the number of bars in a trend line. Signs are not counted.
const trendColumns = 32

// trendLine draws the sessions of a metric as bars, scaled from the 2nd to the 98th percentile; a bar may be the median
// of several sessions. Signs mark a change, another class, and a value far outside that range.
func trendLine(t *history.Trend, m *history.Metric) string {
	per := (len(m.Values) + trendColumns - 1) / trendColumns
	lo, hi, ok := m.Range()
	if !ok {
		return view.None
	}
	signs := map[int]rune{}
	for _, c := range t.Classes[1:] {
		signs[c.First] = classSign
	}
	for _, c := range m.Changes {
		signs[c.At] = changeSign
	}
	bars := []rune(sparkBars)
	var out []rune
	for from := 0; from < len(m.Values); from += per {
		to := min(from+per, len(m.Values))
		var part []float64
		for i := from; i < to; i++ {
			if s, is := signs[i]; is {
				out = append(out, s)
			}
			if v := float64(m.Values[i]); gpuprof.IsFinite(v) {
				part = append(part, v)
			}
		}
		out = append(out, barOf(part, lo, hi, bars))
	}
	return string(out)
}

// barOf returns the bar of some values; a blank without any.
func barOf(values []float64, lo, hi float64, bars []rune) rune {
	if len(values) == 0 {
		return ' '
	}
	v := stats.Medians(values)[0]
	room := (hi - lo) / 2
	switch {
	case hi == lo:
		return bars[len(bars)/2]
	case v > hi+room || v < lo-room:
		return outsideSign
	}
	return bars[min(int((min(max(v, lo), hi)-lo)/(hi-lo)*float64(len(bars))), len(bars)-1)]
}
