package analyze

import (
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Ledger hands out time so that every nanosecond of a device is claimed once.
// It is not safe for use by several goroutines: rules run in order.
type Ledger struct {
	x       *Index
	steady  map[int]room
	claimed map[int]model.Spans
}

// room is what can be claimed of a device; of one that is not known, nothing.
type room struct {
	starved, busy model.Spans
	queued        model.Spans // of the whole device: little of it is ever claimed
}

// NewLedger is a ledger with nothing claimed.
func (x *Index) NewLedger() *Ledger {
	l := &Ledger{x: x, steady: map[int]room{}, claimed: map[int]model.Spans{}}
	for _, d := range x.Devices {
		l.steady[d.Device] = room{d.Starved.And(x.Steady), d.Busy.And(x.Steady), d.Queued}
	}
	return l
}

// ClaimHost claims time for something the host did: the part of want in which
// the device was starved, in the steady part, not yet claimed. It returns what
// was granted.
func (l *Ledger) ClaimHost(device int, want model.Spans) model.Spans {
	return l.grant(device, want, l.steady[device].starved)
}

// ClaimGPU claims time in which the device worked: the part of want that is
// busy, in the steady part and not yet claimed. That no other operation
// overlaps it is for the caller to see to.
func (l *Ledger) ClaimGPU(device int, want model.Spans) model.Spans {
	return l.grant(device, want, l.steady[device].busy)
}

// ClaimQueued claims time in which the device had an operation and had not begun
// it: the part of want in which that is so, in the steady part and not yet
// claimed.
func (l *Ledger) ClaimQueued(device int, want model.Spans) model.Spans {
	return l.grant(device, want.And(l.x.Steady), l.steady[device].queued)
}

// Claimed is what has been granted of a device.
func (l *Ledger) Claimed(device int) model.Spans { return l.claimed[device] }

// Free is what ClaimHost could still grant of a device.
func (l *Ledger) Free(device int) model.Spans {
	return l.steady[device].starved.Minus(l.claimed[device])
}

// grant looks only at the neighbourhood of want, so that many small claims
// stay cheap.
func (l *Ledger) grant(device int, want, of model.Spans) model.Spans {
	if len(want) == 0 {
		return nil
	}
	hull := model.Span{Start: want[0].Start, End: want[len(want)-1].End}
	claimed := l.claimed[device]
	got := want.And(of.Near(hull)).Minus(claimed.Near(hull))
	if len(got) == 0 {
		return nil
	}
	// What lies in the hull is replaced by its union with the grant.
	lo := claimed.FirstFrom(hull.Start - 1)
	hi := lo
	for hi < len(claimed) && claimed[hi].Start <= hull.End {
		hi++
	}
	l.claimed[device] = slices.Replace(claimed, lo, hi, claimed[lo:hi:hi].Or(got)...)
	return got
}

// claimParts divides what a finding claims per step by the classes and idle states that its time lies in.
func (x *Index) claimParts(f *Found) map[string]int64 {
	if f.ClaimNS <= 0 || !x.Stepped() && len(f.Spans) == 0 {
		return nil
	}
	n := int64(x.SteadySteps())
	out := map[string]int64{}
	left := f.ClaimNS / n
	put := func(part string, ns int64) {
		if ns /= n; ns > 0 {
			out[part] = ns
			left -= ns
		}
	}
	for _, d := range x.Devices {
		if d.Device != f.Device {
			continue
		}
		var sum [maxClasses]int64
		for _, s := range f.Spans {
			d.addClasses(&sum, s)
		}
		for i, ns := range sum {
			if ns > 0 {
				put(string(classList[i]), ns)
			}
		}
		for _, idle := range []string{"starved", "queued", "unknown"} {
			put(idle, d.partSpans(idle).TotalAnd(f.Spans))
		}
	}
	if left > 0 && len(x.Devices) == 0 {
		out["outside"] = left
	}
	return out
}
