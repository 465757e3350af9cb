package measure

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// takeTurns asks for n turns and notes what each gave.
func takeTurns(n int, each time.Duration, between func()) (next func(Turn) (time.Duration, error), got *[]Turn) {
	got = new([]Turn)
	asked := 0
	return func(last Turn) (time.Duration, error) {
		if asked > 0 {
			*got = append(*got, last)
		}
		if between != nil {
			between()
		}
		if asked++; asked > n {
			return 0, io.EOF
		}
		return each, nil
	}, got
}

// atWork returns the number of other goroutines that run or could run.
func atWork() int {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	n := -1
	for line := range strings.Lines(string(buf)) {
		if strings.HasPrefix(line, "goroutine ") && (strings.Contains(line, "[running") || strings.Contains(line, "[runnable")) {
			n++
		}
	}
	return n
}

// idle waits until no other goroutine is at work: one that has nothing to do
// looks a while longer before it sleeps, one that spins never does.
func idle(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); atWork() > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are at work between turns", atWork())
		}
	}
}

// Turns on every workload and both devices: the samples are the samples of the turns, they add up, counters equal a
// run's, and the device is idle between turns.
func TestTurns(t *testing.T) {
	for _, w := range workloadsByName() {
		for _, kind := range []string{"host", "cuda"} {
			t.Run(w.Name()+","+kind, func(t *testing.T) {
				p := planOf(t, w)
				on := func(measure func(device.Device) (*gpuprof.Run, error)) *gpuprof.Run {
					dev, end := openHost(t), func() {}
					if kind == "cuda" {
						d, lib := simulated(t, true)
						dev, end = quick{d}, func() { closes(t, d, lib) }
					}
					run, err := measure(dev)
					if err != nil || run.Status != gpuprof.Complete {
						t.Fatalf("%v %v", run, err)
					}
					end()
					return run
				}
				whole := on(func(d device.Device) (*gpuprof.Run, error) { return measured(d, p) })
				next, turns := takeTurns(3, time.Microsecond, func() { idle(t) })
				run := on(func(d device.Device) (*gpuprof.Run, error) { return RunTurns(t.Context(), d, p, next) })
				samples, stages, rates := 0, 0, 0
				for _, turn := range *turns {
					if turn.Samples < turnSteps || turn.Stages < turnSteps || turn.Rates < 1 || turn.Seconds <= 0 {
						t.Errorf("a turn gave %+v", turn)
					}
					samples, stages, rates = samples+turn.Samples, stages+turn.Stages, rates+turn.Rates
				}
				if len(*turns) != 3 || run.ProbedStep.N() != stages || run.Step.N() != samples || run.Throughput.Series.N() != rates || len(run.Order) != samples || len(run.Flags) != samples {
					t.Errorf("%v, %d samples, %d rates, %d in order", *turns, run.Step.N(), run.Throughput.Series.N(), len(run.Order))
				}
				addsUp(t, run)
				if diff := cmp.Diff(whole.Counters, run.Counters); diff != "" {
					t.Errorf("counters differ from a run's (-run +turns):\n%s", diff)
				}
				if diff := cmp.Diff(whole.Device.DeviceInfo, run.Device.DeviceInfo); diff != "" || len(run.Checks) == 0 {
					t.Errorf("checks %v, facts differ from a run's (-run +turns):\n%s", run.Checks, diff)
				}
				if run.Ladder != nil || run.Energy != nil || run.BareStep != nil || run.Ceilings != (gpuprof.Ceilings{}) || warned(run, "overhead-unmeasured") {
					t.Errorf("more was measured than turns: %+v", run)
				}
			})
		}
	}
}

// ahead is a fake that works ahead of its caller, by seven steps.
type ahead struct {
	fake
	sess *aheadSession
}

type aheadSession struct {
	workloads.Session
	steps   int
	atPause []int // steps there had been
}

func (a ahead) Open(ctx context.Context, d device.Device, c workloads.Config) (s workloads.Session, err error) {
	a.sess.Session, err = a.fake.Open(ctx, d, c)
	return a.sess, err
}

func (s *aheadSession) Step(i int, p workloads.Probe) error {
	s.steps++
	return s.Session.Step(i, p)
}

