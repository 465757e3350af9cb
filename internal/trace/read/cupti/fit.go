package cupti

import (
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// looseTimes is the number of copies of an NVTX range in memory while ranges are placed on lanes. eventBytes is the
// memory of an NVTX call, corrBytes the memory of a correlation id. The budget is checked every fitEvery records.
const (
	looseTimes = 3
	eventBytes = 40
	corrBytes  = 4
	fitEvery   = 4096
)

func (r *reader) usedBytes() int64 {
	return int64(len(r.t.Host))*model.HostBytes + int64(len(r.loose))*looseTimes*model.HostBytes + int64(len(r.t.GPU))*model.GPUBytes +
		int64(len(r.events))*(eventBytes+looseTimes*model.HostBytes) + int64(len(r.runtimeCorrs))*corrBytes + r.bytes
}

// isKept reports whether an event that begins at start, ns, fits into the memory budget. Otherwise it counts the event
// as left out.
func (r *reader) isKept(start int64) bool {
	if r.rows++; r.rows%fitEvery == 0 {
		r.fitBudget()
	}
	if r.full || max(len(r.t.Host)+len(r.loose)+len(r.events), len(r.t.GPU)) >= model.MaxEvents {
		r.dropped++
		return false
	}
	return r.room.Keeps(start)
}

// fitBudget makes room to read on if the memory budget is exceeded: it drops the latest events. If data other than
// events exhausts the budget, no more events are kept.
func (r *reader) fitBudget() {
	if r.full || !r.room.Over(r.usedBytes()) {
		return
	}
	for !r.full && !r.room.Settled(r.usedBytes()) {
		if r.full = r.room.Over(2*r.bytes) || !r.room.Cut(r.startTimes()); !r.full {
			late := func(h model.Host) bool { return !r.room.Keeps(h.Start) }
			r.t.Host, r.loose = slices.DeleteFunc(r.t.Host, late), slices.DeleteFunc(r.loose, late)
			r.t.GPU = slices.DeleteFunc(r.t.GPU, func(g model.GPU) bool { return !r.room.Keeps(g.Start) })
			r.events = slices.DeleteFunc(r.events, func(e nvtxEvent) bool { return !r.room.Keeps(e.time) })
		}
	}
}

// startTimes returns the start times of all events, or of a sample.
func (r *reader) startTimes() (out []int64) {
	step := model.Sample(len(r.t.Host) + len(r.loose) + len(r.t.GPU) + len(r.events))
	for _, hs := range [][]model.Host{r.t.Host, r.loose} {
		for i := 0; i < len(hs); i += step {
			out = append(out, hs[i].Start)
		}
	}
	for i := 0; i < len(r.t.GPU); i += step {
		out = append(out, r.t.GPU[i].Start)
	}
	for i := 0; i < len(r.events); i += step {
		out = append(out, r.events[i].time)
	}
	return out
}
