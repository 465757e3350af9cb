package run

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// deviceTurn is the process that measures one device, with its turns (short times of measuring) in order.
type deviceTurn struct {
	*judge.TurnProcess
	device   string
	turns    []measure.Turn
	together []bool // by turn: whether all devices measured at the same time
	err      error
	run      *gpuprof.Run
}

// deviceTurns measures every device in a process of its own.
func (s *session) deviceTurns(kinds []cli.Device) ([]fleet.DeviceRun, error) {
	exe, err := cli.OwnProgram()
	if err != nil {
		return nil, err
	}
	run, done := judge.NewChildren(s.app)
	defer done()
	run.Devices = true
	var sides []judge.Side
	for _, kind := range kinds {
		r := s.processRun(0)
		r.Device = kind.Name
		args := append([]string{exe}, r.SettingArgs()...)
		sides = append(sides, judge.Side{Name: kind.Name, Turns: append(args, "--warmup", s.Warmup, "--quiet", judge.OwnDeviceFlag, judge.TurnsFlag)})
	}
	return s.takeRounds(run, sides, func() <-chan time.Time { return time.After(max(s.MaxTime, judge.LeastPatience)) })
}

// takeRounds starts the processes of all devices, and lets them measure in rounds. In a round, all devices measure one
// turn at the same time, and then each measures one turn alone. Every second round has the reversed order, so that
// drift of the machine cancels. A device that fails has an error in its result; takeRounds itself fails only if it is
// interrupted.
func (s *session) takeRounds(run judge.Children, sides []judge.Side, patience func() <-chan time.Time) ([]fleet.DeviceRun, error) {
	var all []*deviceTurn
	defer func() {
		for _, d := range all {
			if d.TurnProcess != nil {
				d.Stop()
			}
		}
	}()
	for _, side := range sides {
		d := &deviceTurn{device: side.Name}
		d.TurnProcess, d.err = run.StartTurns(side, patience)
		all = append(all, d)
	}
	bar := s.app.NewProgress(s.aim.Workload.Name())
	defer bar.Close()
	bar.Show(measure.Progress{Phase: "check and warm-up", Total: 1})
	forEachDevice(listAlive(all), func(d *deviceTurn) error {
		_, err := d.Ready()
		return err
	})
	s.measureRounds(listAlive(all), bar.Show)
	bar.Show(measure.Progress{Phase: "results", Done: 1, Total: 1})
	if s.app.Ctx.Err() == nil {
		forEachDevice(listAlive(all), func(d *deviceTurn) (err error) {
			d.run, err = d.Result(judge.TurnsEnd)
			return err
		})
	}
	if s.app.Ctx.Err() != nil {
		return nil, gpuprof.Errorf(nil, "measuring %s on %d devices: %w", s.aim.Workload.Name(), len(sides), cli.ErrInterrupted).WithFix("run it again: no round of an interrupted measurement is kept")
	}
	rounds := judge.MostTurns // rounds that all devices finished, in case one failed
	for _, d := range listAlive(all) {
		rounds = min(rounds, len(d.turns)/2-judge.WarmTurns)
	}
	var out []fleet.DeviceRun
	for _, d := range all {
		out = append(out, d.splitTurns(rounds))
	}
	return out, nil
}

// forEachDevice calls do for all devices concurrently, and stores the errors.
func forEachDevice(devices []*deviceTurn, do func(*deviceTurn) error) {
	var all sync.WaitGroup
	for _, d := range devices {
		all.Go(func() { d.err = do(d) })
	}
	all.Wait()
}

func listAlive(all []*deviceTurn) []*deviceTurn {
	return slices.DeleteFunc(slices.Clone(all), func(d *deviceTurn) bool { return d.err != nil })
}

func (d *deviceTurn) takeTurn(length time.Duration, together bool) error {
	t, err := d.Turn(length)
	if err == nil {
		d.turns, d.together = append(d.turns, t), append(d.together, together)
	}
	return err
}

