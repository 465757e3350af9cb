package memsnap

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/pool"
)

// WhatIf is what the allocator would have done for the same requests with another setting.
type WhatIf struct {
	Setting string `json:"setting"` // of PYTORCH_CUDA_ALLOC_CONF, or what the program leaves out
	// Peaks of what is held from the driver, and of what live blocks take of it; bytes.
	PeakReserved int64 `json:"peak_reserved_bytes"`
	PeakLive     int64 `json:"peak_live_bytes"`
	DriverAllocs int   `json:"driver_allocs"`
	DriverFrees  int   `json:"driver_frees"`
	Retries      int   `json:"retries"` // requests before which cached memory was returned
	// OOM is whether the request that failed in the recording, or one before it, fails with
	// this setting; null where none failed. What comes after it is not replayed.
	OOM *bool `json:"oom"`
}

// noEmptyCache is the setting of a program without empty_cache.
const noEmptyCache = "no torch.cuda.empty_cache()"

// ledger is a driver that has so much memory.
type ledger struct {
	limit, used int64 // limit 0: any
	sizes       map[int]int64
}

// Map implements pool.Driver. The driver hands out pages of 2 MiB.
func (l *ledger) Map(segment int, bytes int64) error {
	l.sizes[segment] = bytes
	return l.Grow(segment, 0, bytes)
}

// Unmap implements pool.Driver.
func (l *ledger) Unmap(segment int) error { return l.Shrink(segment, 0, l.sizes[segment]) }

// Grow implements pool.Pager.
func (l *ledger) Grow(_ int, _, bytes int64) error {
	if l.limit > 0 && l.used+bytes > l.limit {
		return errRefused
	}
	l.used += bytes
	return nil
}

// Shrink implements pool.Pager.
func (l *ledger) Shrink(_ int, _, bytes int64) error {
	l.used -= bytes
	return nil
}

// alternative is a setting that is tried.
type alternative struct {
	name string
	set  pool.Settings
	trim bool // the program empties its cache as recorded
}

// alternatives are the settings that differ from the file's. The sizes of max_split are
// those that PyTorch's users try: below them a cut block mostly serves again.
func (r *Replay) alternatives(m *model, l *ledger) []alternative {
	own, _ := r.S.Settings.poolSettings(l)
	out := []alternative{{"as recorded", own, true}}
	try := func(name string, change func(*pool.Settings)) {
		s := own
		change(&s)
		if s != own {
			out = append(out, alternative{name, s, true})
		}
	}
	try("expandable_segments:True", func(s *pool.Settings) { s.Pages = l })
	try("expandable_segments:False", func(s *pool.Settings) { s.Pages = nil })
	for _, mb := range []int64{32, 128, 512} {
		try(fmt.Sprintf("max_split_size_mb:%d", mb), func(s *pool.Settings) { s.MaxSplit = mb << 20 })
	}
	try("without max_split_size_mb", func(s *pool.Settings) { s.MaxSplit = 0 })
	for _, d := range []uint64{4, 8} {
		try(fmt.Sprintf("roundup_power2_divisions:%d", d), func(s *pool.Settings) {
			for i := range s.Roundup {
				s.Roundup[i] = d
			}
		})
	}
	try("without roundup_power2_divisions", func(s *pool.Settings) { s.Roundup = [16]uint64{} })
	if len(m.trims) > 0 {
		out = append(out, alternative{noEmptyCache, own, false})
	}
	return out
}

// whatIf replays the requests with every setting; the first is the file's own. Reserved is
// the recorded peak. An out-of-memory error tells how much the driver had, unless a limit
// of the process was the cause.
//
// A setting under which the direction of the driver's addresses matters is left out where
// PyTorch may be older than 2.13: the replay cannot know them.
//
// Where the budget ends there are no settings at all: those that came first would pass for
// the best.
func (r *Replay) whatIf(b *budget, checked *model, ooms []Outage, reserved int64) (out []WhatIf, whole bool, err error) {
	out = []WhatIf{}
	last, limit := r.Events(), int64(0)
	if checked.p.Stats().Retries > 0 { // the driver had no more than was reserved, or little
		limit = reserved
	}
	known := len(ooms) > 0 && ooms[0].Cause != CauseLimit
	switch {
	case known:
		last, limit = ooms[0].Event, ooms[0].Reserved+ooms[0].DeviceFree
	case len(ooms) > 0:
		last, limit = ooms[0].Event-1, 0
	}
	l := &ledger{}
	for _, a := range r.alternatives(checked, l) {
		try := func(set pool.Settings) (w WhatIf, failed bool, err error) {
			*l = ledger{limit: limit, sizes: map[int]int64{}}
			m := &model{r: r, p: pool.New(set, l), live: map[*allocation]*pool.Block{}}
			failed, whole, err = m.replay(b, a.trim, checked.trims, last)
			s := m.p.Stats()
			return WhatIf{Setting: a.name, PeakReserved: s.PeakReserved, PeakLive: s.PeakInUse, DriverAllocs: s.DriverAllocs, DriverFrees: s.DriverFrees, Retries: s.Retries}, failed, err
		}
		w, failed, err := try(a.set)
		if err != nil || !whole {
			return []WhatIf{}, false, err
		}
		if a.set.Descending = true; !r.S.numbered && a.set.Pages == nil && len(out) > 0 {
			other, fails, err := try(a.set)
			if err != nil || !whole {
				return []WhatIf{}, false, err
			}
			if other != w || fails != failed {
				continue
			}
		}
		if known {
			w.OOM = &failed
		}
		out = append(out, w)
	}
	return out, true, nil
}

// replay makes the requests up to and with an event; failed says that one was refused, and
// whole that the budget sufficed.
func (m *model) replay(b *budget, trim bool, trims map[int]bool, last int) (failed, whole bool, err error) {
	for i := 0; i < m.r.Events() && i <= last; i++ {
		if ok, err := b.spend(m); err != nil || !ok {
			return false, false, err
		}
		if trim && trims[i] {
			_ = m.p.Trim() // the ledger takes everything back
		}
		switch act, row := m.r.word(i); act {
		case FreeCompleted:
			m.give(row)
		case Alloc, OOM:
			b, err := m.p.Take(int64(min(row.size, 1<<62)), int(row.place))
			if err != nil {
				return true, true, nil
			}
			m.live[row] = b
		}
	}
	return false, true, nil
}
