package html

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

const traceFooter = "Claims are upper bounds from the spans of the trace."

type traceFinding struct {
	Rule, Title, Severity, Badge, Knob, Command, Caveats string
	Suspect                                              bool
	Evidence                                             []labelled
	Sites                                                [][]string
}

type analysisView struct {
	Verdict      string
	Findings     []traceFinding
	Warnings     []gpuprof.Warning
	Explained    []string
	WhereNote    string
	Accounts     []*chart
	Legend       []legendItem
	AccountTable gridView
	Steps        *chart
	StepNote     string
	StepLegend   []legendItem
	Timeline     bool
	TimelineNote string
	Overview     *chart
	Tables       []gridView
}

// WriteAnalysis writes the page of an analysis. The indexes, one an input,
// give the timeline; without them it is left out.
func WriteAnalysis(w io.Writer, a *trace.Analysis, xs []*trace.Index) error {
	tones := classTones(a)
	v := &analysisView{Warnings: a.Warnings, Findings: traceFindings(a), Verdict: traceVerdict(a), WhereNote: whereNote(a)}
	for _, e := range a.Explained {
		v.Explained = append(v.Explained, e.Text)
	}
	for i := range a.Devices {
		v.Accounts = append(v.Accounts, accountChart(a, i, tones))
	}
	v.Legend, v.AccountTable = classLegend(a, tones), accountTable(a)
	v.Steps, v.StepNote, v.StepLegend = stepChart(a)
	p := &document{Title: analysisTitle(a), Meta: analysisMeta(a), Analysis: v, Footer: traceFooter}
	lines, resolution, err := timelineOf(a, xs, tones)
	if err != nil {
		return err
	}
	if lines != "" {
		p.Timeline, v.Timeline = lines, true
		v.TimelineNote = "Every operation is in the timeline."
		if resolution > 0 {
			v.TimelineNote = fmt.Sprintf("Neighbours that together last less than %s are drawn as one; the tables hold every operation.", ns(resolution))
		}
		v.Overview = overviewChart(xs, tones)
	}
	v.Tables = analysisTables(a)
	return p.write(w, a.Tool, "analysis.json", a)
}

func ns(v int64) string { return view.Seconds(float64(v) * 1e-9) }

func nsShare(part, whole int64) string {
	if whole <= 0 || part == 0 {
		return view.None
	}
	return view.Percent(float64(part) / float64(whole))
}

func analysisTitle(a *trace.Analysis) string {
	if len(a.Inputs) == 0 {
		return "Trace analysis"
	}
	name := view.Cut(filepath.Base(a.Inputs[0].Path), 80)
	if n := len(a.Inputs); n > 1 {
		name += fmt.Sprintf(" and %d more", n-1)
	}
	return name
}

func analysisMeta(a *trace.Analysis) string {
	var parts, names []string
	for _, d := range a.Devices {
		if d.Name != "" && !slices.Contains(names, d.Name) {
			names = append(names, view.Cut(d.Name, 60))
		}
	}
	parts = append(parts, names...)
	if a.Step.Count > 0 {
		parts = append(parts, fmt.Sprintf("mean step %s (%s to %s)", ns(a.Step.NS), ns(a.Step.MinNS), ns(a.Step.MaxNS)),
			view.Plural(a.Step.Count, "step")+" ("+view.Cut(a.StepSource, 60)+")")
	} else {
		parts = append(parts, "recording window "+ns(a.Step.NS)+" (no steps found)")
	}
	events := 0
	for _, in := range a.Inputs {
		events += in.Events
	}
	return strings.Join(append(parts, view.Plural(events, "event")), " · ")
}

// whereNote says what the bars of the devices are the parts of.
func whereNote(a *trace.Analysis) string {
	whole := fmt.Sprintf("the mean step of %s", ns(a.Step.NS))
	if a.Step.Count == 0 {
		whole = fmt.Sprintf("the recording window of %s", ns(a.Step.NS))
	}
	return "Every nanosecond of " + whole + " is busy (in one class), starved (the host had not launched the next operation yet), queued (launched, not running), unknown, or outside (before the device's first operation and after its last one). The parts add up to it."
}

func traceVerdict(a *trace.Analysis) string {
	if len(a.Findings) == 0 {
		return a.Bound.Text
	}
	claims := 0
	for _, f := range a.Findings {
		if f.ClaimNS > 0 {
			claims++
		}
	}
	if claims == 0 {
		return a.Bound.Text + " The rest is worth knowing."
	}
	return fmt.Sprintf("%s, the largest first. Each is an upper bound, and no nanosecond is claimed twice.", view.Plural(claims, "change")+" could win back time")
}

func traceFindings(a *trace.Analysis) []traceFinding {
	var out []traceFinding
	for _, f := range a.Findings {
		badge := string(f.Severity)
		if f.Severity == gpuprof.Medium {
			badge = "partial"
		}
		t := traceFinding{Rule: f.Rule, Title: f.Title, Severity: string(f.Severity), Badge: badge, Knob: f.PyTorch,
			Command: f.Command, Caveats: strings.Join(f.Caveats, "; "), Suspect: f.Suspect}
		for _, key := range slices.Sorted(maps.Keys(f.Evidence)) {
			t.Evidence = append(t.Evidence, labelled{strings.ReplaceAll(key, "_", " "), evidenceText(key, f.Evidence[key])})
		}
		for _, s := range f.Sites {
			t.Sites = append(t.Sites, []string{view.Cut(s.Where, 120), fmt.Sprint(s.Count), ns(s.NS)})
		}
		out = append(out, t)
	}
	return out
}

// evidenceText prints a figure in the unit its key names.
func evidenceText(key string, v any) string {
	switch n := v.(type) {
	case int64:
		return figureText(key, float64(n))
	case int:
		return figureText(key, float64(n))
	case float64:
		return figureText(key, n)
	}
	return view.Cut(fmt.Sprint(v), 200)
}

func figureText(key string, v float64) string {
	switch {
	case strings.HasSuffix(key, "_ns"):
		return view.Seconds(v * 1e-9)
	case strings.HasSuffix(key, "_bytes"):
		return view.SI(v, "B")
	case strings.HasSuffix(key, "_bytes_per_s"):
		return view.SI(v, "B/s")
	case strings.HasSuffix(key, "_share"):
		return view.Percent(v)
	}
	return view.Cut(fmt.Sprint(v), 40)
}

// classTones gives the six classes that took most time a colour of their own.
func classTones(a *trace.Analysis) map[trace.Class]int {
	total := map[trace.Class]int64{}
	for c, v := range a.Step.Classes {
		total[c] = v
	}
	order := trace.Classes()
	slices.SortStableFunc(order, func(x, y trace.Class) int { return cmp.Compare(total[y], total[x]) })
	out := map[trace.Class]int{}
	for i, c := range order {
		out[c] = min(i, view.MaxTones)
	}
	return out
}
