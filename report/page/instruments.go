package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// chartSections returns the charts of a run, for HTML. limit is the largest number of samples drawn per series.
func chartSections(r *gpuprof.Run, id string, limit int) []Section {
	chart := func(name, heading, kind, note string, draw func(*gpuprof.Run) *figure.Figure) Section {
		return Section{ID: id + name, Heading: heading, In: HTML, Blocks: []Block{Chart{ID: id + kind, Note: note, Figure: func() *figure.Figure { return draw(r) }}}}
	}
	watched := chart("watched", "Telemetry", "telemetry", telemetryNote, figure.Telemetry)
	if !view.HasTimes(r) {
		return []Section{watched}
	}
	spread := func(r *gpuprof.Run) *figure.Figure { return figure.Distribution(r, limit) }
	return []Section{
		chart("spreads", "Distribution", "spread", "Each sample is a dot, in the order they were taken, process after process: a slope is drift, two levels are two ways the step can go. To the right the histogram of each process, with the 5th to 95th percentile as a bar.", spread),
		chart("timelines", "Timeline of one step", "timeline", "", figure.Timeline),
		chart("roofline", "Roofline", "roof", "", figure.Roofline),
		watched,
	}
}

const telemetryNote = "Readings over the time of the run, from the least to the most of each quantity; behind them the blocks in which samples were taken."

func checksOf(r *gpuprof.Run, id string) Section {
	s := Section{ID: id + "checks", Heading: "Checks", In: HTML}
	if len(r.Checks) == 0 {
		s.Blocks = []Block{Text{S: checkSummary(r) + "."}}
		return s
	}
	s.Blocks = []Block{checkTable(r.Checks)}
	return s
}

// ladderOf lists the cost of each probe.
func ladderOf(r *gpuprof.Run, id string) Section {
	t := Table{Name: "Table of probes", Caption: "A step with the probe over the same step with only what stands under over.",
		Columns: []Column{{Title: "probe", Left: true}, {Title: "over"}, {Title: "step with it"}, {Title: "95 % interval"}, {Title: "used in"}}}
	for _, l := range r.Ladder {
		where := "the timing passes"
		if l.Apart {
			where = "a pass of its own: it may cost too much"
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{wordsCell(l.Probe), wordsCell(l.Over),
			amountCell("x"+factor4(l.Ratio.Ratio), l.Ratio.Ratio, "1"), wordsCell(view.Interval(l.CI95, factor4)), wordsCell(where)}})
	}
	return Section{ID: id + "probes", Heading: "Probe overhead", In: HTML, Blocks: []Block{t}}
}

// factor4 formats a factor with four decimals, because a probe's cost can be below 0.1 %.
func factor4(v float64) string {
	if !gpuprof.IsFinite(v) {
		return view.None
	}
	return fmt.Sprintf("%.4f", v)
}

// energyOf lists the measurements of the energy pass.
func energyOf(r *gpuprof.Run, id string) Section {
	s := Section{ID: id + "energy", Heading: "Energy", In: HTML}
	e := r.Energy
	if e == nil {
		return s
	}
	var lines []Line
	add := func(name, value string) { lines = append(lines, Line{Label: name, Value: value}) }
	known := func(n gpuprof.Number, unit string) string {
		if !gpuprof.IsFinite(float64(n)) {
			return "unknown"
		}
		return gpuprof.FormatSI(float64(n), unit)
	}
	if e.Valid {
		add("per step, gross", gpuprof.FormatSI(e.GrossStepJ, "J"))
		add("per step, without idle power", known(e.NetStepJ, "J"))
	} else {
		add("per step", "not valid: "+cmp.Or(e.Reason, view.None))
	}
	add("power by the energy counter", gpuprof.FormatSI(e.CounterW, "W"))
	add("mean of instant readings", known(e.InstantW, "W"))
	add("idle power before the pass", known(e.IdleW, "W"))
	add("measured over", fmt.Sprintf("%s, %d steps, %d updates of the counter", gpuprof.FormatSeconds(e.Seconds), e.Steps, e.Updates))
	s.Blocks = []Block{Text{S: "From a pass of its own; powers are of the whole device."}, Lines{Lines: lines}}
	return s
}

