package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/probes/machine"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

type runner struct {
	ctx     context.Context
	plan    Plan
	dev     *events.Tracer
	machine machine.Machine
	sess    workloads.Session
	rec     *events.Recorder
	samples *samples
	warm    *samples // steps of the warm-up, until there are samples
	run     *gpuprof.Run
	started time.Time
	startNS int64 // started on the clock of events.Now

	next        int   // step index
	stepNS      int64 // latest estimate of a step
	anchorSlack int64
	example     *block // the last probed block, for the example step
	kernels     *block
	pair        [2]device.Event // for replays of short kernels
	slopes      map[kernelKey]slope
	alone       []gpuprof.Stage // stages of a request in a batch of its own
	aloneS      float64         // their time in seconds, if the session provides it

	cold      bool  // every step begins with the cache cleared
	blocked   bool  // every step begins after a blocking kernel
	apart     bool  // keep stage events out of the timing passes
	quiet     bool  // pause telemetry during timing blocks
	enqueueNS int64 // the caller's time per step, without waits

	nextLook int    // number of samples at which to compute the interval again
	looked   int    // sum of the sample counts of all intervals computed
	lookNote string // the last interval, for the progress

	ladderFor time.Duration // no ladder round starts after this time
	shortFor  time.Duration // no short kernel is replayed after this time
	idleFor   time.Duration // least time to watch the energy counter before steps run
	energyFor time.Duration // and while steps run

	least int           // least samples of a block of short steps
	long  time.Duration // above it, blocks shrink to single steps
	lead  int           // steps that the next block runs before its samples

	behind error // the sender of requests could not keep its schedule
	turns  bool  // the caller of RunTurns decides when blocks run
}

// Run executes a plan on a device that the caller opens and closes. Once the workload is open, the result is not nil.
// If an error ends the run early, the result's status is partial or invalid, and it has the measurements so far.
func Run(ctx context.Context, dev device.Device, plan Plan) (*gpuprof.Run, error) {
	return newRunner(ctx, dev, plan).execute()
}

func (r *runner) execute() (*gpuprof.Run, error) {
	return r.runSession(func() error {
		stop := r.startTelemetry()
		err := r.runPhases(r.checkStages, r.prepareProbes, r.measureCeilings, r.warmUp, r.ladder, r.breakdown, r.sampleSteps, r.serveLoad, r.moreCeilings, r.measureEnergy, r.kernelPass, r.shortPass, r.moreCeilings)
		r.run.Telemetry = stop()
		return err
	})
}

// runSession opens the session, calls measure, and summarises.
func (r *runner) runSession(measure func() error) (*gpuprof.Run, error) {
	defer func() { document.CleanStrings(r.run) }() // names from the driver, /proc or the user may be invalid text
	if err := r.setup(); err != nil {
		return r.run, err
	}
	defer r.sess.Close() // the device's Close reports the same errors
	err := measure()
	r.summarise(err)
	return r.run, errors.Join(err, r.behind)
}

func newRunner(ctx context.Context, dev device.Device, plan Plan) *runner {
	return &runner{
		ctx: ctx, plan: plan, dev: events.NewTracer(dev), machine: machine.This(), started: time.Now(), startNS: events.Now(),
		ladderFor: min(ladderBudget, plan.MaxTime/6), shortFor: min(shortBudget, plan.MaxTime/4),
		idleFor: idleTime, energyFor: energyTime, least: minBlockSteps, long: longStep,
	}
}

func (r *runner) runPhases(list ...func() error) error {
	for _, phase := range list {
		if err := phase(); err != nil {
			return err
		}
		if err := r.ctx.Err(); err != nil {
			return fmt.Errorf("measuring %s: interrupted: %w", r.plan.Workload.Name(), err)
		}
	}
	return nil
}

func (r *runner) setup() error {
	p := r.plan
	p.report("setup", 0, 1, "")
	if r.dev.Info().Kind == "host" && p.Mode == gpuprof.Cold {
		return gpuprof.Errorf(gpuprof.ErrUsage, "running %s in mode cold: the host device cannot clear its caches", p.Workload.Name()).WithFix("use --mode steady, hot or host")
	}
	if p.Mode == gpuprof.Cold && !r.dev.CanFlush() {
		return gpuprof.Errorf(gpuprof.ErrUsage, "running %s in mode cold: device %s has no way to clear its cache", p.Workload.Name(), r.dev.Info().Name).WithFix("use --mode steady, hot or host")
	}
	r.cold = p.Mode == gpuprof.Cold
	sess, err := p.open(r.ctx, r.dev)
	if err != nil {
		// Without any use of the device there is no result; a device that fails later leaves a partial one.
		if r.dev.Touched() && (errors.Is(err, gpuprof.ErrMemory) || errors.Is(err, gpuprof.ErrDevice)) {
			r.beginResult(nil)
			r.run.Status, r.run.Reason = gpuprof.Partial, reasonOf(err)
		}
		return err
	}
	r.sess, r.samples, r.warm = sess, newSamples(sess.Stages()), newSamples(sess.Stages())
	r.beginResult(sess.Input())
	if text := substitutedText(sess); text != "" {
		r.warn("library-failed", text, "repair the library (gpuprof doctor), or turn it off to measure the substitute on purpose: --set library=off")
	}
	return nil
}

