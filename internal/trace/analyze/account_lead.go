package analyze

import (
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// countLeadIn widens the window of the main device to the whole step (without steps, to the steady part of the
// recording) if the trace has one step or none. Idle time before the first operation then counts; it is not warm-up.
func (x *Index) countLeadIn() {
	if x.SteadySteps() > 1 || len(x.Steady) == 0 || x.Stepped() && x.Steps[0].Dropped {
		return
	}
	if c := x.T.Cut; c != nil && len(c.Steps) > 0 && c.Steps[0].Dropped { // warm-up in the uncut trace
		return
	}
	if d := x.mainDevice(); d != nil && len(d.Busy) > 0 {
		d.Window.Start = min(d.Window.Start, x.Steady[0].Start)
		if x.Stepped() {
			d.Window.End = max(d.Window.End, x.Steady[len(x.Steady)-1].End)
		}
	}
}

// divideLead divides the time from start to the device's first operation into starved, queued and unknown time.
func (d *DeviceTime) divideLead(t *model.Trace, start int64) {
	to := d.ActiveSpan.Start
	if start >= to {
		return
	}
	launch, known := launchOf(t, d.Ops, to)
	if !known {
		d.InitialIdle.UnknownNS = to - start
		return
	}
	launch = min(max(launch, start), to)
	d.InitialIdle.StarvedNS, d.InitialIdle.QueuedNS = launch-start, to-launch
}
