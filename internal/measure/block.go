package measure

import (
	"fmt"
	"runtime"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/probes/events"
)

// block is a row of steps run from idle to idle. Its first steps fill the
// pipeline and its last ones drain it; only the periods in [first, last) are
// samples.
type block struct {
	pass        events.Pass
	rec         *events.Block
	first, last int
	throttled   bool
	interrupted bool
	mismatch    float64 // |sum of periods - caller's clock| over that clock
}

// trim is how many steps to leave out at either end of a block. Steps longer
// than a second are too dear to throw away at the end, and long against any
// pipeline effect there.
func (r *runner) trim() (head, tail int) {
	d := r.sess.Depth() - 1
	if r.stepNS > int64(longStep) {
		return d, 0
	}
	return d, d
}

// blockSteps is how many samples a block should give.
func (r *runner) blockSteps(target time.Duration) int {
	least := minBlockSteps
	if r.stepNS > int64(longStep) {
		least = 1
	}
	n := least
	if r.stepNS > 0 {
		n = max(least, int(int64(target)/r.stepNS)+1)
	}
	head, tail := r.trim()
	return max(1, min(n, r.rec.Capacity()-head-tail))
}

// runBlock runs keep samples' worth of steps. When the context ends in the
// middle, the whole steps so far are kept.
func (r *runner) runBlock(pass events.Pass, keep int) (*block, error) {
	head, tail := r.trim()
	n := keep + head + tail
	runtime.GC() // so that none starts inside the block
	if err := r.sess.Main().Sync(); err != nil {
		return nil, fmt.Errorf("waiting for the device before a block: %w", err)
	}
	anchor, slack, err := r.rec.Reset(pass)
	if err != nil {
		return nil, fmt.Errorf("tying the device's clock to the caller's: %w", err)
	}
	r.anchorSlack = max(r.anchorSlack, slack)
	quota, _ := r.machine.Throttled()
	t0 := events.Now()
	done, stepErr := r.steps(n)
	b := &block{pass: pass, interrupted: done < n}
	if err := firstError(stepErr, r.rec.Finish(), r.sess.Main().Sync()); err != nil {
		return nil, err
	}
	t1 := events.Now()
	if q, ok := r.machine.Throttled(); ok {
		b.throttled = q > quota
	}
	if done == 0 {
		return b, nil
	}
	if b.rec, err = r.rec.Drain(anchor); err != nil {
		return nil, err
	}
	b.first, b.last = head, done-tail
	if b.interrupted { // cut short while the pipeline was full: nothing drained yet
		b.last = done - 1
	}
	b.last = max(b.last, b.first)
	// The caller's clock also sees its own wake-up after the last step: less
	// than a millisecond says nothing about the event clock.
	total, clock := b.rec.Begin[done]-b.rec.Begin[0], t1-t0
	if diff := max(total-clock, clock-total); diff > int64(time.Millisecond) && !b.interrupted {
		b.mismatch = float64(diff) / float64(clock)
	}
	return b, nil
}

// steps is the timed loop. It allocates nothing.
func (r *runner) steps(n int) (int, error) {
	for i := range n {
		if r.ctx.Err() != nil {
			return i, nil
		}
		if err := r.sess.Step(r.next, r.rec); err != nil {
			return i, err
		}
		r.next++
	}
	return n, nil
}

// periods are the block's samples in seconds, by the mode's clock.
func (b *block) periods(mode gpuprof.Mode) []float64 {
	var out []float64
	edges := b.edges(mode)
	for i := b.first; i < b.last; i++ {
		out = append(out, sec(edges[i+1]-edges[i]))
	}
	return out
}

// edges are the step borders: device times, or in mode host the caller's.
func (b *block) edges(mode gpuprof.Mode) []int64 {
	if mode != gpuprof.HostClock {
		return b.rec.Begin
	}
	end := b.rec.Begin[len(b.rec.Begin)-1]
	return append(append([]int64(nil), b.rec.HostBegin...), max(end, b.rec.HostBegin[len(b.rec.HostBegin)-1]))
}

func firstError(errs ...error) error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}
