package figure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/sweep"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// maxRows limits the rows that a figure can label.
const maxRows = 24

// newRunFigure returns a figure with the run's subject, device, mode and date, and the status of an incomplete run.
func newRunFigure(id, title, desc string, r *gpuprof.Run) *Figure {
	f := &Figure{ID: id, Title: title, Desc: desc, Subject: view.Subject(r), Tool: r.Tool.Version, Context: []string{view.DeviceName(r)}}
	if how := view.HowMeasured(r); how != "" {
		f.Context = append(f.Context, how)
	}
	f.setDate(r.Started)
	if r.Status != gpuprof.Complete {
		f.Context = append(f.Context, strings.ToUpper(view.Status(r)))
	}
	return f
}

// setDate adds the document's date if it is known.
func (f *Figure) setDate(t time.Time) {
	if d := view.Date(t); d != "" {
		f.Context = append(f.Context, d)
	}
}

// oneOf adds a remark with the number and the setting of the first run, which f shows, if runs has several.
func (f *Figure) oneOf(runs []*gpuprof.Run) *Figure {
	if len(runs) > 1 {
		s := fmt.Sprintf("run 1 of %d", len(runs))
		if vary := sweep.Vary(runs); len(vary) > 0 {
			s += ": " + sweep.SettingText(runs[0], vary)
		}
		f.Remarks = append([]string{s}, f.Remarks...)
	}
	return f
}

// setRunLacking is setLacking for a run; why completes the error "drawing roofline: …". For a run without times it sets
// only Notice, with the run's status.
func (f *Figure) setRunLacking(r *gpuprof.Run, why string) *Figure {
	if !view.HasTimes(r) {
		f.Notice = "No times: " + view.Headline(r)
		return f
	}
	return f.setLacking(why)
}

// leastShare is the smallest share of the step with a bar of its own.
const leastShare = 0.0005

// Shares draws the stages' exposed shares of the step as one bar.
func Shares(r *gpuprof.Run) *Figure {
	f := newRunFigure("shares", "Exposed share of each stage", "One bar, divided by how much of the step is exposed time of each stage.", r)
	stages := view.Stages(r)
	if !view.HasTimes(r) || len(stages) == 0 {
		return f.setRunLacking(r, "no stage was measured")
	}
	tones := view.Tones(r)
	p := Panel{X: Axis{Max: 1, Bare: true}, Y: rowAxis([]string{""}), Height: 46}
	at, rest := 0.0, 0.0
	for _, s := range stages {
		if !(s.Share >= leastShare) {
			rest += max(s.Share, 0)
			continue
		}
		name := view.Cut(s.Name, 40)
		text, tone := name+" "+view.Percent(s.Share), toneOf(tones[s.Name])
		p.Marks = append(p.Marks, Mark{Kind: Bar, X0: at, X1: at + s.Share, Y1: 1, Tone: tone, Text: text, Brief: name,
			Tip: name + ": " + view.Percent(s.Share) + ", exposed " + view.Median(s.Exposed)})
		if len(f.Legend) < maxRows {
			f.Legend = append(f.Legend, Entry{Text: text, Tone: tone})
		}
		at += s.Share
	}
	if rest > 0 {
		p.Marks = append(p.Marks, Mark{Kind: Bar, X0: at, X1: 1, Y1: 1, Tone: Rest, Tip: "stages below 0.05 % each: " + view.Percent(rest)})
	}
	if p.Marks == nil {
		return f.setLacking("no stage has exposed time")
	}
	f.Panels = []Panel{p}
	return f
}

