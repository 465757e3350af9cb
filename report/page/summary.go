package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// summaryLines lists the measured figures of the whole step.
func summaryLines(r *gpuprof.Run) []Line {
	if !view.HasTimes(r) {
		return nil
	}
	var out []Line
	add := func(label, value, note string) { out = append(out, Line{Label: label, Value: value, Note: note}) }
	detail := func(l Line, ok bool) {
		if ok {
			l.In = Verbose
			out = append(out, l)
		}
	}
	if s := view.Usable(r.Step); s != nil {
		note := describeInterval(s, "s")
		if view.Processes(s) == 1 { // with several processes the interval shows their scatter
			note += "; " + anotherProcess(r)
		}
		add("step", view.Median(s), note)
	}
	if t := r.Throughput; t != nil && t.Series.Usable() {
		add("throughput", view.RateText(t.Series, t.Unit), describeInterval(t.Series, t.Unit))
	}
	whole := "the step"
	if l, ok := probeLine(r); ok {
		out, whole = append(out, l), "the "+l.Label
	}
	for _, s := range view.Stages(r) {
		switch {
		case s.Name != gpuprof.StageGap || s.Exposed == nil:
		case s.Share == 0:
			detail(Line{Label: "gap", Value: "none", Note: "every instant of " + whole + " belongs to a stage"}, true)
		case s.Exposed.Median == 0:
			detail(Line{Label: "gap", Value: "none in most steps", Note: view.Percent(s.Share) + " of all time belongs to no stage"}, true)
		default:
			add("gap", gpuprof.FormatSeconds(s.Exposed.Median), view.Percent(s.Share)+" of "+whole+" belongs to no stage")
		}
	}
	detail(probeOverhead(r))
	detail(ladderLine(r))
	detail(shortKernels(r))
	if v, n, ok := blockedTime(r); ok {
		add("blocked host", gpuprof.FormatSeconds(v)+" per step", n)
	}
	if l, ok := leastLatency(r); ok {
		out = append(out, l)
	}
	if r.PeakMemory > 0 {
		add("peak memory", gpuprof.FormatBytes(float64(r.PeakMemory)), "")
	}
	detail(allocatorLine(r))
	if v := r.DeviceClockHz; gpuprof.IsFinite(v) && v > 0 {
		detail(Line{Label: "device clock", Value: gpuprof.FormatSI(v, "Hz"), Note: "when the last sample was taken"}, true)
	}
	detail(energyLine(r))
	return out
}

// leastLatency returns the line about the lower bound of every request's latency.
func leastLatency(r *gpuprof.Run) (Line, bool) {
	q := r.Requests
	if q == nil || !(q.FloorS > 0) {
		return Line{}, false
	}
	l := Line{Label: "least latency", Value: gpuprof.FormatSeconds(q.FloorS), Note: "of a request alone, copied and answered at this device's peak rates"}
	if r.Device.Kind != "host" {
		l.Note = "of a request alone, answered at this device's peak rates, without its copies"
	}
	return l, true
}

// describeInterval formats an interval with its scope: "95 % 12.3 to 12.4 ms, between processes".
func describeInterval(s *gpuprof.Series, unit string) string {
	interval := view.IntervalIn(s, unit)
	switch {
	case view.Alike(s):
		return "no 95 % interval: too few independent samples"
	case interval == view.None:
		return "no interval"
	}
	return view.IntervalName(s) + " " + interval + ", " + view.IntervalScope(s)
}

func signedText(v float64) string {
	s := view.Percent2(v)
	if v > 0 {
		return "+" + s
	}
	return s
}

// blockedTime returns how long the host waits for the device per step, in s. The note names the stages that wait and
// the number of sync points. The time is the counter blocked_ns or, without that counter, the sum over the wait stages.
func blockedTime(r *gpuprof.Run) (seconds float64, note string, ok bool) {
	ns, counted := r.Counters["blocked_ns"]
	seconds = ns * 1e-9
	var waits []view.Stage
	var where, notes []string
	total := 0.0
	for _, s := range view.Stages(r) {
		if s.Host != nil && s.Waits() {
			waits, total = append(waits, s), total+s.Host.Median
		}
	}
	for _, s := range waits {
		if s.Host.Median > 0.01*total { // a wait that returns at once also takes some time
			where = append(where, s.Name)
		}
	}
	if ok = counted || len(waits) > 0; !counted {
		seconds = total
	}
	if len(where) > 0 {
		notes = append(notes, "in "+strings.Join(where, " and "))
	}
	if points, has := r.Counters["sync_points"]; has && gpuprof.IsFinite(points) {
		noun := " sync points per step"
		if points == 1 {
			noun = " sync point per step"
		}
		notes = append(notes, trimZeros(points)+noun)
	}
	return seconds, strings.Join(notes, "; "), ok
}

func trimZeros(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
}

// checkSummary summarizes all checks on one line, with the worst error and its tolerance.
func checkSummary(r *gpuprof.Run) string {
	if len(r.Checks) == 0 {
		return "none recorded: the figures were not compared with a reference"
	}
	failed := len(r.Failed())
	worst, at := -1.0, gpuprof.Check{}
	for _, c := range r.Checks {
		if v := toleranceShare(c); v > worst && (!c.Virtual || !c.Pass) { // a virtual time is in none of the run's figures
			worst, at = v, c
		}
	}
	text := fmt.Sprintf("%d of %d passed against the reference", len(r.Checks)-failed, len(r.Checks))
	switch {
	case at.Stage == "":
	case worst == 0:
		text += "; no error in any"
	default:
		text += fmt.Sprintf("; worst relative error %s in %s, tolerance %s", errorText(at.RelativeError), at.Stage, formatSci(at.Tolerance))
	}
	return text
}

// toleranceShare returns a check's error divided by its tolerance; 0/0 is 0, and NaN ranks above any number.
func toleranceShare(c gpuprof.Check) float64 {
	e := float64(c.RelativeError)
	v := e / c.Tolerance
	switch {
	case e == 0:
		return 0
	case !gpuprof.IsFinite(v):
		return math.Inf(1)
	}
	return v
}

// errorText formats a relative error: "3.2e-07", or "not a number".
func errorText(n gpuprof.Number) string {
	if !gpuprof.IsFinite(float64(n)) {
		return "not a number"
	}
	return formatSci(float64(n))
}

func formatSci(v float64) string {
	if v == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2g", v)
}
