package traffic

import (
	"context"
	"errors"
	"time"
)

// Service is the loop that takes batches of waiting requests and answers them.
type Service struct {
	World   World
	Queue   *Queue
	Runner  Runner
	Batcher Batcher
	Depth   int // largest number of batches in flight
	Books   *Account
	Sender  Sender // may be nil

	flying [][]Request // ring of Depth batches, the oldest at head
	head   int
	n      int
}

// Run serves until the last request has been answered and no further one will come. It also ends with the context,
// which leaves the requests in the service without an outcome. It allocates nothing after its first batches.
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
		if s.Queue.isFull() { // start a batch first: no request is refused while one can begin
			if _, _, err := s.startBatches(); err != nil {
				return err
			}
		}
		s.World.Admit(now)
		// Read World.Over before the queue: Await notices a request that arrives after this reading.
		over := s.World.Over()
		at, given, err := s.startBatches()
		if err != nil {
			return err
		}
		if over && s.n == 0 {
			if waiting, _, _ := s.Queue.Waiting(); waiting == 0 {
				return nil
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := s.World.Await(at, given, s.n); err != nil {
			return err
		}
	}
}

// finishBatches delivers the answers of the completed batches, oldest first.
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

// close records the end of a batch. A BatchError marks the batch as failed; any other error ends the service.
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

// startBatches starts every batch that can start. at is the latest time at which the next batch begins; given is the
// number of requests put into the queue until now.
func (s *Service) startBatches() (at time.Duration, given int64, err error) {
	for {
		now := s.World.Now()
		if s.Batcher.Rule == Deadline && s.n < s.Depth {
			s.refuseExpired(now)
		}
		waiting, oldest, seen := s.Queue.Waiting()
		size, when := s.Batcher.next(waiting, oldest, now)
		if s.n == s.Depth { // only an answer can change the state
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
