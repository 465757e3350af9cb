package memsnap

import (
	"github.com/gpuprof/gpuprof/internal/pool"
)

// WhatIf is the simulated behaviour of the allocator under another setting, for the same requests.
type WhatIf struct {
	Setting string `json:"setting"` // of PYTORCH_CUDA_ALLOC_CONF, or a change to the program
	// PeakReserved and LeastReserved bound the peak of reserved memory, PeakLive is the peak of live blocks; bytes.
	PeakReserved  int64 `json:"peak_reserved_bytes"`
	LeastReserved int64 `json:"least_peak_reserved_bytes"`
	PeakLive      int64 `json:"peak_live_bytes"`
	DriverAllocs  int   `json:"driver_allocs"`
	DriverFrees   int   `json:"driver_frees"`
	Retries       int   `json:"retries"` // requests before which cached memory was returned
	// Exact reports that the recording is complete and that both bounds are equal.
	Exact bool `json:"exact"`
	// OOM reports whether the failed request, or an earlier one, also fails under this setting. It is null if no
	// request failed, or if the answer is uncertain. Later requests are not replayed.
	OOM *bool `json:"oom"`

	advice bool // a setting, not a change to the program
}

// replaySettings replays the requests under every setting, first the file's own, for which it returns the recorded
// peak. An out-of-memory error shows how much memory the driver has, unless a limit of the process caused it. A
// recording that starts late is replayed from its live blocks, packed by address, and (without expandable segments)
// also from its segments. Under another setting the recording would begin in neither state, so the error of the file's
// own setting widens the bounds of all others. If the budget ends, whole is false and no setting is reported, because
// the first ones would look best.
func (r *Replay) replaySettings(b *budget, checked *model, d *Device, o Options) (out []WhatIf, whole bool, err error) {
	run := &settingReplayer{r: r, b: b, checked: checked, last: r.Events()}
	if checked.p.Stats().Retries > 0 && o.Allowed == 0 { // the driver had little more memory than was reserved
		run.limit = d.PeakReserved
	}
	known := len(d.OOMs) > 0 && (d.OOMs[0].Cause != CauseLimit || o.Allowed > 0)
	switch {
	case known:
		run.last, run.limit = d.OOMs[0].Event, d.OOMs[0].Reserved+d.OOMs[0].DeviceFree
	case len(d.OOMs) > 0:
		run.last, run.limit = d.OOMs[0].Event-1, 0
	}
	var off int64
	for i, a := range r.alternatives(checked, o) {
		w, failed, whole, err := run.replayAll(a)
		if err != nil || !whole {
			return []WhatIf{}, false, err
		}
		w.Exact = w.Exact && r.Complete
		switch {
		case i == 0: // the check has shown that the model matches this setting
			off = max(w.PeakReserved-d.PeakReserved, d.PeakReserved-w.LeastReserved)
			w.PeakReserved, w.DriverAllocs, w.DriverFrees = r.recordedUpTo(run.last)
			w.LeastReserved, w.Exact, failed = w.PeakReserved, r.Complete, true
		case !r.Complete:
			w.PeakReserved += off
			w.LeastReserved = max(w.LeastReserved-off, w.PeakLive)
		}
		if known && r.Complete {
			w.OOM = &failed
		}
		out = append(out, w)
	}
	return out, true, nil
}

// recordedUpTo returns the reserved peak up to and including an event, and the number of driver calls.
func (r *Replay) recordedUpTo(last int) (peak int64, allocs, frees int) {
	peak = r.Start.Reserved
	r.Levels(func(event int, act Action, l Level, _ int64) {
		if event > last {
			return
		}
		peak = max(peak, l.Reserved)
		switch act {
		case SegmentAlloc, SegmentMap:
			allocs++
		case SegmentFree, SegmentUnmap:
			frees++
		}
	})
	return peak, allocs, frees
}

// settingReplayer replays the requests of one device under other settings.
type settingReplayer struct {
	r       *Replay
	b       *budget
	checked *model
	last    int   // last event to replay
	limit   int64 // of the driver's memory, bytes; 0 is unlimited
}

// replayAll replays a setting under every relevant address policy and initial state. failed reports a refused request,
// whole that the budget sufficed.
func (u *settingReplayer) replayAll(a alternative) (w WhatIf, failed, whole bool, err error) {
	first := true
	for _, packed := range []bool{true, false} {
		if !packed && (u.r.Complete || a.set.Pages != nil) {
			break
		}
		for _, p := range []addressPolicy{ascending, descending, lowest} {
			one, fails, ties, whole, err := u.replayOne(a, p, packed)
			if err != nil || !whole {
				return w, false, false, err
			}
			failed = failed || fails
			least := one.LeastReserved
			if !first {
				least = min(least, w.LeastReserved)
			}
			if first || one.PeakReserved > w.PeakReserved {
				w = one
			}
			w.LeastReserved, first = least, false
			if u.checked.order != pool.ByAddress || a.set.Pages != nil || ties == 0 {
				break
			}
		}
	}
	w.Exact = w.PeakReserved == w.LeastReserved
	return w, failed, true, nil
}

func (u *settingReplayer) replayOne(a alternative, p addressPolicy, packed bool) (w WhatIf, failed bool, ties int, whole bool, err error) {
	l := newSimulatedDriver(u.limit, p)
	if a.set.Pages != nil {
		a.set.Pages = l
	}
	m := newModel(u.r)
	m.p, m.trims, m.released, m.returns = pool.New(a.set, l), a.trims, u.checked.released, u.checked.returns
	l.model = m
	failed, whole, err = m.replay(u.b, l, u.last, packed)
	s := m.p.Stats()
	return WhatIf{Setting: a.name, PeakReserved: s.PeakReserved, LeastReserved: s.PeakReserved, PeakLive: s.PeakInUse, DriverAllocs: s.DriverAllocs, DriverFrees: s.DriverFrees, Retries: s.Retries, advice: a.advice}, failed, s.Ties, whole, err
}

// replay repeats the requests up to event last. failed reports a refused request, whole that the budget sufficed. A
// recording that starts late begins with its live blocks packed, else with its segments.
func (m *model) replay(b *budget, l *simulatedDriver, last int, packed bool) (failed, whole bool, err error) {
	if !packed {
		m.adoptBeginning(m.r.findBeginning(), l.adoptSegment)
	}
	if !m.r.Complete && packed {
		for _, a := range m.r.findBeginning().live {
			if m.older[a], err = m.takeBlock(a); err != nil {
				return true, true, nil
			}
		}
	}
	for i := 0; i < m.r.Events() && i <= last; i++ {
		if ok, err := b.chargeWork(m); err != nil || !ok {
			return false, false, err
		}
		l.at = i
		if m.trims[i] {
			_ = m.p.Trim() // the simulated driver accepts all memory
		}
		if in := m.returns[i]; in != 0 {
			_ = m.p.Return(in)
		}
		switch act, row := m.r.eventAt(i); act {
		case FreeCompleted:
			m.giveBlock(i)
		case Alloc, OOM:
			b, err := m.takeBlock(row)
			if err != nil {
				return true, true, nil
			}
			m.holdBlock(i, b)
		}
	}
	return false, true, nil
}
