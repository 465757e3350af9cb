package measure

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Merge joins the results of several processes of one plan: every series gets
// one list a process, and the process becomes the replicate of the intervals.
// What is the same by construction (counters, checks, floors) is the first's.
func Merge(runs []*gpuprof.Run) (*gpuprof.Run, error) {
	if len(runs) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "merging processes: none left a result")
	}
	if len(runs) == 1 {
		return runs[0], nil
	}
	out := *runs[0]
	for _, r := range runs[1:] {
		if r.Workload != out.Workload || r.Preset != out.Preset || !sameKnobs(r.Knobs, out.Knobs) {
			return nil, gpuprof.Errorf(gpuprof.ErrInput, "merging processes: %s/%s and %s/%s were not run with the same settings", out.Workload, out.Preset, r.Workload, r.Preset)
		}
	}
	pick := func(f func(*gpuprof.Run) *gpuprof.Series) *gpuprof.Series { return mergeSeries(runs, f) }
	out.Step = pick(func(r *gpuprof.Run) *gpuprof.Series { return r.Step })
	out.BareStep = pick(func(r *gpuprof.Run) *gpuprof.Series { return r.BareStep })
	out.ProbedStep = mergeProbed(runs)
	out.EnergyStep = pick(func(r *gpuprof.Run) *gpuprof.Series { return r.EnergyStep })
	if out.Throughput != nil {
		out.Throughput = &gpuprof.Throughput{Unit: out.Throughput.Unit, Series: pick(func(r *gpuprof.Run) *gpuprof.Series {
			if r.Throughput == nil {
				return nil
			}
			return r.Throughput.Series
		})}
	}
	out.Stages = mergeStages(runs)
	out.Overhead = mergeOverhead(runs)
	out.Telemetry = mergeTelemetry(runs)
	mergeLists(&out, runs)
	return &out, nil
}

// mergeProbed is what the processes' exposed times add up to; nil when that is
// the step itself in all of them.
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

func sameKnobs(a, b gpuprof.Settings) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
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

// mergeStages joins stages by parent and name, in the order they are first seen.
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
			out = append(out, st)
		}
	}
	return out
}

// mergeOverhead takes each process's ratio as one observation.
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

// mergeTelemetry puts the processes' readings on the first one's clock. Between
// two processes stands a reading that is not known, so that nobody joins them.
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

// mergeLists concatenates per-sample lists; block numbers go on counting and
// a warning or partial status of any process is the whole run's.
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
		if r.Status != gpuprof.Complete && out.Status == gpuprof.Complete {
			out.Status, out.Reason = r.Status, fmt.Sprintf("process %d: %s", i+1, r.Reason)
		}
	}
}
