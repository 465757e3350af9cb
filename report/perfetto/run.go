package perfetto

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Each run has two processes, host and device, with these rows.
const (
	tidHost    = 1
	tidSteps   = 900
	tidSamples = 910
	tidMarked  = 1000 // and above: kernels of the marked pass
)

func hostPid(run int) int   { return 2*run + 1 }
func devicePid(run int) int { return 2*run + 2 }

// writeRun writes a run that starts at base, and returns the earliest start of the next run, ns.
func writeRun(e *encoder, f *flows, i int, r *gpuprof.Run, name string, base int64) int64 {
	cuda := r.Device.Kind == "cuda"
	e.nameProcess(hostPid(i), 2*i, name+": host", "")
	if !view.HasTimes(r) {
		return base
	}
	l := newLayout(r, base)
	l.linkLaunches(f)
	title, label := name+": CPU streams (goroutines)", "host device"
	if cuda {
		title, label = name+": GPU streams", fmt.Sprintf("GPU %d", i)
	}
	left := l.writeHost(e, i, cuda)
	if len(l.streams)+len(l.marked) > 0 {
		e.nameProcess(devicePid(i), 2*i+1, title, label)
		left += l.writeStreams(e, r, i, cuda)
		left += l.writeMarked(e, i, cuda)
		l.writeArrows(e, f, i)
	}
	end, n := writeSamples(e, r, i, base)
	left += n
	end = max(end, l.end, writeTelemetry(e, r, i, base))
	if left > 0 {
		e.writeEvent(&event{ph: 'M', name: "process_labels", pid: hostPid(i), args: []arg{{"labels", fmt.Sprintf("%d spans that cross others left out", left)}}})
	}
	return end + max((end-base)/10, 1000)
}

func (l *layout) writeHost(e *encoder, run int, cuda bool) (left int) {
	pid := hostPid(run)
	// The step has a row of its own, because its launches precede it. Neighbouring steps are incomplete and have no
	// range.
	if l.step.end > l.step.start {
		e.nameThread(pid, tidSteps, "steps")
		e.writeEvent(&event{ph: 'X', name: fmt.Sprintf("ProfilerStep#%d", run), cat: catAnnotation, pid: pid, tid: tidSteps, start: l.step.start, dur: l.step.end - l.step.start})
	}
	split, left := nestRows(l.host)
	for i, row := range split {
		name := "host thread"
		if i > 0 {
			name = fmt.Sprintf("host thread, overlapping %d", i+1)
		}
		e.nameThread(pid, tidHost+i, name)
		for _, p := range row {
			p.tid = tidHost + i
			l.writeStage(e, p, pid, cuda)
		}
	}
	return left
}

// writeStage writes a host span: an operator, with its launch inside.
func (l *layout) writeStage(e *encoder, p *piece, pid int, cuda bool) {
	ev := event{ph: 'X', name: stageName(p), cat: catOp, pid: pid, tid: p.tid, start: p.start, dur: p.end - p.start, args: []arg{{"step", p.Step}}}
	if p.corr != 0 {
		ev.args = append(ev.args, arg{"External id", p.corr})
	}
	e.writeEvent(&ev)
	if p.corr == 0 {
		return
	}
	ev.cat, ev.args = catRuntime, []arg{{"correlation", p.corr}, {"External id", p.corr}}
	if ev.name = "launch"; cuda {
		ev.name = "cudaLaunchKernel"
	}
	e.writeEvent(&ev)
}

func stageName(p *piece) string { return cmp.Or(view.Cut(p.Stage, textLimit), "unnamed stage") }

func (l *layout) writeStreams(e *encoder, r *gpuprof.Run, run int, cuda bool) (left int) {
	tid := 1
	for _, lane := range slices.Sorted(maps.Keys(l.streams)) {
		split, n := nestRows(l.streams[lane])
		left += n
		for i, row := range split {
			e.nameThread(devicePid(run), tid, streamName(lane, i, cuda))
			for _, p := range row {
				p.tid = tid
				e.writeEvent(stageEvent(r, p, run))
			}
			tid++
		}
	}
	return left
}

func streamName(lane string, row int, cuda bool) string {
	if !strings.HasPrefix(lane, "stream") {
		lane = "stream " + lane
	}
	if !cuda {
		lane += " (goroutine)"
	}
	if row > 0 {
		lane += fmt.Sprintf(", overlapping %d", row+1)
	}
	return lane
}

// stageEvent returns one event for all kernels of a stage, or for all its copies, on the stage's stream.
func stageEvent(r *gpuprof.Run, p *piece, run int) *event {
	ev := &event{ph: 'X', name: stageName(p), cat: catKernel, pid: devicePid(run), tid: p.tid, start: p.start, dur: p.end - p.start,
		args: []arg{{"device", run}, {"stream", p.tid}, {"stage", view.Cut(p.Stage, textLimit)}, {"step", p.Step}}}
	if p.corr != 0 {
		ev.args = append(ev.args, arg{"correlation", p.corr}, arg{"External id", p.corr})
	}
	if name, bytes := copyName(r, p.Stage); name != "" {
		ev.name, ev.cat = name, catMemcpy
		if bytes > 0 {
			ev.args = append(ev.args, arg{"bytes", bytes})
		}
	}
	return ev
}

