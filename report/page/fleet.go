package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Fleet builds the page of a job: outlying ranks and their causes, a row per figure, and the ranks without usable data.
func Fleet(r *fleet.Report) (*Page, error) {
	if r == nil {
		return nil, view.ErrNoRun("a fleet report")
	}
	about := cmp.Or(r.Workload, strings.Join(r.Command, " "))
	title := "fleet "
	if r.Devices != nil {
		title = "devices " // of one machine
	}
	p := &Page{Title: strings.TrimSpace(title + about), Meta: fleetMeta(r), Tool: toolText(r.Tool), Data: jsonData("fleet.json", r),
		Answer: r.Answer(),
		Footer: fmt.Sprintf("One in a hundred of the figures that are named is named by chance, over all %s and metrics. Among fewer than %d siblings none is named.", fleetNoun(r), fleet.LeastSiblings)}
	off := List{Label: "off", Noun: "figure", Max: cmp.Or(r.Top, maxListed)}
	for _, o := range r.Off {
		off.Items = append(off.Items, Item{Text: r.OffText(&o), Tone: Bad, Lines: dropEmpty(
			Line{Label: "cause", Value: o.Cause, Note: notSeen(o.Evidence)}, Line{Label: "fix", Value: o.Fix})})
	}
	p.Sections = []Section{
		fleetDevices(r),
		{ID: "off", Heading: "Slow or faulty", Blocks: []Block{off}},
		fleetStragglers(r),
		{ID: "problems", Heading: "Left out", HeadingIn: Markdown | HTML, Blocks: []Block{listOf(List{Label: "left out", Noun: "problem", Max: cmp.Or(r.Top, maxListed)}, r.Problems)}},
		{ID: "metrics", Heading: "Figures over all " + fleetNoun(r), HeadingIn: Markdown | HTML, Blocks: []Block{fleetMetrics(r)}},
		{ID: "notes", Heading: "Notes", HeadingIn: Markdown | HTML, Blocks: []Block{listOf(List{Label: "note", Noun: "note"}, r.Notes)}},
	}
	return p, nil
}

// fleetNoun names the compared things: ranks or devices.
func fleetNoun(r *fleet.Report) string {
	if r.Devices != nil {
		return "devices"
	}
	return "ranks"
}

func fleetMeta(r *fleet.Report) []string {
	if r.Devices != nil {
		return []string{gpuprof.Plural(r.World, "device")}
	}
	out := []string{gpuprof.Plural(r.World, "rank"), gpuprof.Plural(len(r.Nodes), "node")}
	if r.GPUs > 0 {
		out = append(out, gpuprof.Plural(r.GPUs, "GPU"))
	}
	return append(out, r.Launcher)
}

// notSeen returns a remark for a cause without evidence.
func notSeen(evidence bool) string {
	if evidence {
		return ""
	}
	return "not seen there"
}

// fleetStragglers names the rank that others wait for, and divides each rank's step into work, idle time and waits.
func fleetStragglers(r *fleet.Report) Section {
	w := r.Waiting
	if w == nil {
		return Section{}
	}
	list := List{Label: "straggler", Noun: "rank", Max: cmp.Or(r.Top, maxListed)}
	for i := range w.Stragglers {
		s := &w.Stragglers[i]
		list.Items = append(list.Items, Item{Text: stragglerText(s, w), Tone: Bad, Lines: dropEmpty(
			Line{Label: "cause", Value: s.Cause, Note: notSeen(s.Evidence)}, Line{Label: "fix", Value: s.Fix})})
	}
	blocks := []Block{list}
	if w.Unclaimed != "" {
		blocks = append(blocks, Text{S: "No rank is called a straggler: " + w.Unclaimed + "."})
	} else {
		blocks = append(blocks, Text{S: fmt.Sprintf("%s, %s and %s were matched. A replay of the recorded times gives a median step of %s; %s were recorded. Ranks that all took their siblings' median would make it up to %s shorter.",
			gpuprof.Plural(w.Ranks, "rank"), gpuprof.Plural(w.Steps, "step"), gpuprof.Plural(w.Collectives, "collective"), gpuprof.FormatSeconds(float64(w.ReplayedS)), gpuprof.FormatSeconds(float64(w.StepS)), gpuprof.FormatSeconds(float64(w.EvenS)))})
	}
	blocks = append(blocks, waitTable(r))
	if more := w.Ranks - len(w.Rows); more > 0 {
		blocks = append(blocks, Text{S: fmt.Sprintf("%s that wait longer have no row.", gpuprof.Plural(more, "rank"))})
	}
	blocks = append(blocks, Chart{ID: "ranks", Narrow: true, Figure: func() *figure.Figure { return figure.RankTimes(r) }})
	return Section{ID: "stragglers", Heading: "Ranks that others wait for", HeadingIn: Markdown | HTML, Blocks: blocks}
}

