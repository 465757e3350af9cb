package view

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Spread is the distribution of one quantity relative to its median.
type Spread struct {
	Name   string // "step", or the stage
	Source string // time used: device, host or exposed
	Series *gpuprof.Series
	// Process has the samples of each process as x/median - 1, in time order, thinned to the requested limit.
	Process     [][]float64
	Kept, Total int     // number of samples in Process, and before thinning
	P05, P95    float64 // of all samples, relative
	// Lo and Hi are a range with most samples and every process's median. Rows have different ranges, because a stage
	// of almost no time can vary by a multiple of its median.
	Lo, Hi  float64
	Bins    [][]int // per process: samples between Lo and Hi, others in the end bins
	Beyond  int     // samples outside Lo and Hi
	Slowest float64 // of all samples, in seconds
}

// spreadBins is the number of bins in a histogram of a Spread.
const spreadBins = 20

// Spreads returns the distributions of the step and its stages, each with at most limit points.
func Spreads(r *gpuprof.Run, limit int) (out []Spread) {
	if !HasTimes(r) {
		return nil
	}
	add := func(name, source string, s *gpuprof.Series) {
		if sp, ok := newSpread(name, source, s, limit); ok {
			out = append(out, sp)
		}
	}
	add("step", "period", r.Step)
	for _, s := range Stages(r) {
		switch {
		case s.Device != nil:
			add(s.Name, "device", s.Device)
		case s.Host != nil:
			add(s.Name, "host", s.Host)
		default:
			add(s.Name, "exposed", s.Exposed)
		}
	}
	return out
}

// countSamples sets the range of a row and counts its samples in bins.
func (sp *Spread) countSamples() {
	lo, hi, _ := stats.Between(0.03, 0.97, sp.Process...)
	medians := stats.Medians(sp.Process...) // keep a process that deviates as a whole in the range
	lo, hi = min(lo, slices.Min(medians)), max(hi, slices.Max(medians))
	room := max(0.25*(hi-lo), 0.005)
	sp.Lo, sp.Hi = max(min(lo-room, 0), -1), max(hi+room, 0)
	sp.Slowest = (slices.Max(slices.Concat(sp.Process...)) + 1) * sp.Series.Median
	for _, run := range sp.Process {
		for _, v := range run {
			if v < sp.Lo || v > sp.Hi {
				sp.Beyond++
			}
		}
		sp.Bins = append(sp.Bins, Histogram(run, sp.Lo, sp.Hi, spreadBins, true))
	}
}

// Histogram counts values between lo and hi in bins of equal width. If edges is set, values outside count in the end
// bins.
func Histogram(vs []float64, lo, hi float64, bins int, edges bool) []int {
	out := make([]int, bins)
	for _, v := range vs {
		if (v < lo || v > hi) && !edges || !(hi > lo) {
			continue
		}
		out[min(max(int((min(max(v, lo), hi)-lo)/(hi-lo)*float64(bins)), 0), bins-1)]++
	}
	return out
}

func newSpread(name, source string, s *gpuprof.Series, limit int) (Spread, bool) {
	runs := Samples(s)
	if Usable(s) == nil || s.Median <= 0 || len(runs) == 0 {
		return Spread{}, false
	}
	sp := Spread{Name: name, Source: source, Series: s, P05: s.P05/s.Median - 1, P95: s.P95/s.Median - 1}
	for _, run := range runs {
		sp.Total += len(run)
	}
	for _, run := range runs {
		rel := make([]float64, 0, min(len(run), limit))
		for _, v := range Thin(run, limit*len(run)/max(sp.Total, 1)) {
			rel = append(rel, v/s.Median-1)
		}
		sp.Kept += len(rel)
		sp.Process = append(sp.Process, rel)
	}
	sp.countSamples()
	return sp, true
}

// Thin returns at most limit values, at least one, evenly spaced. It keeps the extremes, for which readers look.
func Thin(xs []float64, limit int) []float64 {
	if len(xs) <= max(limit, 1) {
		return xs
	}
	if limit < 3 {
		return []float64{xs[len(xs)/2]}
	}
	lo, hi := 0, 0
	for i, x := range xs {
		if x < xs[lo] {
			lo = i
		}
		if x > xs[hi] {
			hi = i
		}
	}
	keep := []int{lo, hi}
	step := float64(len(xs)) / float64(limit-2)
	for i := range limit - 2 {
		keep = append(keep, int(float64(i)*step))
	}
	slices.Sort(keep)
	var out []float64
	for _, i := range slices.Compact(keep) {
		out = append(out, xs[i])
	}
	return out
}

// Tones numbers a run's stages in the order of the step, so that a stage has the same colour on all pages of its
// workload. The gap and stages beyond MaxTones share a colour.
func Tones(r *gpuprof.Run) map[string]int {
	out := map[string]int{}
	next := 0
	for _, s := range Stages(r) {
		tone := MaxTones
		if s.Name != gpuprof.StageGap && next < MaxTones {
			tone, next = next, next+1
		}
		out[s.Name] = tone
	}
	return out
}

// ClassTones numbers the classes of device operations, equally for every trace. Classes without a colour of their own
// have MaxTones.
func ClassTones() map[model.Class]int {
	out := map[model.Class]int{}
	for _, c := range model.Classes() {
		out[c] = MaxTones
	}
	for i, c := range []model.Class{model.GEMM, model.Elementwise, model.Reduction, model.Copy, model.Communication, model.Conv,
		model.Attention, model.TensorProduct, model.Scatter, model.RNN, model.Norm, model.Optimizer} {
		out[c] = i
	}
	// Classes of LLM serving share the colours of classes that serving programs do not use.
	for c, like := range map[model.Class]model.Class{model.AttentionPrefill: model.Attention, model.AttentionDecode: model.Attention,
		model.MoEGEMM: model.TensorProduct, model.MoERouting: model.Scatter, model.MoEAllToAll: model.Communication, model.KVCache: model.RNN,
		model.Rotary: model.Optimizer, model.Quantize: model.Conv, model.Sampling: model.Reduction} {
		out[c] = out[like]
	}
	return out
}

// MaxTones is the number of colours for stages or classes.
const MaxTones = 12

// Scale returns the divisor and name of the unit for values up to max seconds.
func Scale(max float64) (float64, string) {
	switch {
	case !gpuprof.IsFinite(max) || max <= 0 || max >= 1:
		return 1, "s"
	case max >= 1e-3:
		return 1e-3, "ms"
	case max >= 1e-6:
		return 1e-6, "us"
	}
	return 1e-9, "ns"
}

// Spaced reports whether values need a logarithmic axis: all are positive, and the largest is over five times the
// smallest.
func Spaced(xs []float64) bool {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, x := range xs {
		lo, hi = min(lo, x), max(hi, x)
	}
	return lo > 0 && hi/lo > 5
}
