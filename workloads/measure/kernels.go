package measure

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// kernelPass runs a few steps with an event before and after every launch. Its times only show how a stage divides
// into kernels; they are no samples of the step. Its counters are exact: it starts at step 0 and runs whole cycles
// (workloads.Session.Cycle), so every run of a plan has the same counters.
func (r *runner) kernelPass() error {
	r.plan.report("kernels", 0, 1, "")
	cycle := r.sess.Cycle()
	head, tail := r.trimSteps()
	steps := cycle * ((2 + cycle) / cycle)
	if steps+head+tail > r.rec.Capacity() {
		steps = r.rec.Capacity() - head - tail
		r.warn("counters-incomplete", fmt.Sprintf("counters cover %d steps, less than the cycle of %d", steps, cycle), "synchronize more often for exact counters")
	}
	if err := r.dev.Enable(r.maxLaunches() * (steps + head + tail)); err != nil {
		return err
	}
	defer r.dev.Disable()
	r.blocked = r.dev.CanSpin()
	defer func() { r.blocked = false }()
	r.next = 0
	b, err := r.runBlock(events.Kernels, steps)
	if err != nil {
		return err
	}
	if lost := r.dev.Lost(); lost > 0 {
		r.warn("kernels-incomplete", fmt.Sprintf("%d launches of the kernel pass found no room and are missing", lost), "report this as a bug of the workload's stage list")
	}
	if b.rec != nil && !b.interrupted {
		r.kernels = b
	}
	return nil
}

// addKernels adds the kernel pass to the result: kernels as children of their stages, and counters.
func (r *runner) addKernels() {
	b := r.kernels
	if b == nil {
		return
	}
	stages := r.sess.Stages()
	steps := b.last - b.first
	for i := range r.run.Stages {
		res := &r.run.Stages[i]
		for c, st := range stages {
			if res.Name == st.Name {
				res.Counters = stageCounters(b, c, st, steps)
			}
		}
	}
	r.run.Counters = stepCounters(b, stages, steps)
	for c, st := range stages {
		r.run.Stages = append(r.run.Stages, r.kernelsOf(b, c, st)...)
	}
}

// stageCounters returns a stage's counts per step: its counted cost, and its device calls averaged over the pass.
func stageCounters(b *block, stage int, st gpuprof.Stage, steps int) map[string]float64 {
	out := costCounters(st.Cost())
	maps.Copy(out, meterCounters(b.sumMeters(func(sp events.Span) bool { return sp.Stage == stage }), steps))
	return out
}

// sumMeters sums the device calls of the chosen spans over the whole steps of the kernel pass. Steps at the ends of the
// block, from b.last on or before b.first, do not count.
func (b *block) sumMeters(choose func(events.Span) bool) device.Meter {
	var m device.Meter
	for _, sp := range b.rec.Spans {
		if sp.Step >= b.first && sp.Step < b.last && choose(sp) {
			m = m.Add(sp.Meter)
		}
	}
	return m
}

func stepCounters(b *block, stages []gpuprof.Stage, steps int) map[string]float64 {
	var c gpuprof.Cost
	for _, st := range stages {
		c = c.Add(st.Cost())
	}
	out := costCounters(c)
	maps.Copy(out, meterCounters(b.sumMeters(func(events.Span) bool { return true }), steps))
	return out
}

func costCounters(c gpuprof.Cost) map[string]float64 {
	return map[string]float64{"flops": float64(c.Flops), "bytes_read": float64(c.BytesRead), "bytes_written": float64(c.BytesWritten)}
}

func meterCounters(m device.Meter, steps int) map[string]float64 {
	n := float64(max(steps, 1))
	return map[string]float64{
		"launches":   float64(m.Launches) / n,
		"copies_h2d": float64(m.CopiesH2D) / n, "bytes_h2d": float64(m.BytesH2D) / n, "bytes_h2d_pageable": float64(m.BytesH2DPageable) / n,
		"copies_d2h": float64(m.CopiesD2H) / n, "bytes_d2h": float64(m.BytesD2H) / n, "bytes_d2h_pageable": float64(m.BytesD2HPageable) / n,
		"copies_d2d": float64(m.CopiesD2D) / n, "bytes_d2d": float64(m.BytesD2D) / n,
		"sync_points": float64(m.SyncPoints) / n, "event_waits": float64(m.EventWaits) / n, "allocations": float64(m.Allocations) / n,
	}
}

// kernelsOf returns a stage's kernel times per step of the pass. For a kernel that is too short to time it returns
// the slope over its replays.
func (r *runner) kernelsOf(b *block, stage int, st gpuprof.Stage) []gpuprof.StageResult {
	times := map[string][]float64{}
	steps := b.last - b.first
	for _, l := range b.rec.Launches {
		i := stepAt(b.rec.Begin, l.Start) - b.first
		if l.Stage != stage || i < 0 || i >= steps {
			continue
		}
		if times[l.Kernel] == nil {
			times[l.Kernel] = make([]float64, steps)
		}
		times[l.Kernel][i] += gpuprof.Seconds(l.End - l.Start)
	}
	costs := map[string]gpuprof.Cost{}
	for _, p := range st.Parts {
		costs[p.Kernel] = costs[p.Kernel].Add(p.Cost)
	}
	var out []gpuprof.StageResult
	for _, name := range slices.Sorted(maps.Keys(times)) {
		counters := costCounters(costs[name])
		counters["launches"] = float64(costs[name].Launches)
		res := gpuprof.StageResult{Name: name, Parent: st.Name, Device: stats.Summarise("s", times[name]), Counters: counters}
		if s, ok := r.slopes[kernelKey{stage, name}]; ok {
			res.Device, res.Method = stats.Summarise("s", s.perStep), gpuprof.MethodSlope
		}
		out = append(out, res)
	}
	return out
}

// stepAt returns the index of the step that is in progress at a time.
func stepAt(begin []int64, at int64) int {
	i, exact := slices.BinarySearch(begin, at)
	if exact {
		return i
	}
	return i - 1
}