// stragglerText describes the rank that others wait for: its cost, its collective, and its share of steps.
func stragglerText(s *fleet.Straggler, w *fleet.Waiting) string {
	who, costs, it, takes := fmt.Sprint("rank ", s.Ranks[0]), "costs", "it", "it takes"
	if len(s.Ranks) > 1 {
		who, costs, it, takes = fleet.RanksText(s.Ranks), "cost", "them", "they take"
	}
	if s.Node != "" {
		who += " on " + fleet.NodeText(s.Node)
	}
	text := fmt.Sprintf("%s %s up to %s per step (%.1f %%)", who, costs, gpuprof.FormatSeconds(float64(s.CostS)), 100*float64(s.Share))
	if s.Collective != "" {
		text += fmt.Sprintf(": the others wait for %s %s per step at the %s", it, gpuprof.FormatSeconds(float64(s.WaitS)), s.Collective)
	}
	return text + fmt.Sprintf("; %s more than the others in %.0f %% of %s", takes, 100*float64(s.LastIn), gpuprof.Plural(w.Steps, "step"))
}

// topRows returns the limits of rows on a terminal, in Markdown and in HTML, which has all.
func topRows(r *fleet.Report) [3]int {
	if r.Top > 0 {
		return [3]int{r.Top, r.Top, 0}
	}
	return [3]int{12, 40, 0}
}

// waitTable has a row per rank; if not all are shown, those that wait least come first.
func waitTable(r *fleet.Report) Table {
	t := Table{Name: "Table of the step of each rank", Noun: "rank", Max: topRows(r), More: "%d more in -o NAME.html", Columns: []Column{
		{Title: "rank"}, {Title: "node", Left: true, Most: 40, Drop: 2}, {Title: "works"}, {Title: "does nothing"}, {Title: "waits for ranks"}, {Title: "more than siblings", Drop: 1}}}
	time := func(v gpuprof.Number) Cell {
		return amountCell(gpuprof.FormatSeconds(float64(v)), float64(v), "s")
	}
	rows := r.Waiting.Rows
	if len(rows) > t.Max[0] {
		rows = slices.SortedStableFunc(slices.Values(rows), func(a, b fleet.RankWait) int { return cmp.Compare(a.WaitS, b.WaitS) })
	}
	for _, row := range rows {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: fmt.Sprint(row.Rank), Value: float64(row.Rank), Unit: "1"}, {Text: row.Node}, time(row.WorkS), time(row.IdleS), time(row.WaitS), time(row.MoreS)}})
	}
	return t
}

// fleetMetrics has a row per figure. If rows are limited, figures with the largest deviation of a rank come first.
func fleetMetrics(r *fleet.Report) Table {
	t := Table{Name: "Table of figures over all " + fleetNoun(r), Noun: "figure", Max: topRows(r), More: "%d more in -o NAME.html", Columns: []Column{
		{Title: "figure", Left: true}, {Title: "of"}, {Title: "median"}, {Title: "within nodes", Drop: 2}, {Title: "between nodes", Drop: 1}, {Title: "slowest", Left: true, Most: 60}}}
	metrics := r.Metrics
	if r.Top > 0 && len(metrics) > r.Top {
		metrics = slices.SortedStableFunc(slices.Values(metrics), func(a, b fleet.Metric) int { return cmp.Compare(slowestBy(&b), slowestBy(&a)) })
	}
	for _, m := range metrics {
		var worst Cell
		if len(m.Slowest) > 0 {
			s := m.Slowest[0]
			worst = Cell{Text: r.Place(s.Rank, s.Node, s.Device) + " (" + gpuprof.FormatChange(notBelow(float64(s.Worse))) + ")"}
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: m.Name}, {Text: fmt.Sprint(m.Count)}, {Text: health.FormatFigure(float64(m.Median), m.Unit), Value: float64(m.Median), Unit: m.Unit},
			shareCell(m.WithinNodes), shareCell(m.BetweenNodes), worst}})
	}
	return t
}

// slowestBy returns the share by which a figure's slowest rank is worse than its siblings.
func slowestBy(m *fleet.Metric) float64 {
	if len(m.Slowest) == 0 {
		return math.Inf(-1)
	}
	return float64(m.Slowest[0].Worse)
}

// notBelow rounds a share near 0 to 0, since rounding errors can make it negative.
func notBelow(share float64) float64 {
	if math.Abs(share) < 0.0005 {
		return 0
	}
	return share
}

// shareCell formats a relative standard deviation as a percentage; the cell is empty if it is not finite.
func shareCell(s gpuprof.Number) Cell {
	if !gpuprof.IsFinite(float64(s)) {
		return Cell{}
	}
	text := fmt.Sprintf("%.1f %%", 100*float64(s))
	if s > gpuprof.MostShare {
		text = gpuprof.FormatPercent(float64(s), 2)
	}
	return Cell{Text: text, Value: float64(s), Unit: "1"}
}