// copyName returns PyTorch's name of a stage that only copies, and its bytes per step; "" for other stages.
func copyName(r *gpuprof.Run, stage string) (string, int64) {
	c, role := map[string]float64{}, ""
	if s := r.Stage(stage); s != nil {
		c, role = s.Counters, s.Role
	}
	h2d, d2h := c["bytes_h2d"], c["bytes_d2h"]
	if c["launches"] > 0 || c["flops"] > 0 {
		return "", 0
	}
	memory := func(n, pageable float64) string {
		switch {
		case !(n > 0): // bytes were not counted
			return ""
		case pageable >= n:
			return "Pageable"
		case pageable > 0:
			return "Pageable and Pinned"
		}
		return "Pinned"
	}
	switch {
	case h2d > 0 && h2d >= d2h, role == gpuprof.RoleTransfer.String():
		if m := memory(h2d, c["bytes_h2d_pageable"]); m != "" {
			return "Memcpy HtoD (" + m + " -> Device)", roundBytes(h2d)
		}
		return "Memcpy HtoD", 0
	case d2h > 0, role == gpuprof.RoleResult.String():
		if m := memory(d2h, c["bytes_d2h_pageable"]); m != "" {
			return "Memcpy DtoH (Device -> " + m + ")", roundBytes(d2h)
		}
		return "Memcpy DtoH", 0
	}
	return "", 0
}

func roundBytes(v float64) int64 { return int64(min(max(v, 0), 1e17)) }

func (l *layout) writeMarked(e *encoder, run int, cuda bool) (left int) {
	tid := tidMarked
	for _, lane := range slices.Sorted(maps.Keys(l.marked)) {
		split, n := nestRows(l.marked[lane])
		left += n
		for i, row := range split {
			e.nameThread(devicePid(run), tid, streamName(lane, i, cuda)+": kernels, marked pass")
			for _, p := range row {
				p.tid = tid
				e.writeEvent(&event{ph: 'X', name: view.Cut(p.Kernel, textLimit), cat: catMarked, pid: devicePid(run), tid: tid, start: p.start, dur: p.end - p.start,
					args: []arg{{"device", run}, {"stage", view.Cut(p.Stage, textLimit)}, {"pass", "marked"}}})
			}
			tid++
		}
	}
	return left
}

// writeArrows draws an arrow from a launch to the stage on its stream, and to the stage's kernels of the marked pass.
// It omits arrows that point back in time, since the marked pass has its own clock.
func (l *layout) writeArrows(e *encoder, f *flows, run int) {
	arrow := func(from, to *piece, cat string) {
		if from == nil || from.tid == 0 || to.tid == 0 || to.start < from.start {
			return
		}
		f.arrow++
		e.writeEvent(&event{ph: 's', id: f.arrow, name: cat, cat: cat, pid: hostPid(run), tid: from.tid, start: from.start})
		e.writeEvent(&event{ph: 'f', id: f.arrow, name: cat, cat: cat, pid: devicePid(run), tid: to.tid, start: to.start})
	}
	launcher := map[string][]*piece{} // launch in the example step, by stage
	for _, lane := range slices.Sorted(maps.Keys(l.streams)) {
		for _, p := range l.streams[lane] {
			arrow(p.launches, p, catLaunch)
			if p.Step == 0 && p.launches != nil {
				launcher[p.Stage] = append(launcher[p.Stage], p.launches)
			}
		}
	}
	for _, lane := range slices.Sorted(maps.Keys(l.marked)) {
		for _, p := range l.marked[lane] {
			var from *piece
			for _, h := range launcher[p.Stage] {
				if h.start <= p.start && (from == nil || h.start > from.start) {
					from = h
				}
			}
			arrow(from, p, "marked pass")
		}
	}
}

// writeTelemetry writes a counter for each quantity. It returns the time of the last reading, ns, or base without one.
func writeTelemetry(e *encoder, r *gpuprof.Run, run int, base int64) int64 {
	end := base
	for _, name := range slices.Sorted(maps.Keys(r.Telemetry)) {
		t := r.Telemetry[name]
		title := view.Cut(name, 60)
		if t.Unit != "" && t.Unit != "1" {
			title += " (" + view.Cut(t.Unit, 24) + ")"
		}
		type point struct {
			at    int64
			value float64
		}
		var points []point
		for i := range min(len(t.TimeS), len(t.Value)) {
			at, ok := secondsToNS(t.TimeS[i])
			if v := float64(t.Value[i]); ok && at >= 0 && gpuprof.IsFinite(v) {
				points = append(points, point{base + at, v})
			}
		}
		slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.at, b.at) })
		for _, p := range points {
			e.writeEvent(&event{ph: 'C', name: title, pid: hostPid(run), start: p.at, args: []arg{{"value", p.value}}})
			end = max(end, p.at)
		}
	}
	return end
}
