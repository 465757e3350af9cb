package traffic

import "time"

// Batcher decides when a batch begins, and with how many requests.
type Batcher struct {
	MaxBatch int
	MaxDelay time.Duration // longest wait of the oldest request, from its due time on; with 0 a batch begins at once
	Split    *Splitter     // chooses the size of a batch; nil: take all waiting requests, up to MaxBatch
	Rule     Overload
	SLO      time.Duration // for Deadline
	Alone    time.Duration // for Deadline: the time that a batch of one request takes
}

// next returns the size of the batch that begins now, or 0 and the latest time at which the next batch begins.
func (b *Batcher) next(waiting int, oldest, now time.Duration) (size int, at time.Duration) {
	switch {
	case waiting == 0:
		return 0, Forever
	case waiting < b.MaxBatch && now < oldest+b.MaxDelay:
		return 0, oldest + b.MaxDelay
	}
	size = min(waiting, b.MaxBatch)
	if b.Split != nil {
		size = min(size, b.Split.First(size))
	}
	return size, now
}

// tooLate returns a due time: a request that was due earlier exceeds the SLO even in a batch of one that begins now.
func (b *Batcher) tooLate(now time.Duration) time.Duration { return now + b.Alone - b.SLO }
