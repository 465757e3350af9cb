package memsnap

import (
	"context"
	"errors"
	"strings"

	"github.com/gpuprof/gpuprof/internal/pool"
)

// mostModelled is the largest number of events in a recording that the model replays.
const mostModelled = 1 << 20

// mostWork limits the list entries that the model visits or moves, over the check and all settings. PyTorch's
// recordings need fewer than 100 per event and setting (TestWorkOfRecordings).
const mostWork = 1 << 32

// mostPools limits the pools of a recording, since each takes memory in the model; no program has so many.
const mostPools = 1 << 12

// budget limits the work of the models of one device.
type budget struct {
	ctx  context.Context
	left int64
	at   int // calls so far; every 1024th checks the context
}

// chargeWork subtracts the model's work since the last call from the budget. ok is false if the budget is used up; err
// is the context's error.
func (b *budget) chargeWork(m *model) (ok bool, err error) {
	done := m.p.Work() + m.work
	b.left -= done - m.spent + 1
	m.spent = done
	if b.at++; b.at%1024 == 0 {
		err = b.ctx.Err()
	}
	return b.left > 0, err
}

// Check compares the model's driver calls and addresses with the recording. Settings are replayed only if it passes.
type Check struct {
	Passed   bool   `json:"passed"`
	FailedAt int    `json:"failed_at"` // first event that differs; -1 none
	Reason   string `json:"reason,omitempty"`
	// Order is the choice among free blocks of equal size in the file's PyTorch: "segment", "block" or "address".
	Order string `json:"order,omitempty"`
	// Unknown counts blocks of unknown size in a recording that starts late.
	Unknown int `json:"unknown_blocks,omitempty"`
}

// Reasons why the model is not used.
const (
	reasonMoved   = "the events and the segments contradict each other"
	reasonPages   = "the recording begins after the first allocation, with expandable segments"
	reasonEvents  = "the recording has too few or too many events"
	reasonSetting = "the allocator has a setting that the model lacks, such as backend:cudaMallocAsync"
	reasonPools   = "the recording has more private pools than any program"
	reasonDiffers = "the allocator did something else than the model"
	reasonWork    = "the recording has too many free blocks at once to be replayed"
)

// poolSettings converts the file's settings for the model; ok is false if the model lacks one of them.
func (s *Settings) poolSettings(pages pool.Pager) (set pool.Settings, ok bool) {
	for _, other := range []string{"backend:cudaMallocAsync", "graph_capture_record_stream_reuse"} {
		if strings.Contains(s.Text, other) {
			return set, false
		}
	}
	set.Roundup = s.Roundup
	set.MaxSplit = max(s.MaxSplit, 0)
	set.Collect = s.Collection
	set.Medium = s.megabytesOf("large_segment_size_mb")
	set.MaxRounding = s.megabytesOf("max_non_split_rounding_mb")
	if s.Expandable {
		set.Pages = pages
	}
	return set, true
}

// possibleOrders returns the orders of equally large free blocks that the file's PyTorch version may use.
func (s *Snapshot) possibleOrders() []pool.Order {
	switch {
	case s.numbered:
		return []pool.Order{pool.BySegment}
	case s.pooled:
		return []pool.Order{pool.BySegment, pool.ByBlock}
	}
	return []pool.Order{pool.ByAddress}
}

// model is the simulated allocator that replays the recording's requests.
type model struct {
	r        *Replay
	p        *pool.Pool
	live     []*pool.Block               // by row of the trace
	older    map[*allocation]*pool.Block // from before the recording
	trims    map[int]bool                // events before which the program emptied the cache
	released []release                   // private pools whose graphs were destroyed
	returns  map[int]int                 // by event: private pool whose memory was returned separately
	order    pool.Order
	work     int64 // list entries visited outside of the pool
	spent    int64 // work already charged to the budget
}

// release is a private pool whose memory empty_cache returned, with the first event that shows this return.
type release struct{ pool, event int }

// checkModel compares the model with the recording and finds the calls of empty_cache. Of the possible orders it
// returns the one that matches longest.
func (r *Replay) checkModel(b *budget, traits []traits, allowed int64) (Check, *model, error) {
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
	for i, order := range r.S.possibleOrders() {
		c, m, err := r.checkModelOrder(b, traits, allowed, order)
		if err != nil || c.Passed {
			return c, m, err
		}
		if i == 0 || c.FailedAt > best.FailedAt {
			best, of = c, m
		}
	}
	return best, of, nil
}

func (r *Replay) checkModelOrder(b *budget, traits []traits, allowed int64, order pool.Order) (Check, *model, error) {
	m := newModel(r)
	m.trims, m.returns, m.order = map[int]bool{}, map[int]int{}, order
	t := &recordedDriver{model: m, base: map[int]uint64{}}
	set, _ := r.S.Settings.poolSettings(t)
	set.Order, set.Allowed = order, allowed
	m.p = pool.New(set, t)
	c := Check{Order: order.String()}
	if !r.Complete {
		from := r.findBeginning()
		t.adoptBeginning(from, func(n int, g heldSegment) { t.base[n] = g.lo })
		c.Unknown, t.differs = from.unknown, !from.ok
	}
	for t.at < r.Events() && !t.differs {
		t.replayNext(traits)
		if ok, err := b.chargeWork(m); err != nil {
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

// isSegmentCall reports whether an event is a driver call.
func (act Action) isSegmentCall() bool { return act >= SegmentAlloc && act <= SegmentUnmap }

func (m *model) takeBlock(a *allocation) (*pool.Block, error) {
	stream, in := m.r.ranks.ranksOf(m.r.S.originOf(a).place)
	return m.p.Take(int64(min(a.size, 1<<62)), stream, in) //nolint:wrapcheck // whether it fails is all that counts
}

func newModel(r *Replay) *model {
	return &model{r: r, live: make([]*pool.Block, r.part.lastAlloc-r.part.allocs), older: map[*allocation]*pool.Block{}}
}

// giveBlock frees, in the model, the block that a free event frees.
func (m *model) giveBlock(event int) {
	_, row := m.r.eventRow(event)
	if b := m.live[row]; b != nil {
		m.live[row] = nil
		m.p.Give(b)
		return
	}
	_, a := m.r.eventAt(event)
	if b := m.older[a]; b != nil {
		delete(m.older, a)
		m.p.Give(b)
	}
}

func (m *model) holdBlock(event int, b *pool.Block) {
	_, row := m.r.eventRow(event)
	m.live[row] = b
}

var errRefused = errors.New("the recording has no such memory")
