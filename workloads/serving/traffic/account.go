package traffic

import (
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// The account divides the load into blocks of up to blockRequests requests. Once mostBlocks blocks are full, neighbours
// merge and the capacity of a block doubles, so that memory stays constant.
const (
	blockRequests = 1000
	mostBlocks    = 64
)

// Account holds the counts of a service: the balance of requests in and out, the latency distributions, and two sums,
// area and sojourns. Little's law requires these sums to be equal. The queue's lock guards the account. Recording
// allocates nothing.
type Account struct {
	slo      time.Duration
	fromSent bool // also record the latency from the time of sending

	// The balance of requests, warm-up included. Its identities hold only if each request entered once and left once.
	// marks adds the hashed ID of a request on entry and subtracts it on leaving.
	entered, left int64
	marks         uint64
	inside        int64
	last          time.Duration
	area          int64 // integral of inside over time, in request nanoseconds, modulo 2^64
	sojourns      int64 // sum of the times that requests were inside, in the same unit
	wrong         int64 // answers that belong to another request
	negative      int64 // number of answers before their request was due

	failure string // reason of the first failed batch

	began, ended                                                 time.Duration // of the requests after the warm-up
	scheduled, completed, refused, expired, failed, open, inTime int64
	latency, queue, service, late, sent                          *latency.Histogram
	batches                                                      []int64

	blocks []*block
	n      int   // index of the current block
	each   int64 // requests of a full block
}

type block struct {
	start, end                 time.Duration
	completed, refused, failed int64
	inTime                     int64
	looks, seen, most          int64 // queue length when batches begin: number of readings, sum, maximum
	latency                    *latency.Histogram
}

func (b *block) requestCount() int64 { return b.completed + b.refused + b.failed }

// NewAccount makes the account of a service with batches of up to most requests. If fromSent is set, it also records
// the latencies from the time of sending, as a sender that waits for room in the queue sees them.
func NewAccount(most int, slo time.Duration, fromSent bool) *Account {
	a := &Account{
		slo: slo, fromSent: fromSent, each: blockRequests, batches: make([]int64, most),
		latency: latency.New(), queue: latency.New(), service: latency.New(), late: latency.New(), sent: latency.New(),
	}
	a.blocks = make([]*block, mostBlocks)
	for i := range a.blocks {
		a.blocks[i] = &block{latency: latency.New()}
	}
	return a
}

// mix hashes an ID (splitmix64), so that equal sums of hashes mean the same set of requests.
func mix(id int64) uint64 {
	x := uint64(id) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// recordArrival records a request that entered the queue at the time now. Its time inside the service counts from its
// due time.
func (a *Account) recordArrival(r *Request, now time.Duration) {
	a.advance(now)
	a.inside++
	a.area += int64(now - r.Due)
	a.entered++
	a.marks += mix(r.ID)
	if !r.Counted {
		return
	}
	if a.scheduled == 0 {
		a.began = r.Due
		a.blocks[0].start = r.Due
	}
	a.scheduled++
	a.open++
	a.late.Record(r.Sent - r.Due)
}

// advance adds the time since the last event, times the number of requests inside, to area.
func (a *Account) advance(now time.Duration) {
	a.area += a.inside * int64(now-a.last)
	a.last = now
}

func (a *Account) recordEnd(r *Request, how Outcome, now time.Duration) {
	a.advance(now)
	a.inside--
	a.sojourns += int64(now - r.Due)
	a.left++
	a.marks -= mix(r.ID)
	if now < r.Due {
		a.negative++
	}
	if !r.Counted {
		return
	}
	a.open--
	a.ended = max(a.ended, now)
	b := a.currentBlock(now)
	b.end = now
	switch how {
	case Completed:
		a.completed++
		b.completed++
		took := now - r.Due
		if took <= a.slo {
			a.inTime++
			b.inTime++
		}
		a.latency.Record(took)
		b.latency.Record(took)
		a.queue.Record(r.Taken - r.Due)
		a.service.Record(now - r.Taken)
		if a.fromSent {
			a.sent.Record(now - r.Sent)
		}
	case Failed:
		a.failed++
		b.failed++
	default:
		a.refused++
		b.refused++
		if how == Expired {
			a.expired++
		}
	}
}

func (a *Account) recordBatch(members []Request, wrong int) {
	a.wrong += int64(wrong)
	if len(members) > 0 && members[0].Counted {
		a.batches[len(members)-1]++
	}
}

func (a *Account) recordFailure(err error) {
	if a.failure == "" {
		a.failure = err.Error()
	}
}

// Rate returns the arrivals per second of the requests after the warm-up; 0 if there are none.
func (a *Account) Rate() float64 {
	if a.ended <= a.began {
		return 0
	}
	return float64(a.scheduled) / (a.ended - a.began).Seconds()
}

func (a *Account) meanBatch() float64 {
	batches, requests := 0.0, 0.0
	for i, n := range a.batches {
		batches, requests = batches+float64(n), requests+float64(n)*float64(i+1)
	}
	return requests / batches
}

// recordQueue records the queue length when a batch begins.
func (a *Account) recordQueue(waiting int) {
	b := a.blocks[a.n]
	b.looks++
	b.seen += int64(waiting)
	b.most = max(b.most, int64(waiting))
}

// currentBlock returns the block for a request that ends now; it begins a new block when the current one is full.
func (a *Account) currentBlock(now time.Duration) *block {
	b := a.blocks[a.n]
	if b.requestCount() < a.each {
		return b
	}
	start := b.end
	if a.n == mostBlocks-1 {
		a.mergeBlocks()
	} else {
		a.n++
	}
	a.blocks[a.n].start = start
	return a.blocks[a.n]
}

func (a *Account) mergeBlocks() {
	for i := range mostBlocks / 2 {
		a.blocks[i], a.blocks[2*i] = a.blocks[2*i], a.blocks[i]
		a.blocks[i].add(a.blocks[2*i+1])
	}
	for _, b := range a.blocks[mostBlocks/2:] {
		b.clear()
	}
	a.n, a.each = mostBlocks/2, 2*a.each
}

func (b *block) add(o *block) {
	b.end = o.end
	b.completed, b.refused, b.failed, b.inTime = b.completed+o.completed, b.refused+o.refused, b.failed+o.failed, b.inTime+o.inTime
	b.looks, b.seen, b.most = b.looks+o.looks, b.seen+o.seen, max(b.most, o.most)
	b.latency.Merge(o.latency)
}

func (b *block) clear() {
	h := b.latency
	h.Reset()
	*b = block{latency: h}
}

// Faults checks the balance of the account. It returns a sentence for each equation that does not hold, such as entered
// = left + inside. senders is the number of requests that the senders counted.
func (a *Account) Faults(senders int64) []string {
	var out []string
	add := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(a.entered != senders, "%d requests were sent and %d came in", senders, a.entered)
	add(a.entered != a.left+a.inside, "%d requests came in, %d left and %d are inside", a.entered, a.left, a.inside)
	add(a.inside == 0 && a.marks != 0, "a request left twice and another one never")
	add(a.scheduled != a.completed+a.refused+a.failed+a.open, "%d were scheduled, and %d completed, %d refused, %d failed and %d open are another number",
		a.scheduled, a.completed, a.refused, a.failed, a.open)
	add(a.inside == 0 && a.area != a.sojourns, "Little's law: the requests spent %d ns inside, and the number inside over time makes %d ns", a.sojourns, a.area)
	add(a.wrong > 0, "%d answers belonged to another request", a.wrong)
	add(a.negative > 0, "%d answers came before their requests were due", a.negative)
	return out
}

// joinedBlocks returns blocks for confidence intervals. It merges neighbours until each block is longer than least.
func (a *Account) joinedBlocks(least time.Duration) []*block {
	var out []*block
	for _, b := range a.blocks[:a.n+1] {
		if b.requestCount() == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].end-out[n-1].start < least {
			out[n-1].add(b)
			continue
		}
		out = append(out, b)
	}
	if n := len(out); n > 1 {
		if last := out[n-1]; last.end-last.start < least || last.requestCount() < out[0].requestCount()/2 {
			out[n-2].add(last)
			out = out[:n-1]
		}
	}
	return out
}

// Served returns the account as a result with blocks longer than least. The account must not be used afterwards,
// because its blocks may have merged.
func (a *Account) Served(least time.Duration) (loadtest.Served, error) {
	out := loadtest.Served{
		WarmUpS: a.began.Seconds(), Seconds: max(a.ended-a.began, 0).Seconds(), Scheduled: a.scheduled, Completed: a.completed,
		Refused: a.refused, Expired: a.expired, Failed: a.failed, Open: a.open, InTime: a.inTime,
		FailedFor: a.failure, Batches: trimZeros(a.batches), Blocks: []loadtest.ServedBlock{},
	}
	var err error
	record := func(h *latency.Histogram) loadtest.Recorded {
		r, fault := h.Recorded()
		if err == nil {
			err = fault
		}
		return r
	}
	out.Latency, out.Queue, out.Service, out.Late = record(a.latency), record(a.queue), record(a.service), record(a.late)
	if a.fromSent {
		sent := record(a.sent)
		out.FromSent = &sent
	}
	for _, b := range a.joinedBlocks(least) {
		sb := loadtest.ServedBlock{
			StartS: b.start.Seconds(), Seconds: (b.end - b.start).Seconds(), Completed: b.completed, Refused: b.refused, Failed: b.failed,
			InTime: b.inTime, QueueMax: b.most, Latency: record(b.latency),
		}
		if b.looks > 0 {
			sb.QueueMean = float64(b.seen) / float64(b.looks)
		}
		out.Blocks = append(out.Blocks, sb)
	}
	return out, err
}

func trimZeros(counts []int64) []int64 {
	n := len(counts)
	for n > 0 && counts[n-1] == 0 {
		n--
	}
	return counts[:n]
}
