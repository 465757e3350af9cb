package measure

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Merge joins the runs of several processes of one plan. Every series keeps one list per process, and intervals then
// treat the process as the replicate. Values equal by construction (counters, settings, machine) come from the first
// process; values that each process measures once are joined by a rule per kind.
func Merge(runs []*gpuprof.Run) (*gpuprof.Run, error) {
	if len(runs) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "merging processes: none left a result")
	}
	if len(runs) == 1 {
		return runs[0], nil
	}
	runs = dropWarmUp(runs)
	out := *runs[0]
	for _, r := range runs[1:] {
		if r.Workload != out.Workload || r.Preset != out.Preset || !maps.Equal(r.Knobs, out.Knobs) {
			return nil, gpuprof.Errorf(gpuprof.ErrInput, "merging processes: %s/%s and %s/%s were not run with the same settings", out.Workload, out.Preset, r.Workload, r.Preset)
		}
	}
	runs = unifySteps(runs)
	out = *runs[0]
	pick := func(f func(*gpuprof.Run) *gpuprof.Series) *gpuprof.Series { return mergeSeries(runs, f) }
	out.Step = pick(func(r *gpuprof.Run) *gpuprof.Series { return r.Step })
	out.BareStep = pick(func(r *gpuprof.Run) *gpuprof.Series { return r.BareStep })
	out.ProbedStep = mergeProbed(runs)
	out.EnergyStep = pick(func(r *gpuprof.Run) *gpuprof.Series { return r.EnergyStep })
	out.Throughput = nil
	rate := pick(func(r *gpuprof.Run) *gpuprof.Series {
		if r.Throughput == nil {
			return nil
		}
		return r.Throughput.Series
	})
	if rate != nil {
		out.Throughput = &gpuprof.Throughput{Unit: rate.Unit, Series: rate}
	}
	out.Stages = mergeStages(runs)
	out.Overhead = mergeOverhead(runs)
	out.Another = anotherOfRuns(runs)
	out.Ladder = mergeLadder(runs)
	out.Energy = mergeEnergy(runs)
	out.ExampleStep = exampleOf(&out, runs)
	out.Input = mergeInput(runs)
	for _, r := range runs { // a rate that any process reached is a rate of the device
		out.Ceilings = out.Ceilings.Best(r.Ceilings)
	}
	out.Telemetry = mergeTelemetry(runs)
	mergeLists(&out, runs)
	var served []*loadtest.Requests
	for _, r := range runs {
		served = append(served, r.Requests)
	}
	var err error
	if out.Requests, err = latency.Merge(served, out.Seed); out.Requests != nil {
		out.Requests.FloorS = leastFloor(served)
	}
	return &out, err
}

// leastFloor returns the least latency floor of the processes, which comes from the highest peak rates.
func leastFloor(served []*loadtest.Requests) (least float64) {
	for _, q := range served {
		if q != nil && q.FloorS > 0 && (least == 0 || q.FloorS < least) {
			least = q.FloorS
		}
	}
	return least
}

// dropWarmUp removes the steps of processes that ended during warm-up, because such steps are no samples. If all
// processes ended there, it removes none.
func dropWarmUp(runs []*gpuprof.Run) []*gpuprof.Run {
	if !slices.ContainsFunc(runs, func(r *gpuprof.Run) bool { return r.Step.N() > 0 && !warmedOnly(r) }) {
		return runs
	}
	out := slices.Clone(runs)
	for i, r := range out {
		if !warmedOnly(r) {
			continue
		}
		bare := *r
		bare.Step, bare.Throughput, bare.Stages, bare.ExampleStep = nil, nil, nil, []gpuprof.Span{}
		bare.Order, bare.Flags = nil, nil
		bare.Warnings = slices.DeleteFunc(slices.Clone(r.Warnings), func(w gpuprof.Warning) bool { return w.Code == warmUpOnly || w.Code == "few-samples" })
		out[i] = &bare
	}
	return out
}

// unifySteps makes the steps of all processes comparable. If stage events cost too much in any process, or in the
// mean of all, the step without stage events (bare) becomes the step of each process that has one.
func unifySteps(runs []*gpuprof.Run) []*gpuprof.Run {
	apart := slices.ContainsFunc(runs, func(r *gpuprof.Run) bool { return r.ProbedStep != nil })
	if o := mergeOverhead(runs); !apart && (o == nil || o.CI95[0]-1 <= runs[0].Device.ProbeLimit()) {
		return runs
	}
	out := slices.Clone(runs)
	for i, r := range runs {
		if kept, ok := stats.PreferBareStep(r); ok {
			out[i] = kept
		}
	}
	return out
}

