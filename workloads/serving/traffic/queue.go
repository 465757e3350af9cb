package traffic

import (
	"sync"
	"time"
)

// Queue holds waiting requests in order of arrival. Senders and the service loop share it. A queue with a limit
// allocates nothing after its creation.
type Queue struct {
	mu    sync.Mutex
	ring  []Request
	head  int
	n     int
	limit int // 0: none
	rule  Overload
	given int64 // number of requests ever put into the queue
	books *Account
}

// firstPlaces is the initial capacity of a queue without a limit.
const firstPlaces = 1024

// NewQueue makes a queue of limit places; 0 means no limit.
func NewQueue(limit int, rule Overload, books *Account) *Queue {
	places := limit
	if limit == 0 {
		places = firstPlaces
	}
	return &Queue{ring: make([]Request, places), limit: limit, rule: rule, books: books}
}

// Put adds a request to the queue. If the queue is full, Put refuses this request or, under RefuseOld, the oldest one,
// and returns the refused request and Refused. Under Block it adds nothing to a full queue and returns room = false; the
// sender has to wait.
func (q *Queue) Put(r Request, now time.Duration) (refused Request, how Outcome, room bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.Sent = now
	how = Completed
	if q.limit > 0 && q.n == q.limit {
		switch q.rule {
		case Block:
			return Request{}, how, false
		case RefuseOld:
			refused, how = q.pop(), Refused
			q.books.recordArrival(&r, now)
			q.push(r)
		default:
			q.books.recordArrival(&r, now)
			refused, how = r, Refused
		}
		q.given++
		// The sender read the clock before it took the lock: the refused request may have arrived after now.
		q.books.recordEnd(&refused, Refused, max(now, refused.Sent))
		return refused, how, true
	}
	q.books.recordArrival(&r, now)
	q.push(r)
	q.given++
	return Request{}, how, true
}

// Refuse records a request that was refused before it reached the queue.
func (q *Queue) Refuse(r Request, now time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.Sent = now
	q.books.recordArrival(&r, now)
	q.books.recordEnd(&r, Refused, now)
}

// Waiting returns the number of waiting requests, the due time of the oldest, and the number of requests ever put into
// the queue.
func (q *Queue) Waiting() (n int, oldest time.Duration, given int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n > 0 {
		oldest = q.ring[q.head].Due
	}
	return q.n, oldest, q.given
}

// Given returns the number of requests ever put into the queue.
func (q *Queue) Given() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.given
}

func (q *Queue) isFull() bool {
	if q.limit == 0 { // it never changes
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n == q.limit
}

// Take appends the oldest requests, at most n, to into.
func (q *Queue) Take(into []Request, n int, now time.Duration) []Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n > 0 {
		q.books.recordQueue(q.n)
	}
	for range min(n, q.n) {
		r := q.pop()
		r.Taken = now
		into = append(into, r)
	}
	return into
}

// Expire removes the oldest request if it was due before the given time, and records it as expired.
func (q *Queue) Expire(before, now time.Duration) (Request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == 0 || q.ring[q.head].Due >= before {
		return Request{}, false
	}
	r := q.pop()
	// The service read the clock before it took the lock: the sender may have put r in after now.
	q.books.recordEnd(&r, Expired, max(now, r.Sent))
	return r, true
}

func (q *Queue) pop() Request {
	r := q.ring[q.head]
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return r
}

func (q *Queue) push(r Request) {
	if q.n == len(q.ring) {
		bigger := make([]Request, 2*q.n)
		k := copy(bigger, q.ring[q.head:])
		copy(bigger[k:], q.ring[:q.head])
		q.ring, q.head = bigger, 0
	}
	q.ring[(q.head+q.n)%len(q.ring)] = r
	q.n++
}
