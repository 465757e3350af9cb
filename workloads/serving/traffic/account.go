package traffic

import (
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// A block begins with this many requests. Once mostBlocks are full, neighbours merge and later blocks are twice as
// long, so that the memory stays constant.
const (
	blockRequests = 1000
	mostBlocks    = 64
)

// Account holds the counts of a service: the ledger, the distributions, and the two sums that Little's law requires to
// be equal. The queue's lock guards it. Recording allocates nothing.
type Account struct {
	slo      time.Duration
	fromSent bool // also keep the latency from the time of sending

	// The ledger, warm-up included. Identities that only add up where each request
	// entered once and left once: marks mixes the bits of the IDs.
	entered, left int64
	marks         uint64
	inside        int64
	last          time.Duration
	area          int64 // of inside over time, in request nanoseconds, modulo 2^64
	sojourns      int64 // the sum of the times inside, the same
	wrong         int64 // answers that belonged to another request
	negative      int64 // answers before their request

	failure string // why the first failed batch failed

	began, ended                                                 time.Duration // of the counted requests
	scheduled, completed, refused, expired, failed, open, inTime int64
	latency, queue, service, late, sent                          *latency.Histogram
	batches                                                      []int64

	blocks []*block
	n      int // of blocks
	each   int64
}

type block struct {
	start, end                 time.Duration
	completed, refused, failed int64
	inTime                     int64
	looks, seen, most          int64
	latency                    *latency.Histogram
}

func (b *block) requestCount() int64 { return b.completed + b.refused + b.failed }

// NewAccount makes the books of a service with batches of up to most requests. fromSent
// keeps the latencies that a sender sees which waits.
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

// mix spreads the bits of an ID (splitmix64), so that equal sums mean the same set of requests.
func mix(id int64) uint64 {
	x := uint64(id) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// recordArrival records a request that was put in now and has been in the system since it was due.
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

// advance adds the time since the last event to the integral of requests in the system.
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

// recordBatch records an answered batch.
func (a *Account) recordBatch(members []Request, wrong int) {
	a.wrong += int64(wrong)
	if len(members) > 0 && members[0].Counted {
		a.batches[len(members)-1]++
	}
}

// recordFailure keeps the reason of the first failed batch.
func (a *Account) recordFailure(err error) {
	if a.failure == "" {
		a.failure = err.Error()
	}
}

// Rate returns the arrivals per second of the counted requests; 0 if none was counted.
func (a *Account) Rate() float64 {
	if a.ended <= a.began {
		return 0
	}
	return float64(a.scheduled) / (a.ended - a.began).Seconds()
}

// meanBatch returns the mean number of requests in a batch.
func (a *Account) meanBatch() float64 {
	batches, requests := 0.0, 0.0
	for i, n := range a.batches {
		batches, requests = batches+float64(n), requests+float64(n)*float64(i+1)
	}
	return requests / batches
}

// recordQueue records how many requests waited when a batch began.
func (a *Account) recordQueue(waiting int) {
	b := a.blocks[a.n]
	b.looks++
	b.seen += int64(waiting)
	b.most = max(b.most, int64(waiting))
}

// currentBlock returns the block for a request that ends now.
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

// mergeBlocks makes one block of every two neighbours.
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

// Faults returns a sentence for each sum of the account that does not add up. senders is the number of requests by the
// senders' own count.
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

// joinedBlocks returns blocks for intervals: neighbours merged until each is longer than least, the remainder merged
// into the last.
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

// Served returns the account in the form of a result, with blocks longer than least. It ends the account: blocks may
// have merged.
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