// Outline returns the run of a plan before any measurement: workload, settings, and the kind and name of its device.
func Outline(dev device.Info, p Plan) *gpuprof.Run {
	return &gpuprof.Run{
		Status: gpuprof.Complete, Workload: p.Workload.Name(), Preset: p.Preset, Seed: p.Seed, Knobs: p.Knobs, ModelKnobs: modelKnobs(p.Workload),
		Mode: p.Mode, Device: gpuprof.Env{Kind: dev.Kind, Name: document.CleanText(dev.Name)}, Telemetry: map[string]gpuprof.Track{},
		Checks: []gpuprof.Check{}, Stages: []gpuprof.StageResult{}, Counters: map[string]float64{}, Calibration: map[string]float64{},
		Order: []gpuprof.Order{}, Flags: [][]string{}, ExampleStep: []gpuprof.Span{}, Warnings: []gpuprof.Warning{}, Findings: []gpuprof.Finding{},
	}
}

func (r *runner) beginResult(input map[string]any) {
	r.run = Outline(r.dev.Info(), r.plan)
	r.run.Head, r.run.Started = document.NewHead(document.Run, r.plan.Tool), r.started.UTC().Round(time.Millisecond)
	r.run.Device, r.run.Input = r.machine.Environment(r.dev.Info()), input
	if r.run.Input == nil {
		r.run.Input = map[string]any{}
	}
	r.addFacts()
	if r.run.Simulated() {
		r.warn("simulated", "the device is a simulated driver on the CPU, so no time in this result says anything about a GPU", "measure on a GPU; a simulated run cannot be a baseline")
	}
}

func modelKnobs(w workloads.Workload) []string {
	out := []string{}
	for _, k := range w.Knobs() {
		if k.Model {
			out = append(out, k.Name)
		}
	}
	return out
}

// checkStages compares the stages with the reference. Without a passed check nothing is timed.
func (r *runner) checkStages() error {
	r.plan.report("check", 0, 1, "comparing with the float64 reference")
	checks, err := checkOrCached(r.ctx, r.dev, r.sess, r.plan, r.dev.CodeHash())
	r.run.Checks = append(r.run.Checks, checks...)
	return err
}

func (r *runner) prepareProbes() error {
	spans := 1
	for _, s := range r.sess.Stages() {
		spans += 2 * s.MaxSpans
	}
	var err error
	// The number of events limits a block: the more spans a step has, the fewer steps fit.
	capacity := min(128, max(8, 20000/spans))
	if r.rec, err = events.NewRecorder(r.dev, r.sess.Main(), r.sess.Stages(), capacity, r.dev); err != nil {
		return err
	}
	for i := range r.pair {
		if r.pair[i], err = r.dev.NewEvent(); err != nil {
			return fmt.Errorf("making events: %w", err)
		}
	}
	if r.cold {
		// The first flush allocates its memory.
		if err := cmp.Or(r.rec.EndEvents(), r.dev.FlushCache(r.sess.Main()), r.sess.Main().Sync()); err != nil {
			return fmt.Errorf("preparing mode cold: %w", err)
		}
	}
	if r.run.Calibration, err = calibrate(r.dev, r.sess.Main(), r.plan.Instruments); err != nil {
		return err
	}
	return r.calibrateSpans()
}

func (r *runner) measureEnergy() error {
	if r.plan.NoEnergy {
		return nil
	}
	return r.energyPass()
}

// sampleSteps alternates probed and bare blocks, ABBA or BAAB, until the interval is narrow enough or time is spent.
func (r *runner) sampleSteps() error {
	rng := rand.New(rand.NewPCG(r.plan.Seed, 0x6770757072)) // a separate stream, since the workload draws from the seed too
	began := time.Now()
	order := []events.Pass{events.Probed, events.Bare}
	for pair := 0; ; pair++ {
		if pair%2 == 1 || rng.IntN(2) == 1 { // a pair mirrors the one before, which began in a random order
			order[0], order[1] = order[1], order[0]
		}
		sides := order
		switch {
		case r.apart: // breakdown has run the probed blocks
			sides = []events.Pass{events.Bare}
		case r.stepNS > int64(longStep) && pair > 0: // long steps are too expensive to run both kinds of blocks repeatedly
			sides = []events.Pass{events.Probed}
		}
		if err := r.samplePair(sides); err != nil || r.ctx.Err() != nil {
			return err
		}
		r.warm = nil // no longer needed: there are samples
		if r.isDecided(time.Since(began)) {
			return nil
		}
	}
}

