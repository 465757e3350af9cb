package nsys

import (
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Memory of data outside the tables, bytes: a name without its text, a requested string, a call chain, a frame with
// its text.
const (
	pendingBytes = 192
	foundBytes   = 96
	stackBytes   = 256
	frameBytes   = 96
)

// looseTimes is the number of copies in memory of a range that may cross others, while ranges are placed on lanes.
const looseTimes = 3

// usedBytes returns the memory of the data read so far, bytes.
func (r *reader) usedBytes() int64 {
	return int64(len(r.t.Host))*model.HostBytes + int64(len(r.loose))*looseTimes*model.HostBytes + int64(len(r.t.GPU))*model.GPUBytes +
		int64(len(r.t.Memory))*model.MemoryBytes + r.namesBytes()
}

func (r *reader) namesBytes() int64 {
	return int64(len(r.t.Lanes))*model.NameBytes + r.names.bytes + r.stacks.bytes
}

// fitEvery is the number of rows between checks of the memory budget.
const fitEvery = 4096

// isKept reports whether an event that begins at start, ns, fits into the memory budget. Otherwise it counts the event
// as left out.
func (r *reader) isKept(start int64) bool {
	if r.rows++; r.rows%fitEvery == 0 {
		r.fitBudget()
	}
	if r.full || max(len(r.t.Host)+len(r.loose), len(r.t.GPU)) >= model.MaxEvents {
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
		if r.full = r.room.Over(2*r.namesBytes()) || !r.room.Cut(r.startTimes()); !r.full {
			r.dropLate()
		}
	}
}

// startTimes returns the start times of all events, or of a sample.
func (r *reader) startTimes() []int64 {
	var out []int64
	step := model.Sample(len(r.t.Host) + len(r.loose) + len(r.t.GPU) + len(r.t.Memory))
	for _, hs := range [][]model.Host{r.t.Host, r.loose} {
		for i := 0; i < len(hs); i += step {
			out = append(out, hs[i].Start)
		}
	}
	for i := 0; i < len(r.t.GPU); i += step {
		out = append(out, r.t.GPU[i].Start)
	}
	for i := 0; i < len(r.t.Memory); i += step {
		out = append(out, r.t.Memory[i].At)
	}
	return out
}

func (r *reader) dropLate() {
	late := func(h model.Host) bool { return !r.room.Keeps(h.Start) }
	r.t.Host, r.loose = slices.DeleteFunc(r.t.Host, late), slices.DeleteFunc(r.loose, late)
	r.t.GPU = slices.DeleteFunc(r.t.GPU, func(g model.GPU) bool { return !r.room.Keeps(g.Start) })
	r.t.Memory = slices.DeleteFunc(r.t.Memory, func(e model.MemoryEvent) bool { return !r.room.Keeps(e.At) })
}
