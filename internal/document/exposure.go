package document

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// oldExposure is the warning code of a run of schema 1.0 whose exposed times cannot be recomputed.
const oldExposure = "old-exposed-times"

// renewExposure recomputes the exposed times of a run of schema 1.0, or adds a warning if that is impossible. In schema
// 1.0, time in which a copy and a kernel overlap was exposed time of the stage that comes first in the step; now it is
// the kernel stage's. Kernels of one lane never overlap. So a kernel stage's device time that was not exposed time was
// counted for the copy before it, and moves to the kernel stage.
func renewExposure(r *gpuprof.Run) {
	if r.CopiesYield() {
		return
	}
	copies, kernels := deviceStages(r)
	if len(copies) == 0 {
		return
	}
	if renewed := withoutOverlap(r, copies, kernels); renewed != nil {
		for i, s := range renewed {
			r.Stages[i].Exposed = s
		}
		r.Renewed = true
		r.Warnings = slices.DeleteFunc(r.Warnings, func(w gpuprof.Warning) bool { return w.Code == oldExposure })
		return
	}
	first := r.Stages[copies[0]].Name
	if !slices.ContainsFunc(r.Warnings, func(w gpuprof.Warning) bool { return w.Code == oldExposure }) {
		r.Warnings = append(r.Warnings, gpuprof.Warning{Code: oldExposure,
			Text: "the run was recorded before a copy beside a kernel was counted as hidden: the exposed time of " + first + " may be too long, and that of kernels beside it too short",
			Fix:  "run it again"})
	}
}

// deviceStages returns the stages with device time: copying stages with exposed time, and launching stages.
func deviceStages(r *gpuprof.Run) (copies, kernels []int) {
	for i := range r.Stages {
		s := &r.Stages[i]
		switch {
		case s.Parent != gpuprof.StageStep || s.Device == nil || s.Exposed == nil:
		case s.Counters["launches"] > 0:
			kernels = append(kernels, i)
		case s.Counters["copies_h2d"]+s.Counters["copies_d2h"] > 0 && s.Exposed.Median > 0:
			copies = append(copies, i)
		}
	}
	return copies, kernels
}

// withoutOverlap returns the exposed times that change, by stage; nil if the samples do not determine them: kernels in
// several lanes, several copies before a kernel, or samples that do not add up.
func withoutOverlap(r *gpuprof.Run, copies, kernels []int) map[int]*gpuprof.Series {
	if !oneLane(r, kernels) {
		return nil
	}
	out := map[int]*gpuprof.Series{}
	var hidden [][]float64 // hidden time of the copy, by process and sample
	giver := -1
	for _, k := range kernels {
		s := &r.Stages[k]
		lost, ok := subtractSeries(s.Device, s.Exposed)
		if !ok {
			return nil
		}
		if !hasPositive(lost) {
			continue
		}
		before := slices.DeleteFunc(slices.Clone(copies), func(c int) bool { return c > k })
		if len(before) != 1 || giver >= 0 && giver != before[0] {
			return nil
		}
		giver = before[0]
		out[k] = stats.Summarise(s.Exposed.Unit, s.Device.Runs...)
		if hidden = addSeries(hidden, lost); hidden == nil {
			return nil
		}
	}
	if giver < 0 {
		return out
	}
	left, ok := subtractSeries(r.Stages[giver].Exposed, &gpuprof.Series{Runs: hidden})
	if !ok {
		return nil
	}
	out[giver] = stats.Summarise(r.Stages[giver].Exposed.Unit, left...)
	return out
}

func oneLane(r *gpuprof.Run, kernels []int) bool {
	lanes := map[string]bool{}
	for _, s := range r.ExampleStep {
		if s.Lane != "host" && slices.ContainsFunc(kernels, func(k int) bool { return r.Stages[k].Name == s.Stage }) {
			lanes[s.Lane] = true
		}
	}
	return len(lanes) == 1
}

// subtractSeries returns a - b in whole ns, the precision of both; ok is false if a sample is negative or missing.
func subtractSeries(a, b *gpuprof.Series) (out [][]float64, ok bool) {
	if len(a.Runs) != len(b.Runs) {
		return nil, false
	}
	for p := range a.Runs {
		if len(a.Runs[p]) != len(b.Runs[p]) {
			return nil, false
		}
		row := make([]float64, len(a.Runs[p]))
		for i, v := range a.Runs[p] {
			row[i] = max(0, math.Round((v-b.Runs[p][i])*1e9)) / 1e9
			if v-b.Runs[p][i] < -1.5e-9 {
				return nil, false
			}
		}
		out = append(out, row)
	}
	return out, true
}

func addSeries(a, b [][]float64) [][]float64 {
	if a == nil {
		return b
	}
	if len(a) != len(b) {
		return nil
	}
	for p := range a {
		if len(a[p]) != len(b[p]) {
			return nil
		}
		for i := range a[p] {
			a[p][i] += b[p][i]
		}
	}
	return a
}

func hasPositive(of [][]float64) bool {
	return slices.ContainsFunc(of, func(row []float64) bool { return slices.ContainsFunc(row, func(v float64) bool { return v > 0 }) })
}
