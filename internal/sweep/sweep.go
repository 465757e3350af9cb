// Package sweep judges several runs of a workload: the settings in which they differ, the setting with the highest
// throughput, and the load up to which a service answers in time. Its functions take at least one run, and none is nil.
package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Answer states the knee of a service, or the fastest setting.
func Answer(runs []*gpuprof.Run) gpuprof.Answer {
	a := gpuprof.Answer{Verdict: "measured", Tone: gpuprof.TonePlain}
	curves, only := Loads(runs)
	switch {
	case len(curves) > 0:
		knee, above := curves[0].Knee()
		a.Verdict, a.Tone = "no knee", gpuprof.ToneUnsure
		if knee >= 0 && above < 0 {
			a.Verdict, a.Tone = fmt.Sprintf("knee at load %.3g", knee), gpuprof.TonePlain
		}
		a.Bar = curves[0].Bar()
		text := curves[0].Text()
		a.Sentence = strings.ToUpper(text[:1]) + text[1:] + "."
		if !only {
			text, _ := winner(runs)
			a.Sentence = strings.TrimSpace(a.Sentence + " " + text)
		}
	default:
		a.Sentence, a.Bar = winner(runs)
		a.Sentence = cmp.Or(a.Sentence, "Measured: "+gpuprof.Plural(len(runs), "setting")+".")
	}
	return a
}

// winner names the setting with the highest throughput, or with the shortest step if work is not counted, and whether
// its interval overlaps the next one's. The bar is the ratio of the two, with an interval from the ends of both
// intervals, which covers at least 90 %. text is "" and bar nil for fewer than two measured settings.
func winner(runs []*gpuprof.Run) (text string, bar *gpuprof.Bar) {
	var measured []*gpuprof.Run
	counted, unit := true, ""
	for _, r := range runs {
		if r.Status == gpuprof.Invalid || !r.Step.Usable() {
			continue
		}
		measured = append(measured, r)
		rated := r.Throughput != nil && r.Throughput.Series.Usable()
		if rated && unit == "" {
			unit = r.Throughput.Unit
		}
		counted = counted && rated && r.Throughput.Unit == unit
	}
	type place struct {
		run    *gpuprof.Run
		s      *gpuprof.Series
		ci     [2]float64
		figure string
	}
	var places []place
	for _, r := range measured {
		s, ci, of := r.Step, [2]float64(r.Step.CI95), "s"
		if counted {
			s, ci, of = r.Throughput.Series, rateInterval(r.Throughput.Series, r.Step), unit
		}
		places = append(places, place{r, s, ci, gpuprof.Format(s.Median, of, s.Digits())})
	}
	if len(places) < 2 || len(Vary(runs)) == 0 {
		return "", nil
	}
	what, side, sign := "the shortest step", "above", 1.0
	if counted {
		what, side, sign = "the highest throughput", "below", -1
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(sign*a.s.Median, sign*b.s.Median) })
	best, next := places[0], places[1]
	text = fmt.Sprintf("%s has %s, %s. The interval of the next, %s with %s, ", SettingOf(best.run, runs), what, best.figure, SettingOf(next.run, runs), next.figure)
	low, high := best.ci, next.ci
	if counted {
		low, high = high, low
	}
	measure := map[bool]string{true: "throughput", false: "step time"}[counted]
	bar = gpuprof.RatioBar(fmt.Sprintf("%s, %s / %s", measure, SettingOf(best.run, runs), SettingOf(next.run, runs)),
		best.s.Median/next.s.Median, best.ci[0]/next.ci[1], best.ci[1]/next.ci[0])
	far := high[0] - low[1]
	switch {
	case !gpuprof.IsFinite(far) || best.ci == [2]float64{} || next.ci == [2]float64{}:
		return text + "is unknown.", bar
	case far > 0:
		return text + "lies " + side + " its own.", bar
	}
	return text + "overlaps its own: neither is shown to be faster.", bar
}

// rateInterval returns the interval of a throughput, widened to the step's interval. A rate comes from few spans of the
// run: if three of them are equal by chance, its interval is narrow although single steps differ twofold.
func rateInterval(rate, step *gpuprof.Series) [2]float64 {
	ci, steps := rate.CI95, step.CI95
	if ci == [2]float64{} || steps == [2]float64{} {
		return [2]float64{}
	}
	work := rate.Median * step.Median
	return [2]float64{min(ci[0], work/steps[1]), max(ci[1], work/steps[0])}
}

// Vary lists the keys that differ between runs: knobs, then workload, preset, device, mode and seed.
func Vary(runs []*gpuprof.Run) []string {
	names := map[string]bool{}
	for _, r := range runs {
		for k := range r.Knobs {
			names[k] = true
		}
	}
	var out []string
	for _, k := range append(slices.Sorted(maps.Keys(names)), "workload", "preset", "device", "mode", "seed") {
		for _, r := range runs[min(1, len(runs)):] {
			if Setting(r, k) != Setting(runs[0], k) {
				out = append(out, k)
				break
			}
		}
	}
	return out
}

// Setting returns the value of a knob or of another key of Vary.
func Setting(r *gpuprof.Run, name string) string {
	if v, ok := r.Knobs[name]; ok {
		return v
	}
	switch name {
	case "workload":
		return r.Workload
	case "preset":
		return r.Preset
	case "device":
		return r.Device.Name
	case "mode":
		return string(r.Mode)
	case "seed":
		return strconv.FormatUint(r.Seed, 10)
	}
	return ""
}

// SettingText formats "batch=64 impl=csr" for the given names.
func SettingText(r *gpuprof.Run, names []string) string {
	var parts []string
	for _, n := range names {
		parts = append(parts, gpuprof.Cut(n, 24)+"="+gpuprof.Cut(Setting(r, n), 32))
	}
	return strings.Join(parts, " ")
}

// SettingOf names one of several runs by its setting.
func SettingOf(r *gpuprof.Run, runs []*gpuprof.Run) string {
	if s := strings.TrimSpace(SettingText(r, Vary(runs))); s != "" {
		return s
	}
	if i := slices.Index(runs, r); i >= 0 {
		return fmt.Sprintf("run %d", i+1)
	}
	return "run"
}