// measureRounds measures rounds until there are enough or a device fails. The first judge.WarmTurns rounds only warm
// up.
func (s *session) measureRounds(devices []*deviceTurn, show func(measure.Progress)) {
	if len(devices) < 2 {
		return
	}
	began, length := time.Now(), judge.TurnTime
	togetherFirst := stats.MirroredOrder(judge.WarmTurns+judge.MostTurns, s.Seed)
	for round := 0; !s.enoughRounds(devices[0], time.Since(began)); round++ {
		show(measure.Progress{Phase: fmt.Sprint("round ", round+1), Done: min(time.Since(began).Seconds(), s.MaxTime.Seconds()), Total: s.MaxTime.Seconds()})
		parts := []func(){
			func() { forEachDevice(devices, func(d *deviceTurn) error { return d.takeTurn(length, true) }) },
			func() {
				for k := range devices {
					d := devices[(k+round)%len(devices)]
					if d.err = d.takeTurn(length, false); d.err != nil {
						return
					}
				}
			},
		}
		if !togetherFirst[round%len(togetherFirst)] {
			slices.Reverse(parts)
		}
		for _, part := range parts {
			if part(); len(listAlive(devices)) < len(devices) || s.app.Ctx.Err() != nil {
				return
			}
		}
		if round < judge.WarmTurns {
			// Make turns as long as the longest one so far. Otherwise a device with short steps would end its turn
			// early, and the others would measure without it.
			for _, d := range devices {
				for _, t := range d.turns {
					length = max(length, time.Duration(t.Seconds*float64(time.Second)))
				}
			}
		}
	}
}

// enoughRounds reports whether the rounds may end: the requested number is reached, or the time limit, or both the
// least time and the number that a confidence interval needs.
func (s *session) enoughRounds(d *deviceTurn, spent time.Duration) bool {
	n, seconds := len(d.turns)/2-judge.WarmTurns, 0.0
	if s.Samples > 0 {
		return n >= s.Samples
	}
	if n >= 2 && spent >= s.MaxTime {
		return true
	}
	for i := 2 * judge.WarmTurns; i < len(d.turns); i++ {
		if d.together[i] {
			seconds += d.turns[i].Seconds
		}
	}
	return n >= judge.LeastTurns && n%2 == 0 && (n >= judge.MostTurns || seconds >= s.MinTime.Seconds())
}

// splitTurns returns a device's result from the given number of rounds: a run with the turns of all devices together,
// and one with the turns alone.
func (d *deviceTurn) splitTurns(rounds int) fleet.DeviceRun {
	out := fleet.DeviceRun{Device: d.device, Failed: d.failureOf()}
	if out.Failed != nil {
		return out
	}
	if rounds < 1 {
		out.Failed = errors.New("it was not measured, since another device failed; leave that one out")
		return out
	}
	run, err := judge.PerTurn(d.run, d.turns, 2*judge.WarmTurns)
	if err != nil {
		out.Failed = err
		return out
	}
	var kinds [2][]int // indexes of the turns together, and of the turns alone
	for i, t := range d.turns[2*judge.WarmTurns:][:2*rounds] {
		kind := 1
		if d.together[2*judge.WarmTurns+i] {
			kind = 0
			out.TurnS = append(out.TurnS, t.Seconds)
		}
		kinds[kind] = append(kinds[kind], i)
		out.Clocks[kind] = append(out.Clocks[kind], t.ClockHz)
	}
	out.Run, out.Alone = someTurns(run, kinds[0]), someTurns(run, kinds[1])
	return out
}

// failureOf returns why a device failed, including the last message of its process; nil if it did not fail.
func (d *deviceTurn) failureOf() error {
	if dead, ok := errors.AsType[*judge.DeadError](d.err); ok && d.TurnProcess != nil && dead != nil {
		return cli.ProcessError(d.TurnProcess.Err, cmp.Or(d.Proc.Words(), d.err.Error()))
	}
	return d.err
}

// someTurns returns a run with only the given turns of run, which has one sample per turn.
func someTurns(run *gpuprof.Run, turns []int) *gpuprof.Run {
	some := func(s *gpuprof.Series) *gpuprof.Series {
		all, values := slices.Concat(s.Runs...), []float64(nil)
		for _, i := range turns {
			values = append(values, all[i])
		}
		return stats.Summarise(s.Unit, values)
	}
	out := *run
	out.Step, out.Throughput = some(run.Step), &gpuprof.Throughput{Unit: run.Throughput.Unit, Series: some(run.Throughput.Series)}
	out.Stages, out.Order, out.Flags = nil, nil, nil
	for _, st := range run.Stages {
		st.Exposed = some(st.Exposed)
		out.Stages = append(out.Stages, st)
	}
	for _, i := range turns {
		out.Order, out.Flags = append(out.Order, run.Order[i]), append(out.Flags, run.Flags[i])
	}
	return &out
}
