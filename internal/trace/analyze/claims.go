package analyze

import (
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Ledger grants each nanosecond of device time to at most one finding, so that the savings of findings do not overlap.
// Rules claim in order, so earlier rules win. It is not safe for concurrent use.
type Ledger struct {
	x       *Index
	steady  map[int]claimableTime
	claimed map[int]model.Spans
}

// claimableTime is the time of a device that findings can claim: only in the steps that are not dropped as warm-up.
type claimableTime struct {
	starved, busy model.Spans
	queued        model.Spans // ClaimQueued limits it to those steps at each claim, because few findings claim it
}

// NewLedger returns a ledger in which no time is claimed yet.
func (x *Index) NewLedger() *Ledger {
	l := &Ledger{x: x, steady: map[int]claimableTime{}, claimed: map[int]model.Spans{}}
	phases := x.phaseSpans() // a counted step can contain phases, such as compilation, if every step does
	steady := x.Steady.Minus(phases)
	for _, d := range x.Devices {
		l.steady[d.Device] = claimableTime{d.Starved.And(steady), d.Busy.And(steady), d.Queued.Minus(phases)}
	}
	return l
}

// ClaimHost claims and returns the part of want in which the device was starved, idle because the host had not launched
// the next operation. It grants only unclaimed time of steps that are not dropped as warm-up.
func (l *Ledger) ClaimHost(device int, want model.Spans) model.Spans {
	return l.grantSpans(device, want, l.steady[device].starved)
}

// ClaimGPU claims and returns the part of want in which the device was busy. It grants only unclaimed time of steps
// that are not dropped as warm-up. The caller must make sure that no other operation overlaps want.
func (l *Ledger) ClaimGPU(device int, want model.Spans) model.Spans {
	return l.grantSpans(device, want, l.steady[device].busy)
}

// ClaimQueued claims and returns the part of want in which the device was queued: the next operation was launched and
// had not begun. It grants only unclaimed time of steps that are not dropped as warm-up.
func (l *Ledger) ClaimQueued(device int, want model.Spans) model.Spans {
	return l.grantSpans(device, want.And(l.x.Steady), l.steady[device].queued)
}

// Claimed returns the time of a device that findings have claimed so far.
func (l *Ledger) Claimed(device int) model.Spans { return l.claimed[device] }

// Free returns the time of a device that ClaimHost could still grant.
func (l *Ledger) Free(device int) model.Spans {
	return l.steady[device].starved.Minus(l.claimed[device])
}

// grantSpans claims the part of want that lies in allowed and that no finding has claimed yet. It reads only spans near
// want, for speed.
func (l *Ledger) grantSpans(device int, want, allowed model.Spans) model.Spans {
	if len(want) == 0 {
		return nil
	}
	hull := model.Span{Start: want[0].Start, End: want[len(want)-1].End}
	claimed := l.claimed[device]
	got := want.And(allowed.Near(hull)).Minus(claimed.Near(hull))
	if len(got) == 0 {
		return nil
	}
	// Within the hull, the union of old claims and grant replaces the claimed spans.
	lo := claimed.FirstFrom(hull.Start - 1)
	hi := lo
	for hi < len(claimed) && claimed[hi].Start <= hull.End {
		hi++
	}
	l.claimed[device] = slices.Replace(claimed, lo, hi, claimed[lo:hi:hi].Or(got)...)
	return got
}

// claimParts divides the time that finding f claims by kernel class and idle state, ns per step.
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
	if d := x.Device(f.Device); d != nil {
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
