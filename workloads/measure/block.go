package measure

import (
	"cmp"
	"fmt"
	"runtime"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads"
)

// block is a sequence of steps that begins and ends with an idle device. Its first steps fill the pipeline and its
// last ones drain it; only the periods in [first, last) are samples.
type block struct {
	pass        events.Pass
	rec         *events.Block
	first, last int
	done        int      // finished steps; the recorder may have begun one more
	causes      []string // names of the block's disturbances
	interrupted bool
	mismatch    float64 // |sum of periods - caller's clock| / caller's clock
}

// trimSteps returns how many steps to leave out at the start and end of a block, where the pipeline fills and drains.
// Of long steps it leaves out none at the end: they are too expensive, and the drain is short against them.
func (r *runner) trimSteps() (head, tail int) {
	if r.cold { // every step begins and ends with an idle device
		return 0, 0
	}
	d := r.sess.Depth() - 1
	head = max(d, min(r.lead, r.rec.Capacity()/2))
	if r.stepNS > int64(r.long) {
		return head, 0
	}
	return head, d
}

// blockSteps returns the number of samples for a block that should take the time target.
func (r *runner) blockSteps(target time.Duration) int {
	least := r.least
	if r.stepNS > int64(r.long) {
		least = 1
	}
	n := least
	if r.stepNS > 0 {
		n = max(least, int(int64(target)/r.stepNS)+1)
	}
	head, tail := r.trimSteps()
	return max(1, min(n, r.rec.Capacity()-head-tail))
}

// runBlock runs a block of steps; keep is the number of its samples. If the context ends or a step fails, it returns
// the completed steps, with the step's error. It returns no block only if the device has failed too.
func (r *runner) runBlock(pass events.Pass, keep int) (*block, error) {
	head, tail := r.trimSteps()
	n := keep + head + tail
	runtime.GC() // so that no collection starts inside the block
	if err := r.sess.Main().Sync(); err != nil {
		return nil, fmt.Errorf("waiting for the device before a block: %w", err)
	}
	anchor, slack, err := r.rec.Reset(pass)
	if err != nil {
		return nil, fmt.Errorf("synchronizing the device's clock with the host's: %w", err)
	}
	r.anchorSlack = max(r.anchorSlack, slack)
	before := r.disturbances()
	if r.quiet {
		r.telemetryOn(false)
		defer r.telemetryOn(true)
	}
	t0 := events.Now()
	done, stepErr := r.runSteps(n)
	b := &block{pass: pass, done: done, interrupted: done < n}
	if err := cmp.Or(workloads.Join(r.sess), r.rec.Finish(), r.sess.Main().Sync()); err != nil {
		return nil, cmp.Or(stepErr, err)
	}
	t1 := events.Now()
	b.causes = r.disturbances().since(before)
	if done == 0 {
		return b, stepErr
	}
	if b.rec, err = r.rec.Drain(anchor); err != nil {
		return nil, cmp.Or(stepErr, err)
	}
	b.first, b.last = head, done-tail
	if b.interrupted { // interrupted while the pipeline was full: nothing has drained yet
		b.last = done - 1
	}
	b.last = max(b.last, b.first)
	// The host clock includes the caller's wake-up, so below a millisecond a difference proves nothing.
	total, clock := b.rec.Begin[done]-b.rec.Begin[0], t1-t0
	if diff := max(total-clock, clock-total); diff > int64(time.Millisecond) && !b.interrupted {
		b.mismatch = float64(diff) / float64(clock)
	}
	return b, stepErr
}

// runSteps is the timed loop; it must not allocate.
func (r *runner) runSteps(n int) (int, error) {
	for i := range n {
		if r.ctx.Err() != nil {
			return i, nil
		}
		if r.cold || r.blocked {
			if err := r.prepareStep(); err != nil {
				return i, err
			}
		}
		if err := r.sess.Step(r.next, r.rec); err != nil {
			return i, err
		}
		if r.cold {
			if err := r.settleStep(); err != nil {
				return i, err
			}
		}
		r.next++
	}
	return n, nil
}

// prepareStep enqueues work before a step on the main stream. In mode cold this is the kernel that clears the cache.
// For blocked steps it is a kernel that spins for as long as the caller takes to enqueue the step. The step's launches
// queue up behind this kernel, so the device runs them without waiting for the caller.
//
// Steps of mode cold are blocked, because each begins on an idle device and would otherwise measure the caller. Steps
// of the kernel pass are blocked too, because it measures kernels alone. In modes steady, hot and host the caller's
// pace is part of a step and appears as launch and gap.
func (r *runner) prepareStep() error {
	main := r.sess.Main()
	if r.cold {
		if err := r.dev.FlushCache(main); err != nil {
			return fmt.Errorf("clearing the cache before a step: %w", err)
		}
	}
	if r.enqueueNS == 0 || !r.dev.CanSpin() {
		return nil
	}
	return r.dev.Spin(main, min(int64(blockSlack*float64(r.enqueueNS))+blockNS, longestBlockNS))
}

// settleStep ends a step of mode cold and waits, so that the next step begins with an idle device.
func (r *runner) settleStep() error {
	return cmp.Or(workloads.Join(r.sess), r.rec.EndStep(), r.sess.Main().Sync())
}

// enqueueTime returns the caller's median nanoseconds per step of a probed block, without waits.
func (b *block) enqueueTime(stages []gpuprof.Stage) int64 {
	sums := make([]float64, len(b.rec.Begin)-1)
	for _, sp := range b.rec.Spans {
		if stages[sp.Stage].Kind != gpuprof.WaitStage {
			sums[sp.Step] += float64(sp.HostEnd - sp.HostStart)
		}
	}
	return int64(stats.Median(sums))
}

// periods returns the block's samples in seconds, by the clock that the mode uses.
func (b *block) periods(mode gpuprof.Mode) []float64 {
	var out []float64
	edges, stride := b.stepEdges(mode)
	for i := b.first; i < b.last; i++ {
		out = append(out, gpuprof.Seconds(edges[i*stride+1]-edges[i*stride]))
	}
	return out
}

// stepEdges returns the step boundaries in nanoseconds, device times or in mode host the caller's. Step i begins at
// edge i*stride. stride is 1, but 2 in mode cold, where the time between two steps belongs to no step.
func (b *block) stepEdges(mode gpuprof.Mode) (at []int64, stride int) {
	if mode == gpuprof.Cold {
		for i, end := range b.rec.Ends {
			at = append(at, b.rec.Begin[i], end)
		}
		return at, 2
	}
	return b.stepBorders(mode), 1
}

func (b *block) stepBorders(mode gpuprof.Mode) []int64 {
	if mode != gpuprof.HostClock {
		return b.rec.Begin
	}
	end := b.rec.Begin[len(b.rec.Begin)-1]
	return append(append([]int64(nil), b.rec.HostBegin...), max(end, b.rec.HostBegin[len(b.rec.HostBegin)-1]))
}
