package advise

import (
	"maps"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// stall is a knob that makes the caller wait for the device.
type stall struct {
	fix            // what turns it off
	points float64 // waits per step
}

// stalls lists the knobs that make the caller wait, by the settings.
func (s *scene) stalls() []stall {
	var out []stall
	for _, r := range []workloads.Remedy{workloads.ReadTogether, workloads.LeavePeak, workloads.KeepPool, workloads.CopyUnwaited, workloads.SkipSync} {
		for _, f := range s.fixes(r) {
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

// stalled is the finding of a knob that makes the caller wait. Without the wait
// the caller runs ahead, so that its own work and its launches are hidden
// behind the device. That is only so when nothing else makes it wait: of
// several such knobs the one that waits most claims it, and its command turns
// all of them.
func (s *scene) stalled(remedy workloads.Remedy) []gpuprof.Finding {
	all := s.stalls()
	at := slices.IndexFunc(all, func(x stall) bool { return x.Remedy == remedy })
	stSync := s.stage(gpuprof.RoleSync)
	// Running ahead takes a CPU beside those of the kernels.
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
		// On the host device a wait is a hand-over between threads, and one a
		// step stays: with nothing else to wait for the caller waits for a slot.
		// (Of a trim the wait is the least part.)
		of[stSync] = max(0, me.points-1) / points
	}
	var also []string
	if at == most {
		maps.Copy(of, s.drained())
		if trims { // the device also waits, between kernels, for memory to be asked for anew
			maps.Copy(of, s.bubbled())
		}
		for i, x := range all {
			if i != at {
				also = append(also, x.knob+"="+x.To)
			}
		}
	}
	// The caller's own work takes its time however far ahead it runs, and so do
	// the workers.
	want := min(s.typical(of), s.step-s.callerBusy(), s.step-s.loading())
	read, of4 := s.run.Calibration["item_read"], remedy == workloads.ReadTogether
	if of4 && positive(read) { // what the reads take by themselves, and what the device idles through beside them
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
	if of4 { // the cost of a read by itself is measured
		unknown = ""
	}
	return s.offer(advice{stage: stSync, knob: me.knob, to: me.To, also: also, of: of, want: want, evidence: evidence, unknown: unknown})
}

// handOver says why nothing is claimed of waits and launches on the host device,
// "" on a GPU: the caller and the kernels are threads there that wake each other. What
// they wait for each other without the knob, and what kernels pay for memory that is
// new to them, a run with it does not show: bounds by exposed time were 0.7 to 0.8
// times the gain.
func (s *scene) handOver() string {
	if s.cuda() {
		return ""
	}
	return "on the host device a wait is a hand-over between threads; run the command to measure the gain of the knob"
}

// drained is the time in which the device waits for the caller because it has
// nothing queued: launching, the gaps, and the caller's own work as far as the
// machine can do it beside the device's.
func (s *scene) drained() weights {
	w := weights{stLaunch: 1, stGap: 1}
	for st := range s.steps() {
		// A wait for input is a matter of the workers.
		if st.Device == nil && st.Name != stLaunch && st.Name != stGap && !s.isOneOf(st.Name, gpuprof.RoleSync, gpuprof.RoleSlot, gpuprof.RoleInput) {
			w[st.Name] = s.overlap()
		}
	}
	return w
}

// callerBusy is what the caller does of its own in a step, waits left out.
func (s *scene) callerBusy() float64 {
	sum := s.hostTime(stLaunch)
	for st := range s.steps() {
		if st.Device == nil && st.Name != stLaunch && !s.isOneOf(st.Name, gpuprof.RoleSync, gpuprof.RoleSlot, gpuprof.RoleInput, gpuprof.RoleSample) {
			sum += s.hostTime(st.Name)
		}
	}
	return sum
}

// loading is how often the workers finish a batch, in seconds: no step is
// shorter. It is 0 where there are none, and nothing to wait for.
func (s *scene) loading() float64 {
	workers := s.figure(gpuprof.InputWorkers)
	if workers <= 0 {
		return 0
	}
	sample, collate := s.making()
	return (sample + collate) / workers
}

// displaced is what of a gain goes to the workers, in seconds: while one thread
// does what is to go, they have the host device's other CPUs. Their work then
// meets the kernels, and n CPUs share it.
func (s *scene) displaced(gain float64) float64 {
	n := s.cpus()
	if s.cuda() || n <= 1 || s.figure(gpuprof.InputWorkers) <= 0 {
		return 0
	}
	sample, collate := s.making()
	return max(0, min(sample+collate, gain*(n-1))/n)
}

func text(n int) string { return strconv.Itoa(n) }
