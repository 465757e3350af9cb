package page

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

const memoryFooter = "Claims are upper bounds from the replay of the snapshot, each by itself: they are not a sum."

// Memory builds the page of memory snapshots: code lines that hold memory at the peak or at an error, and suggestions.
func Memory(a *memsnap.Analysis) (*Page, error) {
	if a == nil || len(a.Devices) == 0 {
		return nil, view.ErrNoRun("an analysis of memory")
	}
	d := &a.Devices[0]
	p := &Page{Title: "memory of " + memoryInput(a, d.Input), Meta: memoryMeta(d), Answer: a.Answer(), Footer: memoryFooter, Tool: toolText(a.Tool), Data: jsonData("memory.json", a)}
	moment, when := d.Shown()
	p.Sections = []Section{
		{ID: "findings", Heading: "Suggested changes", HeadingIn: HTML, Blocks: memoryFindings(a)},
		{ID: "levels", Heading: "Levels", HeadingIn: HTML, Blocks: []Block{Lines{Lines: memoryLevels(a, d, moment, when)}}},
		{ID: "time", Heading: "Memory over time", In: HTML, Blocks: []Block{Chart{ID: "memory-chart", Figure: func() *figure.Figure { return figure.MemoryOverTime(a) },
			Live: func() any { return memoryTrace(d) }, Kind: MemoryTrace, Name: "Allocations over the events of the recording"}}},
		{ID: "kinds", Heading: "Memory by category", HeadingIn: HTML, Blocks: []Block{memoryCategories(moment, when)}},
		{ID: "lines", Heading: "Memory by line", HeadingIn: HTML, Blocks: []Block{Chart{ID: "sites-chart", Figure: func() *figure.Figure { return figure.MemorySites(a) }}, memorySites(moment, when)}},
		{ID: "calls", Heading: "Memory by call", In: HTML, Blocks: []Block{Chart{ID: "calls-chart", Figure: func() *figure.Figure { return figure.MemoryCalls(a) },
			Live: func() any { return newFlame("B", "bytes with a stack", moment.Calls) }, Kind: Flame, Name: "Memory by call at " + when}}},
		{ID: "segments", Heading: "Segments", In: HTML, Blocks: []Block{Chart{ID: "map-chart", Figure: func() *figure.Figure { return figure.MemoryMap(a) }}}},
		{ID: "blocks", Heading: "Largest blocks", HeadingIn: Markdown | HTML, In: Verbose, Blocks: []Block{memoryBlocks(moment, when)}},
		{ID: "what-if", Heading: "Other settings", HeadingIn: Markdown | HTML, Blocks: memoryWhatIf(d)},
		memoryChanges(a),
		warningList(a.Warnings),
		{ID: "steps", Heading: "Steps", HeadingIn: Markdown | HTML, In: Verbose, Blocks: []Block{memorySteps(d)}},
		{ID: "devices", Heading: "Devices", HeadingIn: Markdown | HTML, Blocks: []Block{memoryDevices(a)}},
		{ID: "stacks", Heading: "Stacks", In: HTML, Folded: true, Brief: []string{when}, Blocks: []Block{memoryStacks(moment)}},
	}
	return p.addExplanations()
}

// bytesText formats bytes with binary prefixes, like PyTorch's messages.
func bytesText(n int64) string { return gpuprof.FormatBytes(float64(n)) }

func bytesCell(n int64) Cell {
	if n == 0 {
		return Cell{}
	}
	return amountCell(bytesText(n), float64(n), "B")
}

func memoryInput(a *memsnap.Analysis, i int) string {
	name := view.CutPlace(filepath.Base(a.Inputs[i].Path), 60)
	if more := len(a.Inputs) - 1; more > 0 {
		name += " and " + gpuprof.Plural(more, "other file")
	}
	return name
}

