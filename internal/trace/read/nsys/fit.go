package nsys

import (
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// What is kept beside the tables takes, bytes: a name whose text is not known yet,
// a wanted string, a call chain, a frame of one with its share of the text.
const (
	pendingBytes = 192
	foundBytes   = 96
	stackBytes   = 256
	frameBytes   = 96
)

// looseTimes is how often a range that may cross others is there while it is placed.
const looseTimes = 3

// used is the memory that what was read takes, bytes.
func (r *reader) used() int64 {
	return int64(len(r.t.Host))*model.HostBytes + int64(len(r.loose))*looseTimes*model.HostBytes + int64(len(r.t.GPU))*model.GPUBytes +
		int64(len(r.t.Memory))*model.MemoryBytes + r.beside()
}

// beside is the memory that others than events take.
func (r *reader) beside() int64 {
	return int64(len(r.t.Lanes))*model.NameBytes + r.names.bytes + r.stacks.bytes
}

// fitEvery is after how many rows the room is looked at.
const fitEvery = 4096

// keeps says whether an event that begins at an instant is kept.
func (r *reader) keeps(start int64) bool {
	if r.rows++; r.rows%fitEvery == 0 {
		r.fit()
	}
	if r.full || max(len(r.t.Host)+len(r.loose), len(r.t.GPU)) >= model.MaxEvents {
		r.dropped++
		return false
	}
	return r.room.Keeps(start)
}

// fit drops the latest events where there is no room for all, until there is room to
// read on. Where others than events take the room, no more are kept.
func (r *reader) fit() {
	if r.full || !r.room.Over(r.used()) {
		return
	}
	for !r.full && !r.room.Settled(r.used()) {
		if r.full = r.room.Over(2*r.beside()) || !r.room.Cut(r.starts()); !r.full {
			r.drop()
		}
	}
}

// starts are when events begin, or some of them.
func (r *reader) starts() []int64 {
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

// drop leaves out what begins after the instant of the room.
func (r *reader) drop() {
	late := func(h model.Host) bool { return !r.room.Keeps(h.Start) }
	r.t.Host, r.loose = slices.DeleteFunc(r.t.Host, late), slices.DeleteFunc(r.loose, late)
	r.t.GPU = slices.DeleteFunc(r.t.GPU, func(g model.GPU) bool { return !r.room.Keeps(g.Start) })
	r.t.Memory = slices.DeleteFunc(r.t.Memory, func(e model.MemoryEvent) bool { return !r.room.Keeps(e.At) })
}
