package memsnap

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
)

func (a *Analysis) addWarnings(all []*Snapshot) {
	add := func(w gpuprof.Warning) {
		if !slices.Contains(a.Warnings, w) {
			a.Warnings = append(a.Warnings, w)
		}
	}
	for _, s := range all {
		if s.Truncated {
			add(gpuprof.Warning{Code: "truncated", Text: "the file ends early: only the state at its end is known, and no event", Fix: "record or copy it again"})
		}
	}
	for i := range a.Devices {
		d := &a.Devices[i]
		r := d.Replay
		switch {
		case d.Events == 0 && !all[d.Input].Truncated:
			add(gpuprof.Warning{Code: "no-events", Text: "the file has no events: it shows the end of the recording, and no peak", Fix: "call torch.cuda.memory._record_memory_history() before the model is built"})
		case d.Events > 0 && !d.Complete:
			add(gpuprof.Warning{Code: "recorded-late", Text: fmt.Sprintf("the recording began with %s live, %s of it without a line, and an earlier peak is not known", bytesText(r.Start.Requested), bytesText(r.bareBefore())), Fix: "call torch.cuda.memory._record_memory_history() before the model is built, with max_entries for the whole recording"})
		}
		if d.Events > 0 && !r.Stacks {
			add(gpuprof.Warning{Code: "no-stacks", Text: "no allocation has a stack, so memory has no lines", Fix: "record with torch.cuda.memory._record_memory_history(context=\"all\")"})
		}
		if d.Moved > 0 {
			add(gpuprof.Warning{Code: "snapshot-moved", Text: fmt.Sprintf("%d blocks at the end contradict the events: another thread allocated while the snapshot was taken", d.Moved), Fix: "take it while nothing else allocates, or read sums as good to those blocks"})
		}
		if d.Check.Reason == reasonWork {
			add(gpuprof.Warning{Code: "replay-stopped", Text: "the recording has too many free blocks at once, so other settings of the allocator were not replayed", Fix: "record fewer steps: the rest of the analysis has all events"})
		}
		if d.Events > 0 && r.Stacks && d.Inferred {
			add(gpuprof.Warning{Code: "kinds-unknown", Text: "the file marks no steps of an optimizer, so gradients and states are not told apart, and activations only where the backward pass frees them", Fix: "record with PyTorch 2.5 or newer, and whole training steps"})
		}
	}
}

// bareBefore returns the memory from before the recording whose stack is not known, bytes.
func (r *Replay) bareBefore() (bytes int64) {
	r.eachAlloc(func(a *allocation) {
		if a.born == never && len(r.S.Stack(r.S.originOf(a).stack)) == 0 {
			bytes += int64(a.size)
		}
	})
	return bytes
}
