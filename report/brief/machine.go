package brief

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/explain"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Diagnosis shortens the result of gpuprof doctor. Checks that are missing or limited come first.
func Diagnosis(g *gpuprof.Diagnosis) *Document {
	d := newDocument(g.Head)
	count := map[gpuprof.CheckState]int{}
	for _, l := range g.Checks {
		count[l.State]++
		d.Checks = append(d.Checks, Check{Name: cutText(l.Name, placeText), State: string(l.State), Found: cutText(l.Found, shortText), Reason: cutText(l.Reason, longText), Fix: cutText(l.Fix, longText)})
	}
	slices.SortStableFunc(d.Checks, func(a, b Check) int { return okLast(a) - okLast(b) })
	d.Summary = cutText(g.Answer().Sentence, longText) + fmt.Sprintf(" %d checks are ok, %d limited and %d missing.", count[gpuprof.OK], count[gpuprof.Limited], count[gpuprof.Missing])
	return d
}

func okLast(c Check) int {
	if c.State == string(gpuprof.OK) {
		return 1
	}
	return 0
}

// Health shortens a report on GPUs to each GPU's deviations and the checks that were not made.
func Health(r *health.Report) *Document {
	d := newDocument(r.Head)
	code := r.ExitCode
	d.Verdict, d.ExitCode, d.Summary = string(r.Verdict), &code, cutText(r.Answer().Sentence, longText)
	for _, o := range r.Off {
		d.Checks = append(d.Checks, Check{Name: cutText(o.Device+" "+o.Metric, placeText), State: "off", Found: offText(&o), Reason: cutText(o.Cause, longText), Fix: cutText(o.Fix, longText)})
	}
	for i := range r.Devices {
		c := &r.Devices[i]
		if c.Error != "" {
			d.Checks = append(d.Checks, Check{Name: cutText(c.Device, placeText), State: "failed", Reason: cutText(c.Error, longText)})
		}
		for _, s := range c.Sources {
			if s.Answer != health.NoFault {
				d.Checks = append(d.Checks, Check{Name: cutText(c.Device+" "+s.Name, placeText), State: string(s.Answer), Reason: cutText(s.Text, longText), Fix: cutText(s.Fix, longText)})
			}
		}
		d.countSkipped("metrics of "+cutText(c.Device, 60), len(c.Metrics))
		if i == mostInputs {
			d.countSkipped("devices", len(r.Devices)-i-1)
			break
		}
	}
	d.Next = cutTexts(r.Notes, longText)
	d.countSkipped("links", len(r.Links))
	return d
}

func offText(o *health.Off) string {
	text := view.SI(float64(o.Value), o.Unit)
	if gpuprof.IsFinite(float64(o.Expected)) {
		text += ", expected " + view.SI(float64(o.Expected), o.Unit) + " by " + o.Against
	}
	return text
}

// Explanations builds the short document of the explanations of one name.
func Explanations(entries []explain.Entry) *Document {
	d := newDocument(gpuprof.Head{Kind: "explanation"})
	for i := range entries {
		e := &entries[i]
		out := Explanation{Name: e.Name, Kind: string(e.Kind)}
		for _, p := range e.Parts {
			out.Texts = append(out.Texts, p.Title+": "+explain.Plain(p.Text))
		}
		d.Explanations = append(d.Explanations, out)
		if i == 0 {
			d.Summary = cutText(explain.Plain(e.Brief()), longText) + "."
		}
	}
	return d
}
