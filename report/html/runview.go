package html

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// runView is what run.tmpl shows of one run. Every text in it is clean.
type runView struct {
	ID, Heading string
	Sub         bool // inside a sweep

	Subject, Device, How, Date string
	Status, Headline, Verdict  string
	HasTimes                   bool
	Lead                       []view.Line // the figures shown large
	Summary                    []view.Line
	Warnings                   []notice
	Findings                   []view.Finding
	MoreFindings               int
	Stages                     []stageRow
	Stack                      *chart
	Legend                     []legendItem
	Spread                     *chart
	SpreadNote                 string
	Processes                  []legendItem
	Timeline                   *chart
	TimelineNote               string
	Roof                       *chart
	RoofNote                   string
	Telemetry                  *chart
	TelemetryNote              string
	TelemetryLegend            []legendItem
	StageNote                  string
	NoBounds                   []string // stages without a roofline bound
	Ladder, Energy             gridView
	CheckSummary               string
	Checks                     []checkRow
	Knobs                      []knobRow
	Env, Counters              []pair
	Calibration, Input         []pair
}

type legendItem struct {
	Class, Text, Value string
}

type stageRow struct {
	Name, Class, Share, Exposed, Device, Interval, Host, Bytes, Flops, Floor, OfFloor string
	Kernel                                                                            bool
	Method                                                                            string // how a kernel was timed, where not between two events
}

type checkRow struct{ Stage, Error, Tolerance, Rows, Result string }

type knobRow struct {
	Name, Value, Kind string
}

type pair struct{ Name, Value string }

func newRunView(r *gpuprof.Run, id string, limit int) *runView {
	v := &runView{ID: id, Subject: view.Subject(r), Device: view.DeviceName(r), How: view.HowMeasured(r), Status: view.Status(r),
		Headline: view.Headline(r), HasTimes: view.HasTimes(r), Summary: view.Summary(r), Findings: view.Findings(r),
		MoreFindings: max(len(r.Findings)-view.MaxFindings, 0), CheckSummary: view.CheckSummary(r)}
	if !r.Started.IsZero() {
		v.Date = r.Started.UTC().Format("2006-01-02 15:04 UTC")
	}
	v.Warnings = notices([]*gpuprof.Run{r})
	v.Lead, v.Summary = splitLead(v.Summary)
	v.Verdict = runVerdict(r)
	if v.HasTimes {
		v.times(r, limit)
	}
	for _, c := range r.Checks {
		result := "passed"
		if !c.Pass {
			result = "FAILED"
		}
		v.Checks = append(v.Checks, checkRow{view.Cut(c.Stage, 60), view.Error(c.RelativeError), fmt.Sprintf("%.2g", c.Tolerance), view.Cut(c.Rows, 40), result})
	}
	v.tables(r)
	v.Telemetry, v.TelemetryNote, v.TelemetryLegend = telemetryChart(id, r)
	return v
}

// splitLead takes step and throughput out of the summary.
func splitLead(all []view.Line) (lead, rest []view.Line) {
	for _, l := range all {
		if l.Label == "step" || l.Label == "throughput" {
			lead = append(lead, l)
		} else {
			rest = append(rest, l)
		}
	}
	return lead, rest
}

// runVerdict is the run in a sentence or two.
func runVerdict(r *gpuprof.Run) string {
	switch {
	case r.Status == gpuprof.Invalid:
		return "The implementation disagrees with its reference, so no times are reported."
	case !view.HasTimes(r):
		return "Nothing was measured."
	}
	text := whereTimeGoes(view.Stages(r))
	if r.Status == gpuprof.Partial {
		text += "The run was cut short: read the figures as a first impression."
	}
	return strings.TrimSpace(text)
}