// Stages draws each stage's exposed time, longest first; the exposed times add up to the step.
func Stages(r *gpuprof.Run) *Figure {
	f := newRunFigure("stages", "Exposed time by stage", "For each stage the time of the step that is its alone, with its interval, the longest first.", r)
	all := view.Stages(r)
	if !view.HasTimes(r) || len(all) == 0 {
		return f.setRunLacking(r, "no stage was measured")
	}
	all = slices.DeleteFunc(all, func(s view.Stage) bool { return s.Exposed == nil || s.Exposed.Median <= 0 })
	if len(all) == 0 {
		return f.setLacking("no stage has exposed time")
	}
	slices.SortStableFunc(all, func(a, b view.Stage) int { return cmp.Compare(b.Exposed.Median, a.Exposed.Median) })
	if len(all) > maxRows {
		f.addNote(fmt.Sprintf("the longest %d of %d stages", maxRows, len(all)))
		all = all[:maxRows]
	}
	var names []string
	longest := 0.0
	for _, s := range all {
		names = append(names, s.Name)
		if longest = max(longest, s.Exposed.Median); gpuprof.IsFinite(s.Exposed.CI95[1]) {
			longest = max(longest, s.Exposed.CI95[1])
		}
	}
	p := Panel{Y: rowAxis(names), Height: 26 * float64(len(all)), X: secondsAxis("median exposed time per step", longest)}
	p.X.Label += ", whiskers: 95 % interval, " + view.IntervalScope(r.Step)
	tones := view.Tones(r)
	for i, s := range all {
		v, y := s.Exposed, float64(i)
		text, end := view.Median(v), v.Median
		tip := fmt.Sprintf("%s, exposed: %s (%s)", view.Cut(s.Name, 40), text, view.SeriesInterval(v))
		p.Marks = append(p.Marks, Mark{Kind: Bar, X1: v.Median, Y0: y + 0.15, Y1: y + 0.85, Tone: toneOf(tones[s.Name]), Tip: tip})
		if lo, hi := v.CI95[0], v.CI95[1]; gpuprof.IsFinite(lo) && gpuprof.IsFinite(hi) {
			p.Marks = append(p.Marks, Mark{Kind: Range, X0: max(lo, 0), X1: hi, Y0: y + 0.5, Y1: y + 0.5, Tone: Ink})
			end = max(end, hi)
		}
		p.Marks = append(p.Marks, Mark{Kind: Label, X0: end, Y0: y + 0.5, Place: After, Text: text + " · " + view.Percent(s.Share)})
	}
	f.Panels = []Panel{p}
	return f
}

// mostSpans limits the spans of an example step.
const mostSpans = 1500

// Timeline draws the example step: a lane for the host and one per stream.
func Timeline(r *gpuprof.Run) *Figure {
	f := newRunFigure("timeline", "Timeline of the example step", "One lane for the host and one for each stream; spans that lie above each other in time overlap.", r)
	lanes, from, to, left := view.Timeline(r, mostSpans)
	if len(lanes) == 0 || r.Status == gpuprof.Invalid {
		return f.setRunLacking(r, "the run holds no example step")
	}
	lanes = lanes[:min(len(lanes), maxRows)]
	tones, used, names := view.Tones(r), map[string]bool{}, []string{}
	p := Panel{Height: 40 * float64(len(lanes)), X: secondsAxis("time since the step began", to-from)}
	p.X.Min, p.X.Max = from, to
	if from > 0 && from < 0.02*to { // the first tick is 0
		p.X.Min = 0
	}
	for i, l := range lanes {
		names = append(names, l.Name)
		for _, s := range l.Spans {
			used[s.Stage] = true
			m := Mark{Kind: Bar, X0: s.From, X1: s.To, Y0: float64(i) + 0.12, Y1: float64(i) + 0.88, Tone: stageTone(tones, s.Stage), Text: s.Label(),
				Tip: s.Label() + ": " + view.Seconds(s.To-s.From) + " from " + view.Seconds(s.From)}
			if s.Neighbour {
				m.Form, m.Tip = Pale, m.Tip+" (neighbouring step)"
			}
			p.Marks = append(p.Marks, m)
		}
	}
	p.Y = rowAxis(names)
	f.Legend, f.Panels = stageLegend(tones, used), []Panel{p}
	f.addNote("paler: the steps before and after; kernels come from a separate marked pass")
	if left > 0 {
		f.addNote(fmt.Sprintf("the %d shortest spans are left out", left))
	}
	return f
}

func stageTone(tones map[string]int, stage string) Tone {
	if t, ok := tones[stage]; ok {
		return toneOf(t)
	}
	return Rest
}

// stageLegend returns legend entries for the coloured stages that were drawn, by share.
func stageLegend(tones map[string]int, used map[string]bool) []Entry {
	byTone := make([]Entry, view.MaxTones)
	rest := false
	for name := range used {
		if t, ok := tones[name]; ok && t < view.MaxTones {
			byTone[t] = Entry{Text: view.Cut(name, 24), Tone: toneOf(t)}
		} else {
			rest = true
		}
	}
	out := slices.DeleteFunc(byTone, func(e Entry) bool { return e.Text == "" })
	if rest {
		out = append(out, Entry{Text: "other stages", Tone: Rest})
	}
	return out
}
