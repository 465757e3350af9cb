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
// and in all settings together. PyTorch's own recordings need under 100 for each event
// and setting (TestWorkOfRecordings).
const mostWork = 1 << 32

// mostPools is more than a program has; each takes memory in the model.
const mostPools = 1 << 12

// budget is the work that the models of one device may do.
type budget struct {
	ctx  context.Context
	left int64
	at   int // events since the context was looked at
}

// spend takes what a model has done since it was last asked; err is the context's, and ok
// is false when nothing is left.
func (b *budget) spend(m *model) (ok bool, err error) {
	done := m.p.Work() + m.work
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
	// Order is what decides among free blocks of equal size in the file's version of
	// PyTorch: "segment", "block" or "address".
	Order string `json:"order,omitempty"`
	// Unknown are blocks of a recording that begins late whose sizes nothing tells.
	Unknown int `json:"unknown_blocks,omitempty"`
}

// Why the model is not tried.
const (
	reasonMoved   = "the events and the segments contradict each other"
	reasonPages   = "the recording begins after the first allocation, with expandable segments"
	reasonEvents  = "the recording has too few or too many events"
	reasonSetting = "the allocator has a setting that the model lacks, such as backend:cudaMallocAsync"
	reasonPools   = "the recording has more private pools than any program"
	reasonDiffers = "the allocator did something else than the model"
	reasonWork    = "the recording has too many free blocks at once to be replayed"
)

// poolSettings are the file's for the model; ok is false where it has others.
func (s *Settings) poolSettings(pages pool.Pager) (set pool.Settings, ok bool) {
	for _, other := range []string{"backend:cudaMallocAsync", "graph_capture_record_stream_reuse"} {
		if strings.Contains(s.Text, other) {
			return set, false
		}
	}
	set.Roundup = s.Roundup
	set.MaxSplit = max(s.MaxSplit, 0)
	set.Collect = s.Collection
	set.Medium = s.megabytes("large_segment_size_mb")
	set.MaxRounding = s.megabytes("max_non_split_rounding_mb")
	if s.Expandable {
		set.Pages = pages
	}
	return set, true
}

// orders are what can decide among free blocks of equal size in the file's version.
func (s *Snapshot) orders() []pool.Order {
	switch {
	case s.numbered:
		return []pool.Order{pool.BySegment}
	case s.pooled:
		return []pool.Order{pool.BySegment, pool.ByBlock}
	}
	return []pool.Order{pool.ByAddress}
}

// model is the allocator with what the recording asked of it.
type model struct {
	r        *Replay
	p        *pool.Pool
	live     []*pool.Block               // by row of the trace
	older    map[*allocation]*pool.Block // from before the recording
	trims    map[int]bool                // before which events the program emptied the cache
	released []release                   // private pools whose graphs were gone
	returns  map[int]int                 // private pools that returned their memory alone, by event
	order    pool.Order
	work     int64 // beside the pool's
	spent    int64 // of the budget
}

// release is a private pool that empty_cache returned memory of, first before an event.
type release struct{ pool, event int }

// check runs the model against the recording; the model tells where the cache was emptied.
// Of the orders that the version can have the one that goes furthest is reported.
func (r *Replay) check(b *budget, traits []traits, allowed int64) (Check, *model, error) {
	_, known := r.S.Settings.poolSettings(nil)
	none := func(reason string) (Check, *model, error) {
		return Check{FailedAt: -1, Reason: reason}, nil, nil
	}
	switch {
	case r.Moved > 0:
		return none(reasonMoved)
	case !r.Complete && r.S.Settings.Expandable:
		return none(reasonPages)
	case r.Events() == 0 || r.Events() > mostModelled:
		return none(reasonEvents)
	case !known:
		return none(reasonSetting)
	case r.ranks.pools > mostPools:
		return none(reasonPools)
	}
	var best Check
	var of *model
	for i, order := range r.S.orders() {
		c, m, err := r.checkOrder(b, traits, allowed, order)
		if err != nil || c.Passed {
			return c, m, err
		}
		if i == 0 || c.FailedAt > best.FailedAt {
			best, of = c, m
		}
	}
	return best, of, nil
}

// checkOrder is check with one order.
func (r *Replay) checkOrder(b *budget, traits []traits, allowed int64, order pool.Order) (Check, *model, error) {
	m := newModel(r)
	m.trims, m.returns, m.order = map[int]bool{}, map[int]int{}, order
	t := &tape{model: m, base: map[int]uint64{}}
	set, _ := r.S.Settings.poolSettings(t)
	set.Order, set.Allowed = order, allowed
	m.p = pool.New(set, t)
	c := Check{Order: order.String()}
	if !r.Complete {
		from := r.beginning()
		t.begin(from, func(n int, g held) { t.base[n] = g.lo })
		c.Unknown, t.differs = from.unknown, !from.ok
	}
	for t.at < r.Events() && !t.differs {
		t.one(traits)
		if ok, err := b.spend(m); err != nil {
			return Check{}, m, err
		} else if !ok {
			c.FailedAt, c.Reason = min(t.at, r.Events()-1), reasonWork
			return c, m, nil
		}
	}
	if t.differs {
		c.FailedAt, c.Reason = min(t.at, r.Events()-1), reasonDiffers
		return c, m, nil
	}
	c.Passed, c.FailedAt = true, -1
	return c, m, nil
}

// ofSegments says that an event is a call of the driver.
func (act Action) ofSegments() bool { return act >= SegmentAlloc && act <= SegmentUnmap }

// take makes the request of a row.
func (m *model) take(a *allocation) (*pool.Block, error) {
	stream, in := m.r.ranks.of(m.r.S.origin(a).place)
	return m.p.Take(int64(min(a.size, 1<<62)), stream, in) //nolint:wrapcheck // whether it fails is all that counts
}

func newModel(r *Replay) *model {
	return &model{r: r, live: make([]*pool.Block, r.part.lastAlloc-r.part.allocs), older: map[*allocation]*pool.Block{}}
}

// give returns the memory that an event frees.
func (m *model) give(event int) {
	_, row := m.r.row(event)
	if b := m.live[row]; b != nil {
		m.live[row] = nil
		m.p.Give(b)
		return
	}
	_, a := m.r.word(event)
	if b := m.older[a]; b != nil {
		delete(m.older, a)
		m.p.Give(b)
	}
}

// hold keeps the block of an event's request.
func (m *model) hold(event int, b *pool.Block) {
	_, row := m.r.row(event)
	m.live[row] = b
}

var errRefused = errors.New("the recording has no such memory")