// whereTimeGoes names the largest stages, and how far the first is from what
// the device allows.
func whereTimeGoes(stages []view.Stage) string {
	slices.SortStableFunc(stages, func(a, b view.Stage) int { return cmp.Compare(b.Share, a.Share) })
	var parts []string
	for _, s := range stages[:min(len(stages), 3)] {
		if s.Share >= 0.02 {
			parts = append(parts, view.Cut(s.Name, 40)+" ("+view.Percent(s.Share)+")")
		}
	}
	if len(parts) == 0 {
		return ""
	}
	text := "Most of the step goes to " + parts[0]
	if n := len(parts); n > 1 {
		text = "The step's time goes to " + strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
	text += ". "
	if top := stages[0]; top.Floor > 0 && top.Floor <= 1 {
		text += fmt.Sprintf("At this device's peak rates the work counted in %s would take %s of the time it does. ", view.Cut(top.Name, 40), view.FloorText(top))
	}
	return text
}

// times fills everything that needs times.
func (v *runView) times(r *gpuprof.Run, limit int) {
	tones := view.Tones(r)
	all := view.Stages(r)
	for _, s := range all {
		v.Stages = append(v.Stages, newStageRow(s, tones[s.Name]))
		for _, k := range view.Kernels(r, s.Name) {
			v.Stages = append(v.Stages, stageRow{Name: view.Cut(k.Name, 40), Device: kernelTime(k), Kernel: true, Method: methodText(k.Method)})
		}
		if s.Share >= 0.0005 {
			v.Legend = append(v.Legend, legendItem{toneClass(tones[s.Name]), view.Cut(s.Name, 40), view.Percent(s.Share)})
		}
	}
	v.NoBounds = view.NoBounds(all)
	v.Stack = stackChart(v.ID, all, tones)
	spreads, _, _ := view.Spreads(r, limit)
	if len(spreads) > 0 {
		v.Spread, v.SpreadNote = spreadChart(v.ID, spreads), drawn(spreads)+" What lies beyond a row's range is drawn at its edge and counted."
		v.Processes = processLegend(len(spreads[0].Process))
	}
	lanes, from, to, left := view.Timeline(r, 1500)
	if len(lanes) > 0 {
		v.Timeline = timelineChart(v.ID, lanes, from, to, tones)
		v.TimelineNote = "Paler spans belong to the steps before and after; kernels come from a separate marked pass."
		if left > 0 {
			v.TimelineNote += fmt.Sprintf(" The %d shortest spans are left out.", left)
		}
	}
	if roof := view.Roofline(r); len(roof.Points) > 0 {
		v.Roof = roofChart(v.ID, r, roof, tones)
		v.RoofNote = "The peak rates of this device were not measured."
		if roof.FlopsPerS > 0 {
			v.RoofNote = "Peak rates measured on this device: " + roof.Peaks() + "."
		}
		v.RoofNote += " Large points are stages, small ones their kernels."
	}
	v.instruments(r)
}

// kernelTime has as many digits as a pass of a few steps deserves.
func kernelTime(k gpuprof.StageResult) string {
	if view.Usable(k.Device) == nil {
		return view.None
	}
	return view.Seconds(k.Device.Median)
}

// processLegend names the rows of ticks; with more processes than colours the
// order is what tells them apart.
func processLegend(n int) []legendItem {
	if n > 3 {
		return []legendItem{{processClass(0), "processes 1 to " + strconv.Itoa(n) + " from top to bottom", ""}}
	}
	var out []legendItem
	for i := range n {
		out = append(out, legendItem{processClass(i), "process " + strconv.Itoa(i+1), ""})
	}
	return out
}

func newStageRow(s view.Stage, tone int) stageRow {
	row := stageRow{Name: view.Cut(s.Name, 60), Class: toneClass(tone), Share: view.ShareCell(s), Exposed: view.Cell(s.Exposed), Device: view.Cell(s.Device),
		Interval: view.SeriesInterval(s.Device), Host: view.Cell(s.Host), Bytes: view.Rate(s.BytesPerS), Flops: view.Rate(s.FlopsPerS),
		Floor: view.None, OfFloor: view.FloorText(s)}
	if s.FloorS > 0 {
		row.Floor = view.Seconds(s.FloorS)
	}
	return row
}

// tables fills knobs, environment, counters, calibration and input.
func (v *runView) tables(r *gpuprof.Run) {
	for _, k := range slices.Sorted(maps.Keys(r.Knobs)) {
		kind := "tuning"
		if view.ModelKnob(r, k) {
			kind = "model"
		}
		v.Knobs = append(v.Knobs, knobRow{view.Cut(k, 40), view.Cut(r.Knobs[k], 200), kind})
	}
	v.Env = environment(r)
	for _, k := range slices.Sorted(maps.Keys(r.Counters)) {
		v.Counters = append(v.Counters, pair{view.Cut(k, 40), counter(k, r.Counters[k])})
	}
	for _, k := range slices.Sorted(maps.Keys(r.Calibration)) {
		v.Calibration = append(v.Calibration, pair{view.Cut(k, 40), view.Seconds(r.Calibration[k])})
	}
	for _, k := range slices.Sorted(maps.Keys(r.Input)) {
		v.Input = append(v.Input, pair{view.Cut(k, 40), view.Value(r.Input[k])})
	}
}

func environment(r *gpuprof.Run) []pair {
	d := r.Device
	var out []pair
	add := func(name, value string) {
		if value = view.Cut(value, 200); value != "" {
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
		add(view.Cut(k, 40), d.DeviceInfo[k])
	}
	add("gpuprof", strings.TrimSpace(r.Tool.Version+" "+r.Tool.Commit))
	add("run.json schema", r.Version)
	add("seed", strconv.FormatUint(r.Seed, 10))
	return out
}

// counter prints a count exactly, bytes and times beside it in a unit.
func counter(name string, v float64) string {
	if !view.Finite(v) {
		return "unknown"
	}
	text := grouped(v)
	switch {
	case strings.HasPrefix(name, "bytes") && v >= 1024:
		text += " (" + gpuprof.FormatBytes(v) + ")"
	case strings.HasSuffix(name, "_ns") && v > 0:
		text += " (" + view.Seconds(v*1e-9) + ")"
	}
	return text
}

// grouped prints a number with thin gaps between thousands.
func grouped(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
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
		b.WriteString("." + frac[:min(len(frac), 3)])
	}
	return sign + b.String()
}
