package page

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// probeLine returns a line with the step time of the separate pass that timed the stages; false if there was none.
func probeLine(r *gpuprof.Run) (Line, bool) {
	if !r.ProbedStep.Usable() {
		return Line{}, false
	}
	return Line{Label: "probed step", Value: view.Median(r.ProbedStep), Note: "of the pass that timed the stages: exposed times and shares are of it, not of the step"}, true
}

// notMeasurable is the largest relative overhead that is reported as "at most". If the interval includes zero and its
// upper end is higher, the overhead is reported as not measurable.
const notMeasurable = 0.1

// probeOverhead returns the cost of stage events, measured against steps without probes. If the interval is too wide
// and the calibrated bound is below its upper end, the line states the calibrated bound.
func probeOverhead(r *gpuprof.Run) (Line, bool) {
	o := r.Overhead
	if o == nil || !gpuprof.IsFinite(o.Ratio) {
		return Line{}, false
	}
	value, note := overheadText(o)
	if bound, how, ok := calibratedBound(r); ok && aboutZero(o) && o.CI95[1]-1 > r.Device.ProbeLimit() && bound < o.CI95[1]-1 {
		value, note = "at most "+view.Percent2(bound)+" by calibration", how+"; "+note
	}
	if r.ProbedStep.Usable() {
		note += "; the step was timed without it"
	}
	return Line{Label: "probe overhead", Value: value, Note: note}, true
}

// calibratedBound returns an upper bound of the cost of a step's probes: their calibrated cost as a share of a step
// without probes. It has a bound only for device kind "host", because on a GPU events also delay the next kernel.
func calibratedBound(r *gpuprof.Run) (share float64, how string, ok bool) {
	c, step := r.ProbeCost, view.Usable(r.BareStep)
	if r.ProbedStep.Usable() || step == nil {
		step = view.Usable(r.Step)
	}
	if c == nil || r.Device.Kind != "host" || step == nil || !(step.Median > 0) || !(c.Seconds > 0) || !gpuprof.IsFinite(c.Seconds) {
		return 0, "", false
	}
	return c.Seconds / step.Median, fmt.Sprintf("%s spans per step take %s in all", trimZeros(c.Spans), gpuprof.FormatSeconds(c.Seconds)), true
}

func aboutZero(o *gpuprof.Ratio) bool { return o.CI95[0] <= 1 && o.CI95[1] >= 1 }

// overheadText describes a measured cost. An interval around zero is no speed-up: the cost is then bounded by its upper
// end, or not measurable if the interval is too wide (notMeasurable).
func overheadText(o *gpuprof.Ratio) (value, note string) {
	lo, hi := o.CI95[0]-1, o.CI95[1]-1
	if !gpuprof.IsFinite(lo) || !gpuprof.IsFinite(hi) {
		return signedText(o.Ratio - 1), "no interval; against bare steps"
	}
	note = "95 % " + view.Interval([2]float64{lo, hi}, signedText) + ", against bare steps"
	switch {
	case aboutZero(o) && hi > notMeasurable:
		return "not measurable", note
	case aboutZero(o):
		return "at most " + view.Percent2(hi), note
	case hi < 0:
		return signedText(o.Ratio - 1), note + ", which were the slower ones"
	}
	return signedText(o.Ratio - 1), note
}

// anotherProcess states by how much the step of another process may differ, estimated from earlier processes on this
// machine. Of several runs it takes the largest estimate.
func anotherProcess(runs ...*gpuprof.Run) string {
	var most *gpuprof.Another
	for _, r := range runs {
		if a := r.Another; a != nil && gpuprof.IsFinite(a.Share) && a.Processes > 0 && (most == nil || a.Share > most.Share) {
			most = a
		}
	}
	if most == nil {
		return "how far another process may differ is unknown: --runs 6 measures it"
	}
	by := gpuprof.Plural(most.Processes, "earlier process")
	if !most.Same {
		by += " of other settings"
	}
	return "another process may differ by about " + view.Percent2(most.Share) + " (" + by + ")"
}

// ladderLine returns the cost of each probe, relative to a step without it.
func ladderLine(r *gpuprof.Run) (Line, bool) {
	var parts []string
	apart := false
	for _, g := range r.Ladder {
		if !gpuprof.IsFinite(g.Ratio.Ratio) {
			continue
		}
		value, _ := overheadText(&g.Ratio)
		text := g.Probe + ": " + value
		if g.Apart {
			apart = true
			text += ", kept apart"
		}
		parts = append(parts, text)
	}
	note := "each measured with and without it"
	if apart {
		note += "; instruments kept apart are in no time of the step"
	}
	return Line{Label: "cost of probes", Value: strings.Join(parts, "; "), Note: note}, len(parts) > 0
}

// energyLine returns the energy of a step, or why no valid pass measured it.
func energyLine(r *gpuprof.Run) (Line, bool) {
	e := view.Usable(r.EnergyStep)
	pass := r.Energy
	switch {
	case e == nil && pass == nil:
		return Line{}, false
	case e == nil:
		why := "the pass was not valid"
		if pass.Reason != "" {
			why = pass.Reason
		}
		return Line{Label: "energy", Value: "unknown", Note: why}, true
	case pass == nil:
		return Line{Label: "energy", Value: view.RateText(e, "J") + " per step", Note: describeInterval(e, "J")}, true
	}
	notes := []string{"gross, " + gpuprof.FormatSI(pass.CounterW, "W") + " by the energy counter"}
	if v := float64(pass.InstantW); gpuprof.IsFinite(v) {
		notes[0] += " and " + gpuprof.FormatSI(v, "W") + " by instant power"
	}
	notes[0] += fmt.Sprintf(" over %s and %s", gpuprof.FormatSeconds(pass.Seconds), gpuprof.Plural(pass.Steps, "step"))
	if v := float64(pass.NetStepJ); gpuprof.IsFinite(v) {
		notes = append(notes, view.Joules(v)+" without the "+gpuprof.FormatSI(float64(pass.IdleW), "W")+" of an idle device")
	}
	if e.N() > 1 {
		notes = append(notes, describeInterval(e, "J"))
	}
	return Line{Label: "energy", Value: view.RateText(e, "J") + " per step", Note: strings.Join(notes, "; ")}, true
}

// maxShort limits the short kernels that the summary names.
const maxShort = 4

// shortKernels names the kernels that are too short to be timed between two events.
func shortKernels(r *gpuprof.Run) (Line, bool) {
	var names []string
	for _, s := range r.Stages {
		if s.Method == gpuprof.MethodSlope && s.Device.Usable() {
			names = append(names, s.Name+" "+view.Median(s.Device))
		}
	}
	if len(names) == 0 {
		return Line{}, false
	}
	text := strings.Join(names[:min(len(names), maxShort)], ", ")
	if more := len(names) - maxShort; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return Line{Label: "short kernels", Value: text, Note: "too short for a pair of events: timed by replaying a step's launches, with their inputs in the cache"}, true
}

func kernelMethod(k gpuprof.StageResult) string {
	if k.Method == gpuprof.MethodSlope {
		return "replayed"
	}
	return "events"
}
