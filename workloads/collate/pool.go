package collate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gpuprof/gpuprof"
)

// held is the number of batches that the caller keeps: those in flight to the device and the one being staged.
const held = depth + 1

// grace is the further wait for a batch after the context has ended.
const grace = 2 * time.Second

// worker makes batches in the order of requests.
type worker interface {
	// ask requests a batch for a slot whose index is set. It never blocks: there are no more requests than slots.
	ask(*slot)
	// madeSlots delivers the slots in the order of requests, filled or with an error.
	madeSlots() <-chan *slot
	// stop ends the worker, which may leave requested batches undone.
	stop() error
}

// pool delivers batches in order for any number of workers w: worker k mod w makes batch k of a round in its slot
// (k/w) mod len(slots), so nothing needs sorting. A round begins at the first batch, after a jump to another batch,
// and with persistent=off at every epoch.
type pool struct {
	ctx         context.Context
	startWorker func(w int) (worker, error)
	waitDevice  func() error // waits until the device has read every slot
	slots       [][]*slot    // by worker
	workers     []worker
	ahead       int // number of requested batches beyond the last one taken: workers*prefetch

	epoch int // batches per epoch, after which workers restart; 0: no epochs
	first int // first batch of the round
	asked int // batches requested in the round
	taken int
	ready atomic.Int64 // batches made and not yet taken; workers add to it
	hired int64        // workers started since the session began
}

// nextBatch waits for batch i. The batch's memory stays unchanged until the caller has taken held further batches.
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

// epochEnded reports whether the last batch of an epoch has been taken.
func (p *pool) epochEnded() bool { return p.epoch > 0 && p.taken > 0 && (p.first+p.taken)%p.epoch == 0 }

func (p *pool) begin(i int) error {
	if err := errors.Join(p.settle(), p.waitDevice()); err != nil {
		return err
	}
	if p.epoch > 0 {
		if err := p.stopWorkers(); err != nil {
			return err
		}
	}
	if p.workers == nil {
		for w := range p.slots {
			crew, err := p.startWorker(w)
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

// askAhead requests further batches of the epoch until p.ahead batches are requested beyond the last one taken.
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
	// The run is ending. The batch probably arrives soon, and then its step completes.
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case sl := <-w.madeSlots():
		return sl, nil
	case <-late.C:
		return nil, p.ctx.Err()
	}
}

// settle waits for all requested batches, so that no worker uses a slot.
func (p *pool) settle() error {
	for ; p.taken < p.asked; p.taken++ {
		if _, err := p.waitFor(p.workers[p.taken%len(p.workers)]); err != nil {
			return err
		}
		p.ready.Add(-1)
	}
	return nil
}

func (p *pool) stopWorkers() error {
	var errs []error
	for _, w := range p.workers {
		errs = append(errs, w.stop())
	}
	p.workers = nil
	p.ready.Store(0)
	return errors.Join(errs...)
}

// local is a worker in a goroutine.
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