func memoryMeta(d *memsnap.Device) []string {
	out := []string{fmt.Sprintf("device %d", d.ID), gpuprof.Plural(d.Events, "event")}
	if n := len(d.Steps); n > 0 {
		out = append(out, gpuprof.Plural(n, "step"))
	}
	if d.HasOneMoment() {
		return append(out, bytesText(d.End.Requested)+" of tensors at its end, "+bytesText(d.End.Reserved)+" reserved")
	}
	return append(out, "peak "+bytesText(d.Peak.Requested)+" of tensors, "+bytesText(d.PeakReserved)+" reserved")
}

// memoryLevels lists the bytes at one moment, from requested to reserved memory.
func memoryLevels(a *memsnap.Analysis, d *memsnap.Device, m *memsnap.Moment, when string) []Line {
	at := "at " + when
	if m.Step > 0 {
		at += fmt.Sprintf(", step %d of %d", m.Step, len(d.Steps))
	}
	lines := []Line{
		{Label: "tensors", Value: bytesText(m.Requested), Note: at},
		{Label: "rounding", Value: bytesText(m.Rounded - m.Requested), Note: "at least", Spare: true},
		{Label: "reserved", Value: bytesText(m.Reserved), Note: fmt.Sprintf("%s free beside live blocks, %s in whole segments, the largest piece %s", bytesText(m.FreeSplit), bytesText(m.FreeWhole), bytesText(m.FreeLargest))},
		{Label: "end", Value: bytesText(d.End.Requested), Note: bytesText(d.End.Reserved) + " reserved"},
	}
	if len(d.OOMs) > 0 {
		o := &d.OOMs[0]
		lines = append(lines, Line{Label: "request", Value: bytesText(o.Request), Note: "failed; the device had " + bytesText(o.DeviceFree) + " free", Tone: Bad})
	}
	if a.Before != nil {
		lines = append(lines, Line{Label: "before", Value: bytesText(a.Before.Peak), Note: "peak of tensors; " + bytesText(a.Before.PeakReserved) + " reserved"})
	}
	return append(lines, dropEmpty(Line{Label: "settings", Value: a.Inputs[d.Input].Settings, Spare: true})...)
}

func memoryFindings(a *memsnap.Analysis) []Block {
	if len(a.Findings) == 0 {
		return nil
	}
	list := List{Ordered: true, Noun: "finding", Max: traceFindings}
	claims, answer := 0, a.Answer()
	for i := range a.Findings {
		f := &a.Findings[i]
		if f.ClaimBytes > 0 {
			claims++
		}
		item := memoryFinding(a, f)
		if i == 0 && answer.Action != nil {
			item.Lines = beyondAnswer(item.Lines)
		}
		list.Items = append(list.Items, item)
	}
	lead := "The findings claim no bytes."
	if claims > 0 {
		lead = gpuprof.Plural(claims, "change") + " could lower a peak, each by at most its claim. The claims must not be added."
	}
	return []Block{Text{S: lead, As: Lead, In: HTML}, list}
}

func memoryFinding(a *memsnap.Analysis, f *memsnap.Finding) Item {
	item := Item{Badge: Badge{Text: string(f.Severity), Tone: severityTone(f.Severity)}, Label: f.Rule, Text: f.Title, About: aboutRule(f.Rule)}
	if len(a.Devices) > 1 {
		item.Text += fmt.Sprintf(" (%s, device %d)", memoryInput(a, a.Devices[f.Device].Input), a.Devices[f.Device].ID)
	}
	claim := ""
	if f.ClaimBytes > 0 {
		claim = fmt.Sprintf("%s of the peak of %s bytes (%s)", bytesText(f.ClaimBytes), f.Of, view.Percent(f.Share))
	}
	item.Lines = dropEmpty(Line{Label: "at most", Value: claim}, Line{Label: "change", Value: f.PyTorch, Code: true}, Line{Label: "but", Value: strings.Join(f.Caveats, "; "), In: Markdown | HTML})
	var lines []Line
	for _, key := range slices.Sorted(maps.Keys(f.Evidence)) {
		label, text := evidenceOf(key, f.Evidence[key])
		if v, ok := parseNumber(f.Evidence[key]); ok && slices.Contains(strings.Split(key, "_"), "bytes") {
			label, text = strings.ReplaceAll(label, "bytes ", ""), bytesText(int64(v))
		}
		lines = append(lines, Line{Label: label, Value: text})
	}
	item.More, item.MoreText = []Block{Lines{Lines: lines}}, "evidence"
	if len(f.Sites) > 0 {
		item.More, item.MoreText = append(item.More, siteTable("Lines", f.Sites, 0)), "evidence and lines"
	}
	return item
}