func (s *aheadSession) Pause() (int, error) {
	s.atPause = append(s.atPause, s.steps)
	return 7, nil
}

// A session that works ahead of its caller is paused before each turn, and is fully ahead when the turn's samples
// begin.
func TestTurnsOfWhatWorksAhead(t *testing.T) {
	w := ahead{fake{spin: 100 * time.Microsecond}, new(aheadSession)}
	p := w.plan()
	p.Workload = w
	next, turns := takeTurns(3, time.Nanosecond, nil)
	if _, err := RunTurns(t.Context(), openHost(t), p, next); err != nil {
		t.Fatal(err)
	}
	if len(w.sess.atPause) != 4 {
		t.Fatalf("paused %d times for 3 turns", len(w.sess.atPause))
	}
	for i, turn := range *turns {
		ran, depth := w.sess.atPause[i+1]-w.sess.atPause[i], w.sess.Depth()-1
		if ran != 7+turn.Samples+depth+depth+turn.Stages+depth {
			t.Errorf("turn %d ran %d steps for %+v", i, ran, turn)
		}
	}
}

// probes is a workload that notes of each step whether a span of it was recorded.
type probes struct {
	workloads.Workload
	sess *probesSession
}

type probesSession struct {
	workloads.Session
	probed []bool
}

func (f probes) Open(ctx context.Context, d device.Device, c workloads.Config) (s workloads.Session, err error) {
	f.sess.Session, err = f.Workload.Open(ctx, d, c)
	return f.sess, err
}

func (s *probesSession) Step(i int, p workloads.Probe) error {
	s.probed = append(s.probed, false)
	return s.Session.Step(i, notedProbe{p, s})
}

type notedProbe struct {
	workloads.Probe
	s *probesSession
}

func (p notedProbe) Begin(stage int, s device.Stream) int {
	span := p.Probe.Begin(stage, s)
	p.s.probed[len(p.s.probed)-1] = p.s.probed[len(p.s.probed)-1] || span >= 0
	return span
}

// The step's samples are of steps without the stages' probe, on either device, in
// every turn alike; the stages' are of the others.
func TestTurnsKeepTheProbeOutOfTheStep(t *testing.T) {
	for _, kind := range []string{"host", "cuda"} {
		for _, each := range []time.Duration{time.Nanosecond, 20 * time.Millisecond} {
			p := planOf(t, workloadsByName()[0])
			w := probes{p.Workload, new(probesSession)}
			p.Workload = w
			dev, end := openHost(t), func() {}
			if kind == "cuda" {
				d, lib := simulated(t, true)
				dev, end = quick{d}, func() { closes(t, d, lib) }
			}
			var ends []int // steps there had been when a turn was asked for
			next, turns := takeTurns(4, each, func() { ends = append(ends, len(w.sess.probed)) })
			run, err := RunTurns(t.Context(), dev, p, next)
			if err != nil {
				t.Fatal(err)
			}
			end()
			steps, stages := 0, 0
			for i, turn := range *turns {
				ran := w.sess.probed[ends[i]:ends[i+1]]
				bare := slices.Index(ran, true)
				if bare < 0 || slices.Contains(ran[bare:], false) {
					t.Fatalf("%s: the steps of a turn were probed so: %v", kind, ran)
				}
				// A block has steps before its samples and after, the turn's first at least one.
				around := w.sess.Depth() - 1
				if bare != turn.Samples+2*around*turn.Rates+max(0, 1-around) || len(ran)-bare < turn.Stages+2*around || turn.Stages < turnSteps {
					t.Errorf("%s: %d bare steps and %d probed ones gave %+v", kind, bare, len(ran)-bare, turn)
				}
				steps, stages = steps+turn.Samples, stages+turn.Stages
			}
			if run.Step.N() != steps || run.ProbedStep.N() != stages || run.Stages[0].Exposed.N() != stages || len(*turns) != 4 {
				t.Errorf("%s: %d samples of the step, %d of the stages; the turns gave %+v", kind, run.Step.N(), run.ProbedStep.N(), *turns)
			}
			addsUp(t, run)
		}
	}
}

