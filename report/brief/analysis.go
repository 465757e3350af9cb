package brief

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// Analysis shortens an analysis of traces.
func Analysis(a *analyze.Analysis) *Document {
	d := newDocument(a.Head)
	var paths []string
	for _, in := range a.Inputs {
		paths = append(paths, in.Path)
	}
	d.addInputs(paths...)
	d.Summary = stepSentence(a) + " " + cutText(a.Bound.Text, longText)
	if len(a.Findings) == 0 {
		d.Summary = strings.TrimSpace(d.Summary) + " There are no findings."
	}
	for i := range a.Findings {
		d.Findings = append(d.Findings, traceFinding(a, &a.Findings[i]))
	}
	for _, e := range a.Explained {
		d.Explained = append(d.Explained, cutText(e.Text, longText))
	}
	d.addWarnings(a.Warnings)
	for _, t := range []struct {
		what string
		n    int
	}{{"steps", len(a.Steps)}, {"devices", len(a.Devices)}, {"kernels", len(a.Kernels)}, {"operators", len(a.Operators)}, {"modules", len(a.Modules)}, {"ranks", len(a.Ranks)}} {
		d.countSkipped(t.what, t.n)
	}
	return d
}

// stepSentence states the mean step with its range, or the recording's length if it has no steps.
func stepSentence(a *analyze.Analysis) string {
	s := &a.Step
	switch s.Count {
	case 0:
		return fmt.Sprintf("No steps were found: the recording window is %s.", gpuprof.FormatNS(s.NS))
	case 1:
		return fmt.Sprintf("One step was recorded: %s.", gpuprof.FormatNS(s.NS))
	}
	return fmt.Sprintf("The mean of %d steps is %s (%s to %s).", s.Count, gpuprof.FormatNS(s.NS), gpuprof.FormatNS(s.MinNS), gpuprof.FormatNS(s.MaxNS))
}

func traceFinding(a *analyze.Analysis, f *gpuprof.Finding) Finding {
	out := findingOf(f)
	out.setSaving(f.PerStepS(), "s per step")
	if a.Step.Count == 0 {
		out.Unit = "s"
	}
	return out
}

// findingOf shortens a finding of a trace or a run. It does not set the claim.
func findingOf(f *gpuprof.Finding) Finding {
	out := Finding{ID: f.Rule, Severity: f.Severity, Suspected: f.Suspect, Title: cutText(f.Title, longText), Share: f.Share,
		Change: cutText(f.PyTorch, longText), Verify: cutText(f.Command, longText), Caveats: cutTexts(f.Caveats, shortText)}
	for _, s := range f.Sites[:min(len(f.Sites), mostInputs)] {
		out.Where = append(out.Where, cutPlace(s.Where))
	}
	return out
}

func (d *Document) addWarnings(all []gpuprof.Warning) {
	for _, w := range all {
		d.Warnings = append(d.Warnings, gpuprof.Warning{Code: w.Code, Text: cutText(w.Text, longText), Fix: cutText(w.Fix, shortText)})
	}
}

// Traces shortens a comparison of two analyses.
func Traces(c *analyze.Comparison) *Document {
	d := newDocument(c.Head)
	d.Summary = cutText(c.Answer().Sentence, longText)
	for _, side := range []*analyze.Analysis{c.Old, c.New} {
		if side != nil && len(side.Inputs) > 0 {
			d.addInputs(side.Inputs[0].Path)
		}
	}
	for i := range c.Findings {
		d.Outcomes = append(d.Outcomes, outcomeOf(&c.Findings[i]))
	}
	if c.New != nil { // the findings that remain on the new side
		for i := range c.New.Findings {
			d.Findings = append(d.Findings, traceFinding(c.New, &c.New.Findings[i]))
		}
	}
	changed := slices.Clone(c.Classes)
	slices.SortStableFunc(changed, func(x, y analyze.Change) int {
		return cmp.Compare(max(y.NewNS-y.OldNS, y.OldNS-y.NewNS), max(x.NewNS-x.OldNS, x.OldNS-x.NewNS))
	})
	for _, s := range changed {
		d.Metrics = append(d.Metrics, Metric{Name: s.Name, Unit: "s per step", Old: optionalNumber(gpuprof.Seconds(s.OldNS)), New: optionalNumber(gpuprof.Seconds(s.NewNS)),
			Interval: [2]gpuprof.Number{unknownNumber(), unknownNumber()}})
	}
	d.addWarnings(c.Warnings)
	d.countSkipped("operators", len(c.Operators))
	d.countSkipped("settings", len(c.Settings))
	d.countSkipped("bounds", len(c.Bounds))
	return d
}

func outcomeOf(f *analyze.FindingChange) Outcome {
	out := Outcome{ID: f.Rule, Outcome: f.Outcome, CameTrue: f.CameTrue, Text: cutText(f.Statement, longText),
		Delivered: unknownNumber(), Interval: [2]gpuprof.Number{unknownNumber(), unknownNumber()}}
	if f.LowNS != nil && f.HighNS != nil {
		out.Delivered = gpuprof.Number(gpuprof.Seconds(f.DeliveredNS))
		out.Interval = [2]gpuprof.Number{gpuprof.Number(gpuprof.Seconds(*f.LowNS)), gpuprof.Number(gpuprof.Seconds(*f.HighNS))}
	}
	return out
}
