package analyze

import (
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// emptyStep: a last step with less than 1/emptyStep of the work of the median step is empty.
const emptyStep = 20

// markEmpty marks the last range of the profiler if it has almost no work. The profiler opens it at the last call of
// step() and closes it at the end of the recording.
func (x *Index) markEmpty() {
	n := len(x.Steps)
	if x.StepSource != profilerStep || n < 2 {
		return
	}
	if len(x.T.GPU) == 0 {
		for i := range x.T.Host {
			if h := &x.T.Host[i]; h.Kind == model.Op && h.Lane == x.Steps[0].Lane {
				if k := x.StepAt(h.Start); k >= 0 {
					x.Steps[k].work++
				}
			}
		}
	}
	var others []int64
	for i := range x.Steps[:n-1] {
		others = append(others, int64(x.Steps[i].work))
	}
	if last := &x.Steps[n-1]; int64(last.work)*emptyStep < Median(others) {
		last.Empty, last.Dropped = true, true
	}
}

// longTail: trimLast shortens the last step if its tail, the time after its device work, exceeds the median tail by
// more than 1/longTail of a step.
const longTail = 20

// trimLast removes from the last step the time in which the profiler ends the recording: some releases of PyTorch close
// the range of the step only afterwards. The new end is the end of the step's device work plus the median time that the
// other steps take after their device work.
func (x *Index) trimLast() {
	n := len(x.Steps)
	if x.StepSource != profilerStep || n < 3 || x.Steps[n-1].Empty || x.Steps[n-1].device == 0 {
		return
	}
	var tails, lengths []int64
	for i := range x.Steps[:n-1] {
		s := &x.Steps[i]
		if s.device == 0 {
			return
		}
		tails, lengths = append(tails, max(0, s.Host.End-s.device)), append(lengths, s.Host.Len())
	}
	last := &x.Steps[n-1]
	end := max(last.Host.Start, last.device+Median(tails))
	if (last.Host.End-end)*longTail > Median(lengths) {
		last.Host.End, last.Full.End = end, max(end, last.device)
	}
}

// findTrailing finds the call with which the profiler ends a recording: the last synchronization of a whole device, if
// it comes after the last step and no launch follows.
func (x *Index) findTrailing() {
	last := int32(-1)
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if h.Kind != model.API || x.Info[h.Name].call != model.CallSync || !isDeviceSync(x.T.Name(h.Name)) {
			continue
		}
		if last < 0 || h.Start > x.T.Host[last].Start {
			last = int32(i)
		}
	}
	if last < 0 {
		return
	}
	at := x.T.Host[last].Start
	if n := len(x.Steps); n > 0 && at < x.Steps[n-1].Host.End {
		return
	}
	for _, l := range x.launchAt {
		if x.T.Host[l].Start > at {
			return
		}
	}
	x.Trailing = last
}

func isDeviceSync(name string) bool {
	return strings.Contains(name, "DeviceSynchronize") || strings.Contains(name, "CtxSynchronize") ||
		strings.Contains(name, "ThreadSynchronize") // the name before CUDA 4
}
