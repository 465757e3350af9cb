package view

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Line is one summary figure: what it is, the figure, and a remark.
type Line struct {
	Label string
	Value string
	Note  string
}

// Text is value and note in one line.
func (l Line) Text() string {
	if l.Note == "" {
		return l.Value
	}
	return l.Value + "  (" + l.Note + ")"
}

// Summary lists the figures of the whole step. What was not measured is left
// out rather than listed as missing.
func Summary(r *gpuprof.Run) []Line {
	if !HasTimes(r) {
		return nil
	}
	var out []Line
	add := func(label, value, note string) { out = append(out, Line{label, value, note}) }
	maybe := func(l Line, ok bool) {
		if ok {
			out = append(out, l)
		}
	}
	if s := Usable(r.Step); s != nil {
		note := withKind(SeriesInterval(s), s)
		if Processes(s) == 1 { // the interval of several says it
			note += "; " + AnotherProcess(r)
		}
		add("step", Median(s), note)
	}
	if t := r.Throughput; t != nil && Usable(t.Series) != nil {
		add("throughput", RateText(t.Series, Cut(t.Unit, 24)), withKind(rateInterval(t.Series, Cut(t.Unit, 24)), t.Series))
	}
	whole := "the step"
	if l, ok := probed(r); ok {
		out, whole = append(out, l), "the "+l.Label
	}
	for _, s := range Stages(r) {
		switch {
		case s.Name != Gap || s.Exposed == nil:
		case s.Share == 0:
			add("gap", "none", "every instant of "+whole+" belongs to a stage")
		case s.Exposed.Median == 0:
			add("gap", "none in most steps", Percent(s.Share)+" of all time belongs to no stage")
		default:
			add("gap", Seconds(s.Exposed.Median), Percent(s.Share)+" of "+whole+" belongs to no stage")
		}
	}
	maybe(probeOverhead(r))
	maybe(ladder(r))
	maybe(shortKernels(r))
	if v, n, ok := blocked(r); ok {
		add("blocked host", Seconds(v)+" per step", n)
	}
	if r.PeakMemory > 0 {
		add("peak memory", gpuprof.FormatBytes(float64(r.PeakMemory)), "")
	}
	maybe(energyLine(r))
	return out
}

// withKind is an interval with what it covers: "95 % 12.3 to 12.4 ms, between processes".
func withKind(interval string, s *gpuprof.Series) string {
	if interval == None {
		return "no interval"
	}
	return IntervalName(s) + " " + interval + ", " + IntervalScope(s)
}

func rateInterval(s *gpuprof.Series, unit string) string {
	n := digitsFor(s)
	return Interval(s.CI95, func(v float64) string { return scaled(v, n, ratePrefixes(unit)) })
}

func signed(v float64) string {
	s := percent2(v)
	if v > 0 {
		return "+" + s
	}
	return s
}

// blocked is the caller's time inside waits, what it waited for, and the
// number of sync points. The meter's own count is exact; the wait stages
// stand in without it.
func blocked(r *gpuprof.Run) (seconds float64, note string, ok bool) {
	ns, counted := r.Counters["blocked_ns"]
	seconds = ns * 1e-9
	var waits []Stage
	var where, notes []string
	total := 0.0
	for _, s := range Stages(r) {
		if s.Host != nil && stageRank(s.Name) == rankWait {
			waits, total = append(waits, s), total+s.Host.Median
		}
	}
	for _, s := range waits {
		if s.Host.Median > 0.01*total { // a wait that finds nothing to wait for takes a moment too
			where = append(where, s.Name)
		}
	}
	if ok = counted || len(waits) > 0; !counted {
		seconds = total
	}
	if len(where) > 0 {
		notes = append(notes, "in "+strings.Join(where, " and "))
	}
	if points, has := r.Counters["sync_points"]; has && Finite(points) {
		noun := " sync points per step"
		if points == 1 {
			noun = " sync point per step"
		}
		notes = append(notes, trimZeros(points)+noun)
	}
	return seconds, strings.Join(notes, "; "), ok
}

func trimZeros(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(trim(v, 2), "0"), ".")
}

// CheckSummary is one line on all checks: the worst error beside its tolerance.
func CheckSummary(r *gpuprof.Run) string {
	if len(r.Checks) == 0 {
		return "none recorded: the figures were not compared with a reference"
	}
	failed := len(r.Failed())
	worst, at := -1.0, gpuprof.Check{}
	for _, c := range r.Checks {
		if v := nearness(c); v > worst {
			worst, at = v, c
		}
	}
	text := fmt.Sprintf("%d of %d passed against the reference", len(r.Checks)-failed, len(r.Checks))
	switch {
	case at.Stage == "":
	case worst == 0:
		text += "; no error in any"
	default:
		text += fmt.Sprintf("; worst relative error %s in %s, tolerance %s", Error(at.RelativeError), Cut(at.Stage, 32), sci(at.Tolerance))
	}
	return text
}

// nearness is a check's error as a part of its own tolerance, since stages
// may differ in theirs. No error where none is allowed is nothing; what is
// not a number is worse than any number.
func nearness(c gpuprof.Check) float64 {
	e := float64(c.RelativeError)
	v := e / c.Tolerance
	switch {
	case e == 0:
		return 0
	case !Finite(v):
		return math.Inf(1)
	}
	return v
}

// FailedChecks has one sentence a failed check.
func FailedChecks(r *gpuprof.Run) []string {
	var out []string
	for _, c := range r.Failed() {
		rows := ""
		if c.Rows != "" {
			rows = " (rows checked: " + Cut(c.Rows, 32) + ")"
		}
		out = append(out, fmt.Sprintf("%s: relative error %s is not within %s%s", Cut(c.Stage, 32), Error(c.RelativeError), sci(c.Tolerance), rows))
	}
	return out
}

// Error prints a relative error: "3.2e-07", or "not a number".
func Error(n gpuprof.Number) string {
	if !Finite(float64(n)) {
		return "not a number"
	}
	return sci(float64(n))
}

func sci(v float64) string {
	if v == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2g", v)
}

// MaxFindings is how many findings a report prints; more are noise.
const MaxFindings = 5

// Finding is advice in words.
type Finding struct{ Head, Evidence, Command, PyTorch string }

// Findings words the first MaxFindings of a run.
func Findings(r *gpuprof.Run) []Finding {
	var out []Finding
	for _, f := range r.Findings[:min(len(r.Findings), MaxFindings)] {
		head := Cut(f.Rule, 40)
		if f.Stage != "" {
			head += " in " + Cut(f.Stage, 32)
		}
		if f.Knob != "" {
			head += fmt.Sprintf(": set %s from %s to %s", Cut(f.Knob, 24), Cut(f.From, 24), Cut(f.To, 24))
		}
		if Finite(f.ClaimS) && f.ClaimS > 0 {
			head += ", saves up to " + Seconds(f.ClaimS) + " per step"
		}
		out = append(out, Finding{head, Pairs(f.Evidence), Cut(f.Command, 300), Cut(f.PyTorch, 300)})
	}
	return out
}

// Pairs prints a map as "a=1, b=2" in the order of its keys.
func Pairs(m map[string]any) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, Cut(k, 32)+"="+Value(m[k]))
	}
	return strings.Join(parts, ", ")
}

// Headline is the status with its reason: "PARTIAL: interrupted".
func Headline(r *gpuprof.Run) string {
	word := strings.ToUpper(Status(r))
	if r.Status == gpuprof.Complete {
		return string(gpuprof.Complete)
	}
	if r.Reason == "" {
		return word
	}
	return word + ": " + Cut(r.Reason, 300)
}
