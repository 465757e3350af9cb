package brief

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/sweep"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Runs shortens the runs of a workload, or the points of a sweep.
func Runs(runs []*gpuprof.Run) (*Document, error) {
	if len(runs) == 0 {
		return nil, view.ErrNoRun("a brief document")
	}
	head := runs[0].Head
	var texts []string
	if len(runs) > 1 {
		head.Kind = document.Sweep
		texts = []string{cutText(sweep.Answer(runs).Sentence, longText)}
	}
	d := newDocument(head)
	for i, r := range runs {
		if i < mostInputs {
			texts = append(texts, runSentence(r))
		}
		d.addRun(r, len(runs) > 1)
	}
	d.Summary = strings.Join(texts, " ")
	d.countSkipped("summaries of runs", len(runs)-mostInputs)
	return d, nil
}

// addRun adds one run. If there are several, the name of each metric contains the run's settings.
func (d *Document) addRun(r *gpuprof.Run, several bool) {
	of := ""
	if several {
		of = " of " + cutText(r.Workload+" "+r.Preset+" "+settingsText(r), placeText)
	}
	d.addFindings(r.Findings)
	d.Metrics = append(d.Metrics, seriesMetric("step"+of, r.Step)...)
	stages := 0
	for i := range r.Stages {
		if s := &r.Stages[i]; s.Parent == "step" {
			d.Metrics = append(d.Metrics, seriesMetric("step/"+cutText(s.Name, shortText)+of, s.Exposed)...)
			continue
		}
		stages++
	}
	d.addWarnings(r.Warnings)
	d.countSkipped("kernels"+of, stages)
	d.countSkipped("counters"+of, len(r.Counters))
}

// addFindings adds findings whose claims are times of a step.
func (d *Document) addFindings(all []gpuprof.Finding) {
	for i := range all {
		f := findingOf(&all[i])
		f.setSaving(all[i].PerStepS(), "s per step")
		f.setKnob(&all[i])
		d.Findings = append(d.Findings, f)
	}
}

// setKnob describes a change of a workload's knob, with its new and old value, and puts the stage first in Where.
func (f *Finding) setKnob(of *gpuprof.Finding) {
	if of.Knob == "" {
		return
	}
	f.Title = cmp.Or(f.Title, fmt.Sprintf("%s: %s=%s", of.Rule, of.Knob, of.From))
	knob := fmt.Sprintf("set %s=%s in place of %s", of.Knob, of.To, of.From)
	if f.Change != "" {
		knob += ". In a PyTorch program: " + f.Change
	}
	f.Change = knob
	if of.Stage != "" {
		f.Where = append([]string{"stage " + of.Stage}, f.Where...)
	}
}

func settingsText(r *gpuprof.Run) string {
	var parts []string
	for _, k := range r.ModelKnobs[:min(len(r.ModelKnobs), mostInputs)] {
		parts = append(parts, k+"="+r.Knobs[k])
	}
	return strings.Join(parts, " ")
}

func seriesMetric(name string, s *gpuprof.Series) []Metric {
	if view.Usable(s) == nil {
		return nil
	}
	return []Metric{{Name: name, Unit: s.Unit, Value: optionalNumber(s.Median), Interval: [2]gpuprof.Number{gpuprof.Number(s.CI95[0]), gpuprof.Number(s.CI95[1])}}}
}

// runSentence states the run, and its step with the median's interval.
func runSentence(r *gpuprof.Run) string {
	what := fmt.Sprintf("%s %s on %s: %s", r.Workload, r.Preset, cutText(r.Device.Name, 60), r.Status)
	if r.Reason != "" {
		what += " (" + r.Reason + ")"
	}
	if s := view.Usable(r.Step); s != nil {
		what += fmt.Sprintf(", median step %s", gpuprof.FormatSeconds(s.Median))
		if gpuprof.IsFinite(s.CI95[0]) && gpuprof.IsFinite(s.CI95[1]) {
			what += fmt.Sprintf(" (95 %% interval %s to %s)", gpuprof.FormatSeconds(s.CI95[0]), gpuprof.FormatSeconds(s.CI95[1]))
		}
	}
	return cutText(what, longText/2) + "."
}