// mergeProbed joins the probed steps, to which exposed times refer; nil if every process's step is its probed step.
func mergeProbed(runs []*gpuprof.Run) *gpuprof.Series {
	if !slices.ContainsFunc(runs, func(r *gpuprof.Run) bool { return r.ProbedStep != nil }) {
		return nil
	}
	return mergeSeries(runs, func(r *gpuprof.Run) *gpuprof.Series {
		if r.ProbedStep != nil {
			return r.ProbedStep
		}
		return r.Step
	})
}

func mergeSeries(runs []*gpuprof.Run, f func(*gpuprof.Run) *gpuprof.Series) *gpuprof.Series {
	var unit string
	var lists [][]float64
	for _, r := range runs {
		if s := f(r); s != nil {
			unit = s.Unit
			lists = append(lists, s.Runs...)
		}
	}
	return stats.Summarise(unit, lists...)
}

// mergeStages joins stages by parent and name, in order of first appearance.
func mergeStages(runs []*gpuprof.Run) []gpuprof.StageResult {
	out := []gpuprof.StageResult{}
	seen := map[[2]string]bool{}
	for _, first := range runs {
		for _, st := range first.Stages {
			key := [2]string{st.Parent, st.Name}
			if seen[key] {
				continue
			}
			seen[key] = true
			find := func(r *gpuprof.Run) *gpuprof.StageResult {
				i := slices.IndexFunc(r.Stages, func(s gpuprof.StageResult) bool { return s.Parent == st.Parent && s.Name == st.Name })
				if i < 0 {
					return &gpuprof.StageResult{}
				}
				return &r.Stages[i]
			}
			st.Device = mergeSeries(runs, func(r *gpuprof.Run) *gpuprof.Series { return find(r).Device })
			st.Host = mergeSeries(runs, func(r *gpuprof.Run) *gpuprof.Series { return find(r).Host })
			st.Exposed = mergeSeries(runs, func(r *gpuprof.Run) *gpuprof.Series { return find(r).Exposed })
			mergeBound(&st, runs, find)
			out = append(out, st)
		}
	}
	return out
}

// mergeBound takes the processes' least bound, from the highest peak rates, unless it exceeds the measured time.
func mergeBound(st *gpuprof.StageResult, runs []*gpuprof.Run, find func(*gpuprof.Run) *gpuprof.StageResult) {
	least := gpuprof.Bound{}
	for _, r := range runs {
		s := find(r)
		if s.BoundS > 0 && (least.S <= 0 || s.BoundS < least.S) {
			least = gpuprof.Bound{S: s.BoundS, By: s.BoundBy}
		}
		if least.S <= 0 && least.Missing == "" {
			least.Missing = s.NoBound
		}
	}
	if st.Device != nil {
		least = least.Beside(st.Device.Median)
	}
	st.BoundS, st.BoundBy, st.NoBound = least.S, least.By, least.Missing
}

// mergeOverhead combines the processes' ratios of a step with probes to a step without, with one ratio from each
// process.
func mergeOverhead(runs []*gpuprof.Run) *gpuprof.Ratio {
	var ratios []float64
	for _, r := range runs {
		if r.Overhead != nil {
			ratios = append(ratios, r.Overhead.Ratio)
		}
	}
	if ratio, ok := stats.MeanRatio(ratios); ok {
		return &ratio
	}
	return runs[0].Overhead
}

// mergeTelemetry puts all readings on the first process's clock, with an unknown reading (NaN) between two processes.
func mergeTelemetry(runs []*gpuprof.Run) map[string]gpuprof.Track {
	out := map[string]gpuprof.Track{}
	for _, r := range runs {
		shift := r.Started.Sub(runs[0].Started).Seconds()
		for name, t := range r.Telemetry {
			m := out[name]
			if len(m.TimeS) > 0 && len(t.TimeS) > 0 {
				m.TimeS, m.Value = append(m.TimeS, t.TimeS[0]+shift), append(m.Value, gpuprof.Number(math.NaN()))
			}
			for _, at := range t.TimeS {
				m.TimeS = append(m.TimeS, at+shift)
			}
			m.Unit, m.Value = t.Unit, append(m.Value, t.Value...)
			out[name] = m
		}
	}
	return out
}

