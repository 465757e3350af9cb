package memsnap

import (
	"context"
	"errors"
	"strings"

	"github.com/gpuprof/gpuprof/internal/pool"
)

// mostModelled is the longest recording, in events, that is replayed through the model of
// the allocator.
const mostModelled = 1 << 20

// mostWork is how many entries of the model's lists are looked at or moved, in the check
// and in all settings together: a list that holds hundreds of thousands of free blocks
// makes each event cost that many. PyTorch's own recordings need under 100 for each event
// and setting (TestWorkOfRecordings).
const mostWork = 1 << 32

// budget is the work that the models of one device may do.
type budget struct {
	ctx  context.Context
	left int64
	at   int // events since the context was looked at
}

// spend takes what a model has done since it was last asked; err is the context's, and ok
// is false when nothing is left.
func (b *budget) spend(m *model) (ok bool, err error) {
	done := m.p.Work()
	b.left -= done - m.spent + 1
	m.spent = done
	if b.at++; b.at%1024 == 0 {
		err = b.ctx.Err()
	}
	return b.left > 0, err
}

// Check says whether the model of the allocator does what the recording says: the same
// calls of the driver and the same places, event by event. Without that nothing is
// claimed of other settings.
type Check struct {
	Passed   bool   `json:"passed"`
	FailedAt int    `json:"failed_at"` // the event that differs; -1 none
	Reason   string `json:"reason,omitempty"`
}

// Why the model is not tried.
const (
	reasonLate    = "the recording begins after the first allocation"
	reasonEvents  = "the recording has too few or too many events"
	reasonSetting = "the allocator has a setting that the model lacks, such as backend:cudaMallocAsync"
	reasonPools   = "the program has private pools, as of CUDA graphs"
	reasonDiffers = "the allocator did something else than the model"
	reasonWork    = "the recording has too many free blocks at once to be replayed"
)

// poolSettings are the file's for the model; ok is false where it has others.
func (s *Settings) poolSettings(pages pool.Pager) (set pool.Settings, ok bool) {
	for _, other := range []string{"large_segment_size", "max_non_split_rounding", "backend:cudaMallocAsync", "per_process_memory_fraction", "graph_capture_record_stream_reuse"} {
		if strings.Contains(s.Text, other) {
			return set, false
		}
	}
	set.Roundup = s.Roundup
	set.MaxSplit = max(s.MaxSplit, 0)
	if s.Expandable {
		set.Pages = pages
	}
	return set, true
}

// model is the allocator with what the recording asked of it.
type model struct {
	r     *Replay
	p     *pool.Pool
	live  map[*allocation]*pool.Block
	trims map[int]bool // before which events the program emptied the cache
	spent int64        // of the budget
}

// tape is a driver that does what the recording says, and notes what is asked otherwise.
type tape struct {
	*model
	at      int // the next event
	base    map[int]uint64
	differs bool
}

var errRefused = errors.New("the recording has no such memory")

// next is the next event if it is of a segment, with that size.
func (t *tape) next(act Action, bytes int64) (addr uint64, ok bool) {
	if t.at >= t.r.Events() {
		return 0, false
	}
	have, row := t.r.word(t.at)
	return row.addr, have == act && row.size == uint64(bytes)
}

// Map implements pool.Driver.
func (t *tape) Map(segment int, bytes int64) error {
	addr, ok := t.next(SegmentAlloc, bytes)
	if !ok {
		return errRefused
	}
	t.base[segment] = addr
	t.at++
	return nil
}

// Unmap implements pool.Driver.
func (t *tape) Unmap(segment int) error {
	act, row := t.r.word(min(t.at, t.r.Events()-1))
	if t.at >= t.r.Events() || act != SegmentFree || row.addr != t.base[segment] {
		t.differs = true
		return errRefused
	}
	t.at++
	return nil
}

// Grow implements pool.Pager.
func (t *tape) Grow(segment int, offset, bytes int64) error {
	addr, ok := t.next(SegmentMap, bytes)
	if !ok {
		return errRefused
	}
	base, known := t.base[segment]
	if !known {
		base = addr - uint64(offset)
		t.base[segment] = base
	}
	t.differs = t.differs || addr != base+uint64(offset)
	t.at++
	return nil
}