// Workers of every kind go on after a pause.
func TestTurnsOfWorkers(t *testing.T) {
	for _, set := range [][]string{{"workers=2"}, {"workers=2", "persistent=off"}, {"workers=1", "worker_kind=process"}, {"workers=3", "prefetch=64"}} {
		t.Run(strings.Join(set, " "), func(t *testing.T) {
			next, turns := takeTurns(3, time.Nanosecond, func() { idle(t) })
			run, err := RunTurns(t.Context(), openHost(t), planOf(t, workloadsByName()[2], set...), next)
			if err != nil || len(*turns) != 3 || run.Step.N() < 3*turnSteps {
				t.Fatalf("%v %v", *turns, err)
			}
			addsUp(t, run)
		})
	}
}

// A turn of steps without work takes as many blocks as it has time for, and no
// more than give enough samples.
func TestTurnsOfTinySteps(t *testing.T) {
	next, turns := takeTurns(2, time.Hour, nil)
	run, err := RunTurns(t.Context(), openHost(t), fake{}.plan(), next)
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range *turns {
		if turn.Rates < 2 || turn.Samples < enoughInTurn || turn.Samples > enoughInTurn+128 {
			t.Errorf("%+v", turn)
		}
	}
	if blocks := run.Order[len(run.Order)-1].Block + 1; (*turns)[0].Rates+(*turns)[1].Rates != blocks {
		t.Errorf("%d blocks, %+v", blocks, *turns)
	}
}

// The other process of a pair is not foreign; a third one is.
func TestTurnsBesideAPeer(t *testing.T) {
	for others, flagged := range map[int]bool{0: false, 1: false, 2: true} {
		in := newMeters()
		in.foreign = others
		p := fake{spin: 100 * time.Microsecond}.plan()
		p.Instruments = in
		next, _ := takeTurns(2, time.Millisecond, nil)
		run, err := RunTurns(t.Context(), openHost(t), p, next)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(run.Flags[0]) > 0; got != flagged {
			t.Errorf("%d processes on the device: flags %v", others, run.Flags[0])
		}
		if in.started || len(run.Telemetry) > 0 {
			t.Errorf("telemetry ran: %v", run.Telemetry)
		}
		if run.Device.DeviceInfo["power_limit_w"] != "700" {
			t.Errorf("facts %v", run.Device.DeviceInfo)
		}
	}
}

// A turn may be interrupted at any step, the first ones of the first among them.
func TestTurnInterrupted(t *testing.T) {
	for at := 1; at < 16; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		p := fake{spin: 100 * time.Microsecond, cancel: cancel, cancelAt: at}.plan()
		p.Warmup = Warmup{}
		run, err := RunTurns(ctx, openHost(t), p, func(Turn) (time.Duration, error) { return time.Hour, nil })
		if !errors.Is(err, context.Canceled) || run.Status != gpuprof.Partial {
			t.Errorf("at step %d: %v, %+v", at, err, run)
		}
		cancel()
	}
}

// What ends a series of turns early leaves a partial result.
func TestTurnsCutShort(t *testing.T) {
	away := errors.New("the other process is gone")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := fake{spin: 100 * time.Microsecond}.plan()
	for name, tt := range map[string]struct {
		ctx  context.Context
		plan Plan
		end  func() error
		want error
	}{
		"the caller gives up":  {t.Context(), p, func() error { return away }, away},
		"interrupted":          {ctx, p, func() error { cancel(); return ctx.Err() }, context.Canceled},
		"a kernel goes wrong":  {t.Context(), fake{spin: 100 * time.Microsecond, failAt: 40}.plan(), nil, gpuprof.ErrDevice},
		"the check goes wrong": {t.Context(), fake{checks: []gpuprof.Check{{Stage: "first", Tolerance: 1}}}.plan(), nil, gpuprof.ErrCheck},
	} {
		t.Run(name, func(t *testing.T) {
			turns := 0
			run, err := RunTurns(tt.ctx, openHost(t), tt.plan, func(Turn) (time.Duration, error) {
				if turns++; turns > 2 && tt.end != nil {
					return 0, tt.end()
				}
				return time.Millisecond, nil
			})
			if !errors.Is(err, tt.want) || run == nil || run.Status == gpuprof.Complete {
				t.Errorf("%v, status %v", err, run.Status)
			}
		})
	}
}