func memoryCategories(m *memsnap.Moment, when string) Table {
	t := Table{Name: "Memory by category at " + when, Noun: "kind", Columns: numberColumns("category", "bytes", "share", "blocks")}
	for _, c := range m.Categories {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: c.Category}, bytesCell(c.Bytes), shareOf(c.Bytes, m.Requested), countCell(c.Blocks)}})
	}
	return t
}

func memorySites(m *memsnap.Moment, when string) Table {
	t := siteTable("Memory by line at "+when, m.Sites, m.Requested)
	t.Max = [3]int{10, 20, 100}
	if m.MoreSites > 0 {
		t.Caption = fmt.Sprintf("%s; %s hold less", t.Name, gpuprof.Plural(m.MoreSites, "other line"))
	}
	return t
}

// memoryBlocks has a row per block, for the largest live blocks.
func memoryBlocks(m *memsnap.Moment, when string) Table {
	t := Table{Name: "Largest blocks at " + when, Noun: "block", Max: [3]int{10, 20, 20}, Columns: []Column{{Title: "line", Left: true, Most: 60, Least: 20}, {Title: "bytes"}, {Title: "blocks", Drop: 2}, {Title: "from step", Drop: 3}, {Title: "events", Drop: 4}, {Title: "category", Left: true, Drop: 1}}}
	for _, b := range m.Blocks {
		life, step := Cell{}, Cell{}
		if b.Events > 0 {
			life = countCell(b.Events)
		}
		if b.Step > 0 {
			step = countCell(b.Step)
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{placeCell(b.Where), bytesCell(b.Bytes), countCell(b.Blocks), step, life, {Text: b.Category}}})
	}
	return t
}

// siteTable has a row per code line. Its shares are relative to whole, in bytes; 0 prints no shares.
func siteTable(name string, sites []memsnap.SiteBytes, whole int64) Table {
	t := Table{Name: name, Noun: "line", Columns: []Column{{Title: "line", Left: true, Most: 60, Least: 20}, {Title: "bytes"}, {Title: "share"}, {Title: "blocks", Drop: 2}, {Title: "from step", Drop: 3}, {Title: "category", Left: true, Drop: 1}}}
	for _, s := range sites {
		step := Cell{}
		if s.Step > 0 {
			step = countCell(s.Step)
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{placeCell(s.Where), bytesCell(s.Bytes), shareOf(s.Bytes, whole), countCell(s.Blocks), step, {Text: s.Category}}})
	}
	return t
}

// placeCell names a code line; on a narrow terminal without its folders.
func placeCell(where string) Cell {
	return Cell{Text: view.CutPlace(where, 100), Narrow: view.CutPlace(filepath.Base(where), 60)}
}

func memoryChanges(a *memsnap.Analysis) Section {
	t := Table{Name: "Changes at the peak by line", Noun: "line", Max: [3]int{10, 20, 100}, Columns: []Column{{Title: "line", Left: true, Most: 60, Least: 20}, {Title: "before"}, {Title: "after"}, {Title: "change"}, {Title: "category", Left: true, Drop: 1}}}
	if a.Before != nil {
		for _, c := range a.Before.Changes {
			change := amountCell(signedBytes(c.After-c.Before), float64(c.After-c.Before), "B")
			t.Rows = append(t.Rows, Row{Cells: []Cell{placeCell(c.Where), bytesCell(c.Before), bytesCell(c.After), change, {Text: c.Category}}})
		}
	}
	return Section{ID: "changes", Heading: "Changes at the peak", HeadingIn: Markdown | HTML, Blocks: []Block{t}}
}