// Shrink implements pool.Pager.
func (t *tape) Shrink(segment int, offset, bytes int64) error {
	addr, ok := t.next(SegmentUnmap, bytes)
	if !ok || addr != t.base[segment]+uint64(offset) {
		t.differs = true
		return errRefused
	}
	t.at++
	return nil
}

// check runs the model against the recording; the model tells where the cache was emptied.
func (r *Replay) check(b *budget, traits []traits) (Check, *model, error) {
	m := &model{r: r, live: map[*allocation]*pool.Block{}, trims: map[int]bool{}}
	t := &tape{model: m, base: map[int]uint64{}}
	set, known := r.S.Settings.poolSettings(t)
	switch {
	case !r.Complete || r.Moved > 0:
		return Check{FailedAt: -1, Reason: reasonLate}, m, nil
	case r.Events() == 0 || r.Events() > mostModelled:
		return Check{FailedAt: -1, Reason: reasonEvents}, m, nil
	case !known:
		return Check{FailedAt: -1, Reason: reasonSetting}, m, nil
	case r.privatePools():
		return Check{FailedAt: -1, Reason: reasonPools}, m, nil
	}
	m.p = pool.New(set, t)
	for t.at < r.Events() && !t.differs {
		t.one(traits)
		if ok, err := b.spend(m); err != nil {
			return Check{}, m, err
		} else if !ok {
			return Check{FailedAt: min(t.at, r.Events()-1), Reason: reasonWork}, m, nil
		}
	}
	if t.differs {
		return Check{FailedAt: min(t.at, r.Events()-1), Reason: reasonDiffers}, m, nil
	}
	return Check{Passed: true, FailedAt: -1}, m, nil
}

// privatePools says that memory is of other pools than the default one.
func (r *Replay) privatePools() bool {
	for _, p := range r.S.places {
		if p.pool != [2]uint64{} {
			return true
		}
	}
	return false
}

// ofSegments says that an event is a call of the driver.
func (act Action) ofSegments() bool { return act >= SegmentAlloc && act <= SegmentUnmap }

// one does what the next events are about: a free, a request, or an emptied cache.
func (t *tape) one(traits []traits) {
	act, row := t.r.word(t.at)
	switch {
	case act == FreeCompleted:
		t.give(row)
		t.at++
	case act != Alloc && act != OOM && !act.ofSegments():
		t.at++
	default:
		to, grew := t.calls()
		if to < t.r.Events() {
			request, want := t.r.word(to)
			// Memory that a request returns before it carries the request's stack.
			emptied := (act == SegmentFree || act == SegmentUnmap) && (traits[row.stack].empty || row.stack != want.stack || request == Alloc && !grew)
			if (request == Alloc || request == OOM) && !emptied {
				t.request(to)
				return
			}
		}
		t.trims[t.at] = true
		began := t.at
		t.differs = t.p.Trim() != nil || t.at == began || t.differs
	}
}

// calls are the calls of the driver from the next event on: the event after them, and
// whether one of them made memory.
func (t *tape) calls() (to int, grew bool) {
	for to = t.at; to < t.r.Events(); to++ {
		a, _ := t.r.word(to)
		if !a.ofSegments() {
			break
		}
		grew = grew || a == SegmentAlloc || a == SegmentMap
	}
	return to, grew
}

// request makes the request of an event, to which the calls of the driver must lead.
func (t *tape) request(to int) {
	act, want := t.r.word(to)
	b, err := t.p.Take(int64(min(want.size, 1<<62)), int(want.place))
	if t.at != to {
		t.differs = true
		return
	}
	t.at++
	switch {
	case err != nil:
		t.differs = t.differs || act != OOM
	case act != Alloc || t.base[b.Segment]+uint64(b.Offset) != want.addr:
		t.differs = true
	default:
		t.live[want] = b
	}
}

// give returns an allocation's memory.
func (m *model) give(a *allocation) {
	if b := m.live[a]; b != nil {
		m.p.Give(b)
		delete(m.live, a)
	}
}
