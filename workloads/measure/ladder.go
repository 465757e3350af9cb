package measure

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads"
)

// The ladder measures what each probe costs. It runs the same steps with more and more probes (rungs), in blocks of
// random order. By the host clock it compares each rung with the one that has the same probes except the newest.
const (
	ladderRounds      = 8
	ladderLeastRounds = 3 // for an interval
	ladderBlock       = 40 * time.Millisecond
	ladderLeastSteps  = 2
	ladderBudget      = 4 * time.Second
)

// Names of probes in the result.
const (
	probeNone      = "nothing"
	probeSteps     = "step events"
	probeStages    = "stage events"
	probeKernels   = "kernel events"
	probeTelemetry = "telemetry"
)

type rung struct {
	probe, over string
	pass        events.Pass
	telemetry   bool
}

func (r *runner) rungs() []rung {
	list := []rung{
		{probeNone, "", events.Nothing, false},
		{probeSteps, probeNone, events.Bare, false},
		{probeStages, probeSteps, events.Probed, false},
		{probeKernels, probeStages, events.Kernels, false},
	}
	if r.plan.Instruments != nil { // without kernel events, which no timing block has
		list = append(list, rung{probeTelemetry, probeStages, events.Probed, true})
	}
	return list
}

// ladder measures the cost of each probe on a GPU, and excludes from the timing passes probes that may exceed the
// limit. On the host device pairs of blocks measure the overhead, as its probe only reads a clock.
func (r *runner) ladder() error {
	if r.run.Device.Kind != "cuda" {
		return nil
	}
	cold := r.cold
	r.cold = false // a flush in each step would hide the cost
	defer func() { r.cold = cold }()
	defer r.telemetryOn(true)
	list := r.rungs()
	times := map[string][]float64{}
	rng := rand.New(rand.NewPCG(r.plan.Seed, 0x6c6164646572))
	began := time.Now()
	for round := 0; round < ladderRounds && (round == 0 || time.Since(began) < r.ladderFor); round++ {
		r.plan.report("ladder", float64(round), ladderRounds, "")
		for _, i := range rng.Perm(len(list)) {
			t, err := r.timeRung(list[i])
			if err != nil || r.ctx.Err() != nil {
				return err
			}
			times[list[i].probe] = append(times[list[i].probe], t)
		}
	}
	r.judgeRungs(list, times)
	return nil
}

// judgeRungs turns the times into ratios and decides which probes to exclude.
func (r *runner) judgeRungs(list []rung, times map[string][]float64) {
	limit := r.run.Device.ProbeLimit()
	for _, g := range list[1:] {
		with, without := times[g.probe], times[g.over]
		ratios := make([]float64, len(with))
		for i := range with {
			ratios[i] = with[i] / without[i]
		}
		ratio, ok := stats.MeanRatio(ratios)
		if !ok || len(ratios) < ladderLeastRounds {
			r.warn("ladder-unmeasured", "there was too little time to measure the cost of each probe", "give more time with --max-time")
			r.run.Ladder = nil
			return
		}
		out := gpuprof.Rung{Probe: g.probe, Over: g.over, Ratio: ratio, Apart: tooDear(ratio, limit, math.Inf(1))}
		if g.probe == probeSteps { // without step events there is no device time
			out.Apart = false
		}
		r.run.Ladder = append(r.run.Ladder, out)
		cost := fmt.Sprintf("cost %.2f %% to %.2f %% of a step, and the limit is %.1f %%", 100*(ratio.CI95[0]-1), 100*(ratio.CI95[1]-1), 100*limit)
		switch {
		case !out.Apart:
		case g.probe == probeStages:
			r.apart = true
			r.warnApart("stage events may " + cost)
		case g.probe == probeTelemetry:
			r.quiet = true
			r.warn("telemetry-apart", "telemetry may "+cost+", so it was paused while blocks were timed", "only readings inside those blocks are lost; cumulative counters cover them")
		}
	}
}

// stageRung returns the cost of stage events that the ladder measured, as the ratio of steps with them to steps
// without; nil if it measured none.
func (r *runner) stageRung() *gpuprof.Ratio {
	for i := range r.run.Ladder {
		if g := &r.run.Ladder[i]; g.Probe == probeStages {
			return &g.Ratio
		}
	}
	return nil
}

func (r *runner) telemetryOn(on bool) {
	in := r.plan.Instruments
	switch {
	case in == nil:
	case on:
		in.Resume()
	default:
		in.Pause()
	}
}

// timeRung runs a block of steps with the probes of a rung, and returns the caller's seconds per step.
func (r *runner) timeRung(g rung) (float64, error) {
	n := ladderLeastSteps
	if r.stepNS > 0 {
		n = max(n, int(int64(ladderBlock)/r.stepNS))
	}
	n = min(n, r.rec.Capacity())
	if g.pass == events.Kernels {
		if err := r.dev.Enable(r.maxLaunches() * n); err != nil {
			return 0, err
		}
		defer r.dev.Disable()
	}
	r.telemetryOn(g.telemetry)
	runtime.GC()
	if err := r.sess.Main().Sync(); err != nil {
		return 0, fmt.Errorf("waiting for the device before a block: %w", err)
	}
	if _, _, err := r.rec.Reset(g.pass); err != nil {
		return 0, fmt.Errorf("synchronizing the device's clock with the host's: %w", err)
	}
	t0 := events.Now()
	done, err := r.runSteps(n)
	if err := cmp.Or(err, workloads.Join(r.sess), r.rec.Finish(), r.sess.Main().Sync()); err != nil {
		return 0, err
	}
	return gpuprof.Seconds(events.Now()-t0) / float64(max(done, 1)), nil
}

// maxLaunches returns an upper bound of the launches and copies of one step.
func (r *runner) maxLaunches() int {
	n := 8 // copies that the stages do not list
	for _, s := range r.sess.Stages() {
		n += len(s.Parts) + s.MaxSpans
	}
	return n
}
