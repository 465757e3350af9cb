package html

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// instruments says what the probes cost, how the step was measured beside
// them, and what the energy pass saw.
func (v *runView) instruments(r *gpuprof.Run) {
	if p := view.Usable(r.ProbedStep); p != nil {
		v.StageNote = "The probes around stages cost too much for the timing passes. The step (" + view.Median(r.Step) +
			") was measured without them; the stages come from separate blocks, and their exposed times add up to the step there: " + view.Median(p) + "."
	}
	if slices.ContainsFunc(r.Stages, func(s gpuprof.StageResult) bool { return s.Method == gpuprof.MethodSlope }) {
		v.StageNote = strings.TrimSpace(v.StageNote + " Kernels marked as replayed are too short for a pair of events: their time is the slope over replays of a step's launches, with the inputs in the cache.")
	}
	v.Ladder = ladderTable(r.Ladder)
	if r.Energy != nil {
		v.Energy = energyTable(r.Energy)
	}
}

// methodText words how a kernel was timed.
func methodText(method string) string {
	if method == gpuprof.MethodSlope {
		return "replayed"
	}
	return view.Cut(method, 40)
}

func ladderTable(rungs []gpuprof.Rung) gridView {
	g := gridView{Heading: "Table of probes", Titles: []string{"probe", "over", "step with it", "95 % interval", "used in"},
		Caption: "A step with the probe over the same step with only what stands under over."}
	for _, l := range rungs {
		where := "the timing passes"
		if l.Apart {
			where = "a pass of its own: it may cost too much"
		}
		g.Rows = append(g.Rows, []string{view.Cut(l.Probe, 40), view.Cut(l.Over, 40), "x" + factor4(l.Ratio.Ratio), view.Interval(l.CI95, factor4), where})
	}
	return g
}

// factor4 has the digits that a cost of a tenth of a percent needs.
func factor4(v float64) string {
	if !view.Finite(v) {
		return view.None
	}
	return fmt.Sprintf("%.4f", v)
}

func energyTable(e *gpuprof.Energy) gridView {
	g := gridView{Heading: "Table of energy", Words: true, Titles: []string{"figure", "value"},
		Caption: "From a pass of its own; powers are of the whole device."}
	add := func(name, value string) { g.Rows = append(g.Rows, []string{name, value}) }
	known := func(n gpuprof.Number, unit string) string {
		if !view.Finite(float64(n)) {
			return "unknown"
		}
		return view.SI(float64(n), unit)
	}
	if e.Valid {
		add("a step, gross", view.SI(e.GrossStepJ, "J"))
		add("a step, idle power taken off", known(e.NetStepJ, "J"))
	} else {
		add("a step", "not valid: "+orNone(view.Cut(e.Reason, 300)))
	}
	add("power by the energy counter", view.SI(e.CounterW, "W"))
	add("mean of instant readings", known(e.InstantW, "W"))
	add("idle power before the pass", known(e.IdleW, "W"))
	add("measured over", fmt.Sprintf("%s, %d steps, %d updates of the counter", view.Seconds(e.Seconds), e.Steps, e.Updates))
	return g
}
