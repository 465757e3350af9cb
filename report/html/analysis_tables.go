package html

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

const tableRows = 60

func accountTable(a *trace.Analysis) gridView {
	g := gridView{Heading: "Table of devices", Caption: "Times " + a.PerStep() + "; the kernels are those of the whole recording.", Titles: []string{"device", "all", "busy"}}
	for _, idle := range new(trace.Parts).Idle() {
		g.Titles = append(g.Titles, idle.Name)
	}
	g.Titles = append(g.Titles, "kernels", "with a known launch")
	for _, d := range a.Devices {
		row := []string{deviceLabel(a, d), ns(d.Step.Total()), ns(d.Step.BusyNS)}
		for _, idle := range d.Step.Idle() {
			row = append(row, ns(idle.NS))
		}
		g.Rows = append(g.Rows, append(row, fmt.Sprint(d.Kernels), fmt.Sprint(d.Linked)))
	}
	return g
}

// analysisTables are the tables below the pictures; those without rows are
// left out.
func analysisTables(a *trace.Analysis) []gridView {
	all := []gridView{ranksTable(a), kernelTable(a), operatorTable("operators", "Operators", a.Operators), operatorTable("modules", "Modules and ranges", a.Modules), copyTable(a), syncTable(a), inputTable(a)}
	return slices.DeleteFunc(all, func(g gridView) bool { return len(g.Rows) == 0 })
}

func ranksTable(a *trace.Analysis) gridView {
	g := gridView{ID: "ranks", Heading: "Ranks", Caption: "Times " + a.PerStep() + ". Communication is exposed where nothing is computed. The rank that waits least in it is the one the others wait for.",
		Titles: []string{"rank", "step", "compute", "communication", "exposed", "idle", ""}}
	for _, r := range a.Ranks {
		note := ""
		if r.Straggler {
			note = "the others wait for it"
			if r.Cause != "" {
				note += ": " + r.Cause
			}
		}
		g.Rows = append(g.Rows, []string{fmt.Sprint(r.Rank), ns(r.StepNS), ns(r.ComputeNS), ns(r.CommNS), ns(r.ExposedCommNS), ns(r.IdleNS), note})
	}
	return g
}

// wholeRecording says what the tables of kernels and calls are sums of.
const wholeRecording = "Totals of the whole recording, all steps and streams."

func more(shown, all int, what string) string {
	if all <= shown {
		return wholeRecording
	}
	return wholeRecording + fmt.Sprintf(" The first %d of %d %s by time; all are in the data.", shown, all, what)
}

func kernelTable(a *trace.Analysis) gridView {
	var whole int64
	for _, k := range a.Kernels {
		whole += k.NS
	}
	n := min(len(a.Kernels), tableRows)
	g := gridView{ID: "kernels", Heading: "Kernels, copies and fills", Caption: more(n, len(a.Kernels), "kernels"), Titles: []string{"name", "class", "count", "time", "share", "median", "operator"}}
	for _, k := range a.Kernels[:n] {
		g.Rows = append(g.Rows, []string{view.Cut(k.Name, 90), string(k.Class), fmt.Sprint(k.Count), ns(k.NS), nsShare(k.NS, whole), ns(k.Median), view.Cut(k.Operator, 50)})
	}
	return g
}

func operatorTable(id, heading string, ops []trace.OperatorTime) gridView {
	n := min(len(ops), tableRows)
	g := gridView{ID: id, Heading: heading, Caption: more(n, len(ops), strings.ToLower(heading)), Titles: []string{"name", "calls", "device", "host, self", "host", "where"}}
	for _, o := range ops[:n] {
		g.Rows = append(g.Rows, []string{view.Cut(o.Name, 70), fmt.Sprint(o.Count), ns(o.GPUNS), ns(o.SelfNS), ns(o.HostNS), view.Cut(o.Where, 60)})
	}
	return g
}

func copyTable(a *trace.Analysis) gridView {
	g := gridView{ID: "copies", Heading: "Copies", Caption: wholeRecording, Titles: []string{"kind", "count", "bytes", "on the device", "in the host's calls", "rate"}}
	for _, name := range slices.Sorted(maps.Keys(a.Copies)) {
		c := a.Copies[name]
		if c.Count == 0 {
			continue
		}
		rate := view.None
		if c.GPUNS > 0 {
			rate = view.SI(float64(c.Bytes)/float64(c.GPUNS)*1e9, "B/s")
		}
		g.Rows = append(g.Rows, []string{strings.ReplaceAll(name, "_", " "), fmt.Sprint(c.Count), view.SI(float64(c.Bytes), "B"), ns(c.GPUNS), ns(c.HostNS), rate})
	}
	return g
}

func syncTable(a *trace.Analysis) gridView {
	g := gridView{ID: "syncs", Heading: "Synchronisation calls", Caption: wholeRecording, Titles: []string{"call", "count", "host time"}}
	for _, name := range slices.Sorted(maps.Keys(a.Syncs)) {
		g.Rows = append(g.Rows, []string{view.Cut(name, 60), fmt.Sprint(a.Syncs[name].Count), ns(a.Syncs[name].HostNS)})
	}
	return g
}

func inputTable(a *trace.Analysis) gridView {
	g := gridView{ID: "inputs", Heading: "Inputs", Titles: []string{"file", "kind", "events", "rank"}}
	for _, in := range a.Inputs {
		rank := view.None
		if in.Rank >= 0 {
			rank = fmt.Sprint(in.Rank)
		}
		name := view.Cut(in.Path, 120)
		if in.Truncated {
			name += " (ends early)"
		}
		g.Rows = append(g.Rows, []string{name, string(in.Kind), fmt.Sprint(in.Events), rank})
	}
	return g
}