// mergeLists concatenates per-sample lists with continued block numbers; a partial status applies to the whole run.
func mergeLists(out *gpuprof.Run, runs []*gpuprof.Run) {
	out.Order, out.Flags, out.Warnings = []gpuprof.Order{}, [][]string{}, []gpuprof.Warning{}
	blocks := 0
	for i, r := range runs {
		offset, shift := blocks, r.Started.Sub(out.Started).Seconds()
		for _, o := range r.Order {
			o.Block, o.StartS = o.Block+offset, o.StartS+shift
			blocks = max(blocks, o.Block+1)
			out.Order = append(out.Order, o)
		}
		out.Flags = append(out.Flags, r.Flags...)
		for _, w := range r.Warnings {
			w.Text = fmt.Sprintf("process %d: %s", i+1, w.Text)
			out.Warnings = append(out.Warnings, w)
		}
		out.PeakMemory = max(out.PeakMemory, r.PeakMemory)
		if worse := r.Status == gpuprof.Invalid && out.Status == gpuprof.Partial; worse || r.Status != gpuprof.Complete && out.Status == gpuprof.Complete {
			out.Status, out.Reason = r.Status, fmt.Sprintf("process %d: %s", i+1, r.Reason)
		}
		if len(out.Failed()) == 0 && len(r.Failed()) > 0 {
			out.Checks = r.Checks
		}
	}
}

// mergeLadder combines each probe's ratios, one per process. A probe excluded by any process is marked as excluded.
func mergeLadder(runs []*gpuprof.Run) []gpuprof.Rung {
	var out []gpuprof.Rung
	ratios := map[[2]string][]float64{}
	for _, r := range runs {
		for _, g := range r.Ladder {
			key := [2]string{g.Probe, g.Over}
			if ratios[key] == nil {
				out = append(out, g)
			}
			ratios[key] = append(ratios[key], g.Ratio.Ratio)
		}
	}
	for i := range out {
		g := &out[i]
		if ratio, ok := stats.MeanRatio(ratios[[2]string{g.Probe, g.Over}]); ok {
			g.Ratio = ratio
		}
		for _, r := range runs {
			g.Apart = g.Apart || slices.ContainsFunc(r.Ladder, func(o gpuprof.Rung) bool { return o.Probe == g.Probe && o.Over == g.Over && o.Apart })
		}
	}
	return out
}

// mergeEnergy joins the valid energy passes, from which EnergyStep is computed: powers weighted by time, joules by
// steps. A value that one pass lacks is unknown in the result. Without a valid pass it returns the first pass.
func mergeEnergy(runs []*gpuprof.Run) *gpuprof.Energy {
	var first *gpuprof.Energy
	var valid []*gpuprof.Energy
	for _, r := range runs {
		if first == nil {
			first = r.Energy
		}
		if r.Energy != nil && r.Energy.Valid {
			valid = append(valid, r.Energy)
		}
	}
	if len(valid) == 0 {
		return first
	}
	out := gpuprof.Energy{Valid: true}
	for _, e := range valid {
		out.Seconds, out.Updates, out.Steps = out.Seconds+e.Seconds, out.Updates+e.Updates, out.Steps+e.Steps
	}
	for _, e := range valid {
		time, steps := e.Seconds/out.Seconds, float64(e.Steps)/float64(out.Steps)
		out.CounterW += time * e.CounterW
		out.InstantW += gpuprof.Number(time) * e.InstantW
		out.IdleW += gpuprof.Number(time) * e.IdleW
		out.GrossStepJ += steps * e.GrossStepJ
		out.NetStepJ += gpuprof.Number(steps) * e.NetStepJ
	}
	return &out
}

// exampleOf returns the example step of the process whose median step is closest to the overall median, since the
// first process may have been disturbed.
func exampleOf(all *gpuprof.Run, runs []*gpuprof.Run) []gpuprof.Span {
	best, least := runs[0].ExampleStep, math.Inf(1)
	for _, r := range runs {
		if len(r.ExampleStep) == 0 || r.Step == nil || all.Step == nil {
			continue
		}
		if d := math.Abs(r.Step.Median - all.Step.Median); d < least {
			best, least = r.ExampleStep, d
		}
	}
	return best
}

// mergeInput returns the first process's input, with each time replaced by its median over processes.
func mergeInput(runs []*gpuprof.Run) map[string]any {
	out := maps.Clone(runs[0].Input)
	for name := range out {
		if !strings.HasSuffix(name, "_s") {
			continue
		}
		var seconds []float64
		for _, r := range runs {
			if v, ok := r.Input[name].(float64); ok {
				seconds = append(seconds, v)
			}
		}
		if len(seconds) > 0 {
			out[name] = stats.Median(seconds)
		}
	}
	return out
}
