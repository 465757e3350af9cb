package traffic

import (
	"context"
	"errors"
	"time"
)

// Service is the loop that makes batches of waiting requests and answers them.
type Service struct {
	World   World
	Queue   *Queue
	Runner  Runner
	Batcher Batcher
	Depth   int // batches in flight
	Books   *Account
	Sender  Sender // may be nil

	flying [][]Request // a ring of Depth batches, the oldest at head
	head   int
	n      int
}

// Run serves until no request will come and the last one has been answered, or until the context ends: requests in the
// service then remain open. It allocates nothing after its first batches.
func (s *Service) Run(ctx context.Context) error {
	s.flying, s.head, s.n = make([][]Request, s.Depth), 0, 0
	for i := range s.flying {
		s.flying[i] = make([]Request, 0, s.Batcher.MaxBatch)
	}
	for {
		now := s.World.Now()
		if err := s.finishBatches(); err != nil {
			return err
		}
		if s.Queue.isFull() { // nothing is refused while a batch could begin
			if _, _, err := s.startBatches(); err != nil {
				return err
			}
		}
		s.World.Admit(now)
		// Over is read before the queue: Await sees a request that arrives after this reading.
		over := s.World.Over()
		at, given, err := s.startBatches()
		if err != nil {
			return err
		}
		if waiting, _, _ := s.Queue.Waiting(); over && waiting == 0 && s.n == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := s.World.Await(at, given, s.n); err != nil {
			return err
		}
	}
}

// finishBatches delivers the answers of the completed batches.
func (s *Service) finishBatches() error {
	for s.n > 0 {
		done, err := s.Runner.Done()
		if err == nil && !done {
			return nil
		}
		batch := s.flying[s.head]
		wrong := 0
		if err == nil {
			wrong, err = s.Runner.Finish()
		}
		if err := s.close(batch, wrong, err); err != nil {
			return err
		}
		s.head, s.n = (s.head+1)%s.Depth, s.n-1
	}
	return nil
}

// close records the end of a batch; an error of the batch itself marks it as failed.
func (s *Service) close(batch []Request, wrong int, err error) error {
	now := s.World.Now()
	how := Completed
	if err != nil {
		var own *BatchError
		if !errors.As(err, &own) {
			return err
		}
		how = Failed
	}
	s.Queue.mu.Lock()
	if err != nil {
		s.Books.recordFailure(err)
	}
	for i := range batch {
		s.Books.recordEnd(&batch[i], how, now)
	}
	s.Books.recordBatch(batch, wrong)
	s.Queue.mu.Unlock()
	if s.Sender != nil {
		for i := range batch {
			s.Sender.Over(&batch[i], how, now)
		}
	}
	return nil
}

// startBatches starts the batches that can start. at is the latest time for the next one, and given the number of
// requests that the queue had received.
func (s *Service) startBatches() (at time.Duration, given int64, err error) {
	for {
		now := s.World.Now()
		if s.Batcher.Rule == Deadline && s.n < s.Depth {
			s.refuseExpired(now)
		}
		waiting, oldest, seen := s.Queue.Waiting()
		size, when := s.Batcher.next(waiting, oldest, now)
		if s.n == s.Depth { // the next event is an answer
			return Forever, seen, nil
		}
		if size == 0 {
			return when, seen, nil
		}
		slot := (s.head + s.n) % s.Depth
		s.flying[slot] = s.Queue.Take(s.flying[slot][:0], size, now)
		if err := s.Runner.Start(s.flying[slot], now); err != nil {
			if err := s.close(s.flying[slot], 0, err); err != nil {
				return 0, 0, err
			}
			continue
		}
		s.n++
	}
}

// refuseExpired refuses requests that can no longer be answered in time.
func (s *Service) refuseExpired(now time.Duration) {
	for {
		r, gone := s.Queue.Expire(s.Batcher.tooLate(now), now)
		if !gone {
			return
		}
		if s.Sender != nil {
			late := r
			s.Sender.Over(&late, Expired, now)
		}
	}
}
