package memsnap

import (
	"github.com/gpuprof/gpuprof/internal/pool"
)

// WhatIf is what the allocator would have done for the same requests with another setting.
type WhatIf struct {
	Setting string `json:"setting"` // of PYTORCH_CUDA_ALLOC_CONF, or what the program does otherwise
	// Peaks of what is held from the driver, the most and the least that it can be, and of
	// what live blocks take of it; bytes.
	PeakReserved  int64 `json:"peak_reserved_bytes"`
	LeastReserved int64 `json:"least_peak_reserved_bytes"`
	PeakLive      int64 `json:"peak_live_bytes"`
	DriverAllocs  int   `json:"driver_allocs"`
	DriverFrees   int   `json:"driver_frees"`
	Retries       int   `json:"retries"` // requests before which cached memory was returned
	// Exact: the recording is complete, and nothing that the file lacks matters.
	Exact bool `json:"exact"`
	// OOM is whether the request that failed in the recording, or one before it, fails with
	// this setting; null where none failed, or where that cannot be told. What comes after it
	// is not replayed.
	OOM *bool `json:"oom"`

	advice bool // it is a setting, and no other habit of the program
}

// whatIf replays the requests with every setting; the first is the file's own. Reserved is
// the recorded peak. An out-of-memory error tells how much the driver had, unless a limit
// of the process was the cause.
//
// A recording that begins late is replayed from its live blocks, packed by address, and from
// its segments: a program under another setting has neither. How far the file's own setting,
// replayed so, is from the recording widens every other figure.
//
// Where the budget ends there are no settings at all: those that came first would pass for
// the best.
func (r *Replay) whatIf(b *budget, checked *model, d *Device, o Options) (out []WhatIf, whole bool, err error) {
	run := &runs{r: r, b: b, checked: checked, last: r.Events()}
	if checked.p.Stats().Retries > 0 && o.Allowed == 0 { // the driver had no more than was reserved, or little
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
		w, failed, whole, err := run.all(a)
		if err != nil || !whole {
			return []WhatIf{}, false, err
		}
		w.Exact = w.Exact && r.Complete
		switch {
		case i == 0: // the check has shown what the allocator did
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

// recordedUpTo is the peak of reserved memory up to and with an event, and the calls of the
// driver.
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

// runs replays settings.
type runs struct {
	r       *Replay
	b       *budget
	checked *model
	last    int // event
	limit   int64
}

// all replays a setting under every policy of addresses that can matter to it, and of a
// recording that begins late from either beginning; whole says that the budget sufficed.
func (u *runs) all(a alternative) (w WhatIf, failed, whole bool, err error) {
	first := true
	for _, packed := range []bool{true, false} {
		if !packed && (u.r.Complete || a.set.Pages != nil) {
			break
		}
		for _, p := range []policy{ascending, descending, lowest} {
			one, fails, ties, whole, err := u.one(a, p, packed)
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

// one replays a setting under one policy.
func (u *runs) one(a alternative, p policy, packed bool) (w WhatIf, failed bool, ties int, whole bool, err error) {
	l := newLedger(u.limit, p)
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

// replay makes the requests up to and with an event; failed says that one was refused, and
// whole that the budget sufficed. A recording that begins late begins with its segments, or
// with its live blocks packed.
func (m *model) replay(b *budget, l *ledger, last int, packed bool) (failed, whole bool, err error) {
	if !packed {
		m.begin(m.r.beginning(), l.adopt)
	}
	if !m.r.Complete && packed {
		for _, a := range m.r.beginning().live {
			if m.older[a], err = m.take(a); err != nil {
				return true, true, nil
			}
		}
	}
	for i := 0; i < m.r.Events() && i <= last; i++ {
		if ok, err := b.spend(m); err != nil || !ok {
			return false, false, err
		}
		l.at = i
		if m.trims[i] {
			_ = m.p.Trim() // the ledger takes everything back
		}
		if in := m.returns[i]; in != 0 {
			_ = m.p.Return(in)
		}
		switch act, row := m.r.word(i); act {
		case FreeCompleted:
			m.give(i)
		case Alloc, OOM:
			b, err := m.take(row)
			if err != nil {
				return true, true, nil
			}
			m.hold(i, b)
		}
	}
	return false, true, nil
}
