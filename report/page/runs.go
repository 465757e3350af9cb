package page

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Runs builds the page of one run, or of a sweep: one table and then each run.
func Runs(runs []*gpuprof.Run) (*Page, error) {
	runs = view.Compact(runs)
	if len(runs) == 0 {
		return nil, view.ErrNoRun("a report")
	}
	p := &Page{Tool: view.Tool(runs[0]), Data: dataOf(runs), Footer: "Times are medians; every sample behind them is in run.json."}
	limit := pointLimit(runs)
	if len(runs) == 1 {
		r := runs[0]
		p.Title, p.Meta, p.Date, p.Answer = view.Subject(r), metaOf(r), view.Date(r.Started), r.Answer()
		p.Sections = runSections(r, "", limit)
		return p.addExplanations()
	}
	buildSweep(p, runs, limit)
	return p.addExplanations()
}

// metaOf returns the device's name and how the run was measured.
func metaOf(r *gpuprof.Run) []string {
	meta := []string{view.DeviceName(r)}
	if how := view.HowMeasured(r); how != "" {
		meta = append(meta, how)
	}
	return meta
}

func statusTone(s gpuprof.Status) Tone {
	switch s {
	case gpuprof.Complete:
		return Good
	case gpuprof.Invalid:
		return Bad
	}
	return Unsure
}

func showIn(where Where, s Section) Section {
	s.In = where
	return s
}

// printed is the set of formats without links between sections. In these, the step's other figures follow the stages,
// since a reader of a terminal sees the end of a report first.
const printed = Terminal | Markdown

// runSections builds the sections of a run; id is the prefix of their IDs.
func runSections(r *gpuprof.Run, id string, limit int) []Section {
	lead, facts := summaryOf(r)
	refused, late := answeredText(r, HTML|Terminal), lateText(r, HTML|Terminal)
	warnings := warningSection(id, HTML, warningsOf([]*gpuprof.Run{r}))
	advice := Section{ID: id + "findings", Heading: "Suggested changes", HeadingIn: HTML, Blocks: findingsOf(r)}
	out := []Section{
		showIn(HTML, Section{ID: id + "summary", Heading: "Summary", Blocks: []Block{runLead(r), late, refused, lead, Chart{ID: id + "stack", Narrow: true, Figure: func() *figure.Figure { return figure.Shares(r) }}, facts}}),
		showIn(HTML, warnings),
		showIn(HTML, advice),
		showIn(printed, Section{Blocks: []Block{runLead(r), waitsText(r, Terminal), late, refused, lead, failedChecks(r)}}),
		showIn(printed, advice),
		stagesOf(r, id),
		requestsOf(r, id),
		showIn(printed, Section{Blocks: []Block{facts}}),
		showIn(printed|Verbose, warnings),
	}
	out = append(out, chartSections(r, id, limit)...)
	return append(out, checksOf(r, id), ladderOf(r, id), energyOf(r, id), Section{In: HTML, Beside: true, Sections: factsOf(r, id)})
}

// runLead adds to the answer: the largest stage's distance from its bound, and a hint for runs that ended early.
func runLead(r *gpuprof.Run) Block {
	if !view.HasTimes(r) {
		return Text{}
	}
	text := boundText(view.Stages(r))
	if r.Status == gpuprof.Partial && r.Reason != loadtest.ReasonGenerator { // a late sender does not end a run early
		text += " The run was cut short: read the figures as a first impression."
	}
	return Text{S: strings.TrimSpace(text), In: Verbose}
}

// summaryOf returns the step with its throughput (lead), and the run's other figures with the checks (facts).
func summaryOf(r *gpuprof.Run) (lead, facts Lines) {
	lead = Lines{Lead: true}
	for _, l := range summaryLines(r) {
		if l.Label == "step" || l.Label == "throughput" {
			lead.Lines = append(lead.Lines, l)
		} else {
			facts.Lines = append(facts.Lines, l)
		}
	}
	facts.Lines = append([]Line{checkLine(r)}, facts.Lines...)
	return lead, facts
}

func checkLine(r *gpuprof.Run) Line {
	return Line{Label: "checks", Value: checkSummary(r)}
}

func failedChecks(r *gpuprof.Run) List {
	l := List{Label: "check failed", Noun: "failed check", In: printed}
	for _, c := range r.Failed() {
		text := fmt.Sprintf("%s: relative error %s is not within %s", c.Stage, errorText(c.RelativeError), formatSci(c.Tolerance))
		if c.Rows != "" {
			text += " (rows checked: " + c.Rows + ")"
		}
		l.Items = append(l.Items, Item{Text: text, Tone: Bad})
	}
	return l
}

// warningsOf lists the warnings of several runs, each kind once.
func warningsOf(runs []*gpuprof.Run) List {
	l := List{Label: "warning", Noun: "warning", Alert: true}
	for _, n := range groupNotices(runs) {
		text := n.Text
		if text != "" && n.Fix != "" {
			text += "; "
		}
		l.Items = append(l.Items, Item{Label: n.Head(), Text: text + n.Fix, Tone: Unsure, Sub: n.Each, About: aboutWarning(n.Code)})
	}
	return l
}

// mostFindings limits the findings of a report; more would be noise.
const mostFindings = 5

func findingsOf(r *gpuprof.Run) []Block {
	l := List{Ordered: true, Label: "finding", Noun: "finding"}
	for _, f := range r.Findings[:min(len(r.Findings), mostFindings)] {
		l.Items = append(l.Items, adviceItem(f))
	}
	out := []Block{l}
	if n := len(r.Findings) - mostFindings; n > 0 {
		out = append(out, Text{S: fmt.Sprintf("%d more in run.json.", n), As: Remark})
	}
	return out
}

// adviceItem describes a finding.
func adviceItem(f gpuprof.Finding) Item {
	it := Item{Text: f.Rule, About: aboutRule(f.Rule)}
	if f.Stage != "" {
		it.Text += " in " + f.Stage
	}
	if f.Knob != "" {
		it.Text += fmt.Sprintf(": set %s from %s to %s", f.Knob, f.From, f.To)
	}
	if gpuprof.IsFinite(f.ClaimS) && f.ClaimS > 0 {
		it.Text += ", saves up to " + gpuprof.FormatSeconds(f.ClaimS) + " per step"
	}
	if bytes, ok := parseNumber(f.Evidence[gpuprof.EvidenceSavedBytes]); ok && gpuprof.IsFinite(bytes) && bytes > 0 {
		it.Text += ", reserves up to " + gpuprof.FormatSI(bytes, "B") + " less"
	}
	it.Lines = dropEmpty(Line{Label: "evidence", Value: evidenceText(f.Evidence), In: Verbose}, Line{Label: "try", Value: f.Command, Code: true},
		Line{Label: "PyTorch", Value: f.PyTorch, Code: true, In: Verbose})
	return it
}