func (r *runner) samplePair(sides []events.Pass) error {
	var got [3]*block
	for _, pass := range sides {
		keep, limit := r.blockSteps(blockTarget), math.MaxInt
		if n := r.plan.Samples; n > 0 {
			have := len(r.samples.step)
			if pass == events.Bare && !r.apart {
				have = len(r.samples.bare)
			}
			keep = max(1, min(keep, n-have, (n+minPairs-1)/minPairs))
			limit = max(0, n-have)
		}
		b, err := r.runBlock(pass, keep)
		if b != nil { // completed steps count even if a later one failed
			r.samples.add(b, r.plan.Mode, limit, r.apart)
			got[pass] = b
			if pass == events.Probed && b.rec != nil && b.last > b.first {
				r.example = b
			}
		}
		if err != nil {
			return err
		}
		if r.ctx.Err() != nil {
			return nil
		}
	}
	if got[events.Probed] != nil && got[events.Bare] != nil {
		r.samples.addPair(got[events.Probed], got[events.Bare], r.plan.Mode)
	}
	return nil
}

// breakdownBlocks is the number of blocks in the separate pass of stage events.
const breakdownBlocks = 3

// breakdown times the stages if their events are excluded from the timing passes: at least ten steps, in separate
// blocks. It runs before sampling, so that an interrupted run has stages too.
func (r *runner) breakdown() error {
	if !r.apart {
		return nil
	}
	for i := 0; i < breakdownBlocks || len(r.samples.probed) < minSamples; i++ {
		r.plan.report("stages", float64(i), breakdownBlocks, "")
		b, err := r.runBlock(events.Probed, r.blockSteps(blockTarget))
		if err != nil || r.ctx.Err() != nil {
			return err
		}
		r.samples.add(b, r.plan.Mode, math.MaxInt, true)
		if b.rec != nil && b.last > b.first {
			r.example = b
		}
	}
	return nil
}

func (r *runner) isDecided(spent time.Duration) bool {
	n := len(r.samples.step)
	left := r.plan.MaxTime - time.Since(r.started)
	if want := r.plan.Samples; want > 0 {
		r.plan.report("sample", float64(n), float64(want), "")
		if n >= want {
			return true
		}
		if left > 0 || n < minSamples {
			return false
		}
		r.warn("time-budget", fmt.Sprintf("the time budget ended after %d of %d samples", n, want), "give more time with --max-time")
		return true
	}
	pairs := len(r.samples.probedPairs)
	if n < minSamples || left > 0 && (spent < r.plan.MinTime || !r.apart && pairs < minPairs && r.stepNS < int64(longStep) || n < r.nextLook) {
		r.plan.report("sample", spent.Seconds(), max(r.plan.MinTime, spent+max(left, 0)).Seconds(), fmt.Sprintf("%d samples%s", n, r.lookNote))
		return false
	}
	half, open := r.halfWidth()
	r.nextLook, r.lookNote = n+max(1, n/lookAgain), fmt.Sprintf(", +-%.2f %%", 100*half)
	if half <= halfWidthGoal {
		return left <= 0 || spent > r.plan.MaxTime/2 || !open
	}
	if left > 0 {
		return false
	}
	r.warn("time-budget", fmt.Sprintf("the time budget ended with the step's interval at +-%.1f %%, wider than the goal of +-%.2f %%", 100*half, 100*halfWidthGoal),
		"give more time with --max-time, or stop other programs on the machine")
	return true
}

// halfWidth returns half the width of the confidence interval of the step that would be reported, relative to the
// step. open reports that the probe's overhead may still be above or below its limit; isDecided then samples longer.
func (r *runner) halfWidth() (half float64, open bool) {
	r.looked += len(r.samples.step) + len(r.samples.bare)
	step, limit := r.samples.step, r.run.Device.ProbeLimit()
	if o := r.overhead(); o != nil && !r.apart {
		dear := r.calibratedShare()
		if tooDear(*o, limit, dear) && len(r.samples.bare) >= minSamples {
			step = r.samples.bare
		}
		open = dear > limit && o.CI95[0]-1 <= limit && limit < o.CI95[1]-1
	}
	return stats.HalfWidth(stats.Summarise("s", step)), open
}

func (r *runner) warn(code, text, fix string) {
	r.run.Warnings = append(r.run.Warnings, gpuprof.Warning{Code: code, Text: text, Fix: fix})
}

func reasonOf(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ") // one line each
}
