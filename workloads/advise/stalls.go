package advise

import (
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// stall is a knob that makes the caller wait for the device.
type stall struct {
	fix            // the knob, and the answer that turns it off
	points float64 // waits per step
}

// findStalls lists the knobs that make the caller wait at the run's settings.
func (s *runContext) findStalls() []stall {
	var out []stall
	for _, r := range []workloads.Remedy{workloads.ReadTogether, workloads.LeavePeak, workloads.KeepPool, workloads.CopyUnwaited, workloads.SkipSync} {
		for _, f := range s.findFixes(r) {
			if f.Waits == nil {
				continue
			}
			if n := f.Waits(s.run.Knobs, s.run.Counters); n > 0 {
				out = append(out, stall{f, n})
			}
		}
	}
	return out
}

// findStall reports a knob that makes the caller wait. Without the wait the caller runs ahead, and the device's work
// hides the caller's work and launches. This needs the absence of all waits: among several such knobs the one with
// the most waits claims the time, and its command changes all of them.
func (s *runContext) findStall(remedy workloads.Remedy) []gpuprof.Finding {
	all := s.findStalls()
	at := slices.IndexFunc(all, func(x stall) bool { return x.Remedy == remedy })
	stSync := s.stage(gpuprof.RoleSync)
	// Running ahead takes a CPU in addition to the kernels' CPUs.
	if at < 0 || s.step == 0 || s.exposed(stSync) <= 0 || s.hostShort() {
		return nil
	}
	points, most := 0.0, 0
	for i, x := range all {
		points += x.points
		if x.points > all[most].points {
			most = i
		}
	}
	me := all[at]
	of := weights{stSync: me.points / points}
	trims := remedy == workloads.KeepPool
	if !s.cuda() && at == most && !trims {
		// On the host device a wait is a hand-over between threads. One per step remains: without other waits the
		// caller waits for a slot. This does not matter for a trimmed pool, where the wait is the smallest cost.
		of[stSync] = max(0, me.points-1) / points
	}
	var also []string
	if at == most {
		maps.Copy(of, s.drainedStages())
		if trims { // between kernels the device also waits for new requests of memory
			maps.Copy(of, s.bubbleWeights())
		}
		for i, x := range all {
			if i != at {
				also = append(also, x.knob+"="+x.To)
			}
		}
	}
	// The work of the caller and of the workers takes its time however far ahead the caller runs.
	want := min(s.typical(of), s.step-s.callerBusy(), s.step-s.loadingPeriod())
	read, of4 := s.run.Calibration["item_read"], remedy == workloads.ReadTogether
	if of4 && positive(read) { // time of the reads, and the device's idle time during them
		want = min(want, me.points*read+s.typical(of)-of[stSync]*s.exposed(stSync))
	}
	evidence := map[string]any{
		"sync_points": s.run.Counters["sync_points"], "waits_of_this_knob": me.points,
		"sync_exposed_s": s.exposed(stSync), "idle_after_s": s.typical(of) - of[stSync]*s.exposed(stSync),
	}
	if of4 && positive(read) {
		evidence["item_read_s"] = read
	}
	if len(also) > 0 {
		evidence["only_together_with"] = also
	}
	unknown := s.handOver()
	if of4 { // the cost of a single read is measured
		unknown = ""
	}
	return s.offer(advice{stage: stSync, knob: me.knob, to: me.To, also: also, of: of, want: want, evidence: evidence, unknown: unknown})
}

// handOver returns the reason why waits and launches on the host device claim nothing; "" on a GPU. On the host
// device the caller and the kernels are threads that wake each other. A run does not show how these wake-ups change
// with the knob, or what memory costs that kernels touch first. Bounds by exposed time were too low: 0.7 to 0.8 times
// the measured gain.
func (s *runContext) handOver() string {
	if s.cuda() {
		return ""
	}
	return "on the host device a wait is a hand-over between threads; run the command to measure the gain of the knob"
}

// drainedStages returns the stages in which the device has an empty queue and waits for the caller. These are launches,
// gaps, and the part of the caller's own work that the machine can overlap with the device's work.
func (s *runContext) drainedStages() weights {
	w := weights{stLaunch: 1, stGap: 1}
	for st := range s.stepStages() {
		// Waits for input depend on the workers instead.
		if st.Device == nil && st.Name != stLaunch && st.Name != stGap && !s.isOneOf(st.Name, gpuprof.RoleSync, gpuprof.RoleSlot, gpuprof.RoleInput) {
			w[st.Name] = s.overlapShare()
		}
	}
	return w
}

// callerBusy returns the seconds per step of the caller's own work, without waits.
func (s *runContext) callerBusy() float64 {
	sum := s.hostTime(stLaunch)
	for st := range s.stepStages() {
		if st.Device == nil && st.Name != stLaunch && !s.isOneOf(st.Name, gpuprof.RoleSync, gpuprof.RoleSlot, gpuprof.RoleInput, gpuprof.RoleSample) {
			sum += s.hostTime(st.Name)
		}
	}
	return sum
}

// loadingPeriod returns the seconds between two batches of the workers, a lower limit of the step; 0 without workers.
func (s *runContext) loadingPeriod() float64 {
	workers := s.figure(gpuprof.InputWorkers)
	if workers <= 0 {
		return 0
	}
	sample, collate := s.batchTime()
	return (sample + collate) / workers
}

// displacedGain returns the part of a gain, in seconds, that loader workers consume. While one thread does avoidable
// work, the workers use the other CPUs of the host device. Without this work kernels and workers compete for all CPUs.
func (s *runContext) displacedGain(gain float64) float64 {
	n := s.cpus()
	if s.cuda() || n <= 1 || s.figure(gpuprof.InputWorkers) <= 0 {
		return 0
	}
	sample, collate := s.batchTime()
	return max(0, min(sample+collate, gain*(n-1))/n)
}
