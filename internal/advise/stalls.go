package advise

import (
	"maps"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof"
)

// stall is a knob that makes the caller wait for the device.
type stall struct {
	knob, off string  // what turns it off
	points    float64 // waits a step
}

// stalls lists the knobs that make the caller wait, by the settings.
func (s *scene) stalls() []stall {
	k := s.run.Knobs
	var out []stall
	if n := k.Int("item_reads"); n > 0 {
		off := "packed"
		if s.run.Workload == "collate" { // its result is not read at all
			off = "0"
		}
		out = append(out, stall{"item_reads", off, float64(n)})
	}
	if k["reset_stats"] == "sync" {
		out = append(out, stall{"reset_stats", "off", 1})
	}
	if n := k.Every("pool_trim"); n > 0 {
		out = append(out, stall{"pool_trim", "never", 1 / float64(n)})
	}
	if k["async_copy"] == "off" {
		copies := float64(1)
		if s.run.Counters["copies_d2h"] > 0 {
			copies = 2 // the result is waited for as well
		}
		out = append(out, stall{"async_copy", "on", copies})
	}
	if n := k.Every("sync"); n > 0 {
		out = append(out, stall{"sync", "never", 1 / float64(n)})
	}
	return out
}

// stalled is the finding of a knob that makes the caller wait. Without the wait
// the caller runs ahead, so that its own work and its launches are hidden
// behind the device. That is only so when nothing else makes it wait: of
// several such knobs the one that waits most claims it, and its command turns
// all of them.
func (s *scene) stalled(knob string) []gpuprof.Finding {
	all := s.stalls()
	at := slices.IndexFunc(all, func(x stall) bool { return x.knob == knob })
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
	trims := knob == "pool_trim"
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
				also = append(also, x.knob+"="+x.off)
			}
		}
	}
	// The caller's own work takes its time however far ahead it runs, and so do
	// the workers.
	want := min(s.typical(of), s.step-s.callerBusy(), s.step-s.loading())
	read, of4 := s.run.Calibration["item_read"], knob == "item_reads"
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
	return s.offer(advice{stage: stSync, knob: knob, to: me.off, also: also, of: of, want: want, evidence: evidence, unknown: unknown})
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
	return "on the host device a wait is a hand-over between threads; run the command to see what the knob gains"
}

// drained is the time in which the device waits for the caller because it has
// nothing queued: launching, the gaps, and the caller's own work as far as the
// machine can do it beside the device's.
func (s *scene) drained() weights {
	w := weights{stLaunch: 1, stGap: 1}
	for i := range s.run.Stages {
		st := &s.run.Stages[i]
		if st.Parent != stStep || st.Device != nil {
			continue
		}
		switch st.Name {
		case stSync, stBackpressure, stLaunch, stGap, stStarved: // starved is a matter of the workers
		default:
			w[st.Name] = s.overlap()
		}
	}
	return w
}

// callerBusy is what the caller does of its own in a step, waits left out.
func (s *scene) callerBusy() float64 {
	sum := s.hostTime(stLaunch)
	for i := range s.run.Stages {
		st := &s.run.Stages[i]
		if st.Parent == stStep && st.Device == nil && !slices.Contains([]string{stSync, stBackpressure, stLaunch, stStarved, stSample}, st.Name) {
			sum += s.hostTime(st.Name)
		}
	}
	return sum
}

// loading is how often the workers finish a batch, in seconds: no step is
// shorter. It is 0 where there are none, and nothing to wait for.
func (s *scene) loading() float64 {
	workers := s.figure("workers")
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
	if s.cuda() || n <= 1 || s.figure("workers") <= 0 {
		return 0
	}
	sample, collate := s.making()
	return max(0, min(sample+collate, gain*(n-1))/n)
}

func text(n int) string { return strconv.Itoa(n) }