// memoryWhatIf has a row per allocator setting with which the recorded allocations were replayed, or the reason why
// they were not replayed.
func memoryWhatIf(d *memsnap.Device) []Block {
	if c := &d.Check; !c.Passed && c.Reason != "" && d.Events > 0 {
		text := "Other settings of the allocator were not replayed: " + c.Reason
		if c.FailedAt >= 0 {
			text += fmt.Sprintf(" (event %d)", c.FailedAt)
		}
		return []Block{Text{S: text + ".", In: Verbose}}
	}
	t := Table{Name: "Replayed with other settings of the allocator", Noun: "setting", Max: [3]int{12, 12, 0}, Columns: []Column{{Title: "setting", Left: true, Most: 40}, {Title: "reserved"}, {Title: "change"}, {Title: "driver calls", Drop: 1}, {Title: "out of memory", Drop: 2}}}
	if ranged := slices.ContainsFunc(d.WhatIf, func(w memsnap.WhatIf) bool { return w.LeastReserved < w.PeakReserved }); ranged {
		t.Columns = slices.Insert(t.Columns, 1, Column{Title: "at least"})
	}
	for _, w := range d.WhatIf {
		oom, change := Cell{}, w.PeakReserved-d.WhatIf[0].PeakReserved
		if w.OOM != nil {
			oom.Text = map[bool]string{true: "yes", false: "no"}[*w.OOM]
		}
		cells := []Cell{{Text: w.Setting}, bytesCell(w.PeakReserved), amountCell(signedBytes(change), float64(change), "B"), countCell(w.DriverAllocs + w.DriverFrees), oom}
		if len(t.Columns) > len(cells) {
			cells = slices.Insert(cells, 1, bytesCell(w.LeastReserved))
		}
		t.Rows = append(t.Rows, Row{Cells: cells})
	}
	return []Block{t}
}

func signedBytes(n int64) string {
	if n < 0 {
		return "-" + bytesText(-n)
	}
	return "+" + bytesText(n)
}

func memorySteps(d *memsnap.Device) Table {
	t := Table{Name: "Memory of each step", Noun: "step", Max: [3]int{10, 20, 400}, Columns: numberColumns("step", "peak", "end", "name")}
	t.Columns[3].Left = true
	for i, s := range d.Steps {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: fmt.Sprint(i + 1)}, bytesCell(s.Peak), bytesCell(s.End), {Text: s.Name}}})
	}
	return t
}

// memoryDevices returns a table with a row per device. It has no rows if there is only one device.
func memoryDevices(a *memsnap.Analysis) Table {
	t := Table{Name: "Devices", Noun: "device", Max: [3]int{8, 16, 0}, Columns: []Column{{Title: "file", Left: true, Most: 40}, {Title: "device"}, {Title: "peak"}, {Title: "reserved"}, {Title: "end"}, {Title: "events", Drop: 1}}}
	if len(a.Devices) < 2 {
		return t
	}
	for _, d := range a.Devices {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: view.CutPlace(a.Inputs[d.Input].Path, 80)}, countCell(d.ID), bytesCell(d.Peak.Requested), bytesCell(d.PeakReserved), bytesCell(d.End.Requested), countCell(d.Events)}})
	}
	return t
}

// memoryStacks lists the code lines that hold the most memory, at most 20, each with the call stack of its largest
// part.
func memoryStacks(m *memsnap.Moment) List {
	l := List{Noun: "stack"}
	for _, s := range m.Sites[:min(len(m.Sites), 20)] {
		var lines []Line
		for i, f := range s.Stack {
			lines = append(lines, Line{Label: fmt.Sprint(i + 1), Value: view.CutPlace(f, 160)})
		}
		l.Items = append(l.Items, Item{Label: bytesText(s.Bytes), Text: view.CutPlace(s.Where, 100), More: []Block{Lines{Lines: lines}}, MoreText: "stack of the largest part, innermost first"})
	}
	return l
}
