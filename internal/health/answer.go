package health

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Tone rates a verdict as good, bad or uncertain news.
func (v Verdict) Tone() gpuprof.Tone {
	switch v {
	case Healthy:
		return gpuprof.ToneGood
	case NotChecked, Unknown:
		return gpuprof.ToneUnsure
	}
	return gpuprof.ToneBad
}

// Answer states the health of the GPUs: the worst figure, or the verdict.
func (r *Report) Answer() gpuprof.Answer {
	a := gpuprof.Answer{Verdict: string(r.Verdict), Tone: r.Verdict.Tone(), Sentence: r.Reason + "."}
	switch {
	case r.Reason == "":
		a.Sentence = r.gpus() + ": the reason was not recorded."
	case r.Verdict == Healthy && r.gpus() != allGPUs: // the other reasons name their devices
		a.Sentence = r.gpus() + ": " + a.Sentence
	case r.Verdict == Unknown:
		a.Sentence = gpuprof.AsSentence(r.Reason)
	}
	switch {
	case r.Verdict == Unhealthy && len(r.Off) > 0:
		o := r.worst()
		a.Sentence = r.offSentence(o)
		a.Bar = o.bar()
		a.Action = gpuprof.FixAction(o.Fix)
	case r.Verdict == NotChecked:
		a.Action = &gpuprof.Action{
			Text: "Measure the GPUs and compare them with siblings.", Command: "gpuprof doctor --bench",
		}
	}
	return a
}

// gpus counts the GPUs for a sentence. It omits the number if no single GPU could be queried (AllGPUs).
func (r *Report) gpus() string {
	if slices.ContainsFunc(r.Devices, func(c Card) bool { return c.Device == AllGPUs }) {
		return allGPUs
	}
	return gpuprof.Plural(len(r.Devices), "GPU")
}

// allGPUs names GPUs of an unknown number.
const allGPUs = "GPUs"

// worst returns the largest deviation; a fault that a device reports counts as larger than any figure.
func (r *Report) worst() *Off {
	top := &r.Off[0]
	for i := range r.Off[1:] {
		o := &r.Off[i+1]
		if o.severity() > top.severity() {
			top = o
		}
	}
	return top
}

func (o *Off) severity() float64 {
	if math.IsNaN(float64(o.Value)) {
		return math.Inf(1)
	}
	return float64(o.Worse)
}

// offSentence describes the worst figure: "gpu1: copy is 1.20 TB/s, 45 % worse than the median of its siblings, 2.20
// TB/s; memory errors: …".
func (r *Report) offSentence(o *Off) string {
	text := r.Identity(o.Device) + ": "
	if math.IsNaN(float64(o.Value)) {
		text += o.Metric + ": " + o.Cause
	} else {
		text += fmt.Sprintf("%s is %s, %s worse than %s, %s",
			o.Metric, FormatFigure(float64(o.Value), o.Unit), gpuprof.FormatPercent(float64(o.Worse), 2),
			o.Expectation(), FormatFigure(float64(o.Expected), o.Unit))
		if o.Cause != "" && o.Evidence {
			text += "; " + o.Cause
		}
	}
	if more := len(r.Off) - 1; more == 1 {
		text += "; 1 more figure is off"
	} else if more > 1 {
		text += fmt.Sprintf("; %d more figures are off", more)
	}
	return strings.TrimSuffix(text, ".") + "."
}

// Expectation names the reference of the comparison.
func (o *Off) Expectation() string {
	switch o.Against {
	case "siblings":
		return "the median of its siblings"
	case "range":
		return "the limit of the shipped range"
	case "itself":
		return "its own maximum"
	case "reference":
		return "the median of the reference"
	}
	return "expected"
}

// bar draws the figure relative to its expected value; nil without an expected value.
func (o *Off) bar() *gpuprof.Bar {
	return gpuprof.RatioBar(o.Metric+", "+o.Device+" / expected", float64(o.Value)/float64(o.Expected), 0, 0)
}

// FormatFigure formats a GPU's figure in its unit.
func FormatFigure(v float64, unit string) string {
	switch unit {
	case "s":
		return gpuprof.FormatSeconds(v)
	case "C", "W", "lanes":
		return fmt.Sprintf("%.4g %s", v, unit)
	}
	return gpuprof.FormatSI(v, unit)
}