// factsOf lists knobs, environment, counters, calibration and input.
func factsOf(r *gpuprof.Run, id string) []Section {
	knobs := Table{Name: "Knobs", Caption: "Model knobs change what is computed; tuning knobs change how.",
		Columns: []Column{{Title: "knob", Left: true}, {Title: "value", Left: true}, {Title: "kind", Left: true}}}
	for _, k := range slices.Sorted(maps.Keys(r.Knobs)) {
		kind := "tuning"
		if view.ModelKnob(r, k) {
			kind = "model"
		}
		knobs.Rows = append(knobs.Rows, Row{Cells: []Cell{wordsCell(k), wordsCell(r.Knobs[k]), wordsCell(kind)}})
	}
	return []Section{
		{ID: id + "knobs", Heading: "Knobs", Blocks: []Block{knobs}},
		{ID: id + "environment", Heading: "Environment", Blocks: []Block{pairTable("Device and machine.", environmentPairs(r))}},
		{ID: id + "counters", Heading: "Counters", Blocks: []Block{pairTable("Exact counts of one step.", mapPairs(r.Counters, formatCounter))}},
		{ID: id + "input", Heading: "Input and instruments", Blocks: []Block{
			pairTable("Input.", mapPairs(r.Input, func(_ string, v any) string { return view.Value(v) })),
			pairTable("Cost of the instruments, measured in this run.", mapPairs(r.Calibration, func(_ string, v float64) string { return gpuprof.FormatSeconds(v) })),
		}},
	}
}

type pair struct{ name, value string }

func mapPairs[V any](m map[string]V, format func(string, V) string) []pair {
	var out []pair
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, pair{k, format(k, m[k])})
	}
	return out
}

// pairTable lists names and values, without a heading.
func pairTable(caption string, ps []pair) Table {
	t := Table{Name: strings.TrimSuffix(caption, "."), Caption: caption, Columns: []Column{{Left: true}, {Left: true}}}
	for _, p := range ps {
		t.Rows = append(t.Rows, Row{Cells: []Cell{wordsCell(p.name), wordsCell(p.value)}})
	}
	return t
}

func environmentPairs(r *gpuprof.Run) []pair {
	d := r.Device
	var out []pair
	add := func(name, value string) {
		if value != "" {
			out = append(out, pair{name, value})
		}
	}
	whole := func(n int) string {
		if n <= 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	add("device", d.Name)
	add("kind", d.Kind)
	add("architecture", d.Arch)
	add("cores in use", whole(d.Cores))
	if d.Memory > 0 {
		add("memory", gpuprof.FormatBytes(float64(d.Memory)))
	}
	add("CPU", d.CPU)
	add("logical CPUs", whole(d.CPUCores))
	if d.CPUQuota > 0 {
		add("CPU quota", strconv.FormatFloat(d.CPUQuota, 'g', 4, 64)+" CPUs")
	}
	add("governor", d.Governor)
	add("load at the start", strconv.FormatFloat(d.Load, 'f', 2, 64))
	add("system", strings.TrimSpace(d.OS+" "+d.Kernel))
	add("Go", d.Go)
	for _, k := range slices.Sorted(maps.Keys(d.DeviceInfo)) {
		add(k, d.DeviceInfo[k])
	}
	add("gpuprof", strings.TrimSpace(r.Tool.Version+" "+r.Tool.Commit))
	add("run.json schema", r.Version)
	add("seed", strconv.FormatUint(r.Seed, 10))
	return out
}

// formatCounter formats a count exactly; bytes and times also in a unit.
func formatCounter(name string, v float64) string {
	if !gpuprof.IsFinite(v) {
		return "unknown"
	}
	text := groupDigits(v)
	switch {
	case strings.HasPrefix(name, "bytes") && v >= 1024:
		text += " (" + gpuprof.FormatBytes(v) + ")"
	case strings.HasSuffix(name, "_ns") && v > 0:
		text += " (" + gpuprof.FormatSeconds(v*1e-9) + ")"
	}
	return text
}

// groupDigits formats a number with thin spaces between thousands, at most three decimals.
func groupDigits(v float64) string {
	s := strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
	whole, frac, has := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	var b strings.Builder
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteString("\u202f")
		}
		b.WriteRune(c)
	}
	if has {
		b.WriteString("." + frac)
	}
	return sign + b.String()
}
