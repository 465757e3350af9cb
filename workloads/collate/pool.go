package collate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gpuprof/gpuprof"
)

// held is the number of batches that the caller may keep while workers make more: those in flight to the device and
// the one being staged.
const held = depth + 1

// grace limits the further wait for a batch after a request to stop.
const grace = 2 * time.Second

// worker makes batches in the order they are asked for.
type worker interface {
	// ask queues a slot whose index is set. It does not block: no more slots
	// are asked for than the worker has.
	ask(*slot)
	// made yields the slots in the order of asking, filled or with an error.
	madeSlots() <-chan *slot
	// stop ends the worker; it may leave requested batches undone.
	stop() error
}

// pool hands batches out in order, whatever the number of workers: batch k of
// a round is made by worker k mod w in its slot (k/w) mod len(slots), so order
// needs no sorting. A round begins at the first batch, after a jump, and with
// every epoch whose workers are new.
type pool struct {
	ctx     context.Context
	hire    func(w int) (worker, error)
	quiet   func() error // waits until the device is done with every slot
	slots   [][]*slot    // by worker
	workers []worker
	ahead   int // batches asked for beyond the one taken: workers*prefetch

	epoch int // batches of a round; 0 is no end
	first int // batch the round began with
	asked int // batches of the round asked for
	taken int
	ready atomic.Int64 // made and waiting; written by workers
	hired int64        // workers started so far
}

// nextBatch waits for batch i. Its memory stays unchanged until held further batches have been taken.
func (p *pool) nextBatch(i int) (*slot, error) {
	if i != p.first+p.taken || p.workers == nil || p.epochEnded() {
		if err := p.begin(i); err != nil {
			return nil, err
		}
	}
	sl, err := p.waitFor(p.workers[p.taken%len(p.workers)])
	if err != nil {
		return nil, fmt.Errorf("waiting for batch %d: %w", i, err)
	}
	p.ready.Add(-1)
	p.taken++
	p.askAhead()
	if sl.err != nil {
		return nil, sl.err
	}
	return sl, nil
}

// epochEnded reports whether the round's workers have made their epoch.
func (p *pool) epochEnded() bool { return p.epoch > 0 && p.taken > 0 && (p.first+p.taken)%p.epoch == 0 }

// begin starts a round at batch i.
func (p *pool) begin(i int) error {
	if err := errors.Join(p.settle(), p.quiet()); err != nil {
		return err
	}
	if p.epoch > 0 {
		if err := p.stopWorkers(); err != nil {
			return err
		}
	}
	if p.workers == nil {
		for w := range p.slots {
			crew, err := p.hire(w)
			if err != nil {
				return errors.Join(err, p.stopWorkers())
			}
			p.workers = append(p.workers, crew)
			p.hired++
		}
	}
	p.first, p.asked, p.taken = i, 0, 0
	p.askAhead()
	return nil
}

// askAhead keeps as many batches asked for as prefetch allows, within the epoch.
func (p *pool) askAhead() {
	for p.asked < p.taken+p.ahead {
		index := p.first + p.asked
		if p.epoch > 0 && p.asked > 0 && index%p.epoch == 0 {
			return
		}
		w := p.asked % len(p.workers)
		sl := p.slots[w][p.asked/len(p.workers)%len(p.slots[w])]
		sl.index = index
		p.workers[w].ask(sl)
		p.asked++
	}
}

func (p *pool) waitFor(w worker) (*slot, error) {
	select {
	case sl := <-w.madeSlots():
		return sl, nil
	default:
	}
	select {
	case sl := <-w.madeSlots():
		return sl, nil
	case <-p.ctx.Done():
	}
	// Told to stop: the batch is most likely about to come, and with it the
	// step it belongs to ends whole.
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case sl := <-w.madeSlots():
		return sl, nil
	case <-late.C:
		return nil, p.ctx.Err()
	}
}

// settle waits for all requested batches, so that all slots are free.
func (p *pool) settle() error {
	for ; p.taken < p.asked; p.taken++ {
		if _, err := p.waitFor(p.workers[p.taken%len(p.workers)]); err != nil {
			return err
		}
		p.ready.Add(-1)
	}
	return nil
}

// stopWorkers ends all workers.
func (p *pool) stopWorkers() error {
	var errs []error
	for _, w := range p.workers {
		errs = append(errs, w.stop())
	}
	p.workers = nil
	p.ready.Store(0)
	return errors.Join(errs...)
}

// local is a worker that is a goroutine.
type local struct {
	todo, done chan *slot
	ended      chan struct{}
	quit       atomic.Bool
}

func hireLocal(r *recipe, slots int, ready *atomic.Int64, hook func(int)) (worker, error) {
	m, err := newMaker(r)
	if err != nil {
		return nil, err
	}
	m.hook = hook
	w := &local{todo: make(chan *slot, slots), done: make(chan *slot, slots), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		for sl := range w.todo {
			if w.quit.Load() {
				continue
			}
			m.makeBatch(sl)
			ready.Add(1)
			w.done <- sl
		}
	}()
	return w, nil
}

func (w *local) ask(sl *slot)            { w.todo <- sl }
func (w *local) madeSlots() <-chan *slot { return w.done }

func (w *local) stop() error {
	w.quit.Store(true)
	close(w.todo)
	select {
	case <-w.ended:
		return nil
	case <-time.After(stopWait):
		return gpuprof.Errorf(gpuprof.ErrDevice, "ending a collate worker: it has not finished its batch after %s, so it is left behind", stopWait)
	}
}

// stopWait is the time limit for a worker to end.
const stopWait = 5 * time.Second
