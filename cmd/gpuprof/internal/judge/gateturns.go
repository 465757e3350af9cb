package judge

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// Limits of turns, in which two running processes measure alternately. A turn is short, so that a disturbance of a
// shared machine lasts longer than two turns and slows both processes alike.
const (
	TurnTime    = 40 * time.Millisecond
	warmingTime = 200 * time.Millisecond // warm-up of each process by itself
	WarmTurns   = 2                      // turns of each process that only warm up, and give no samples
	LeastTurns  = 10
	MostTurns   = 400

	// LeastPatience is the shortest time limit for a process's answer, even with a small budget: before its first
	// answer a process checks its workload.
	LeastPatience = 2 * time.Minute
)

// turnPairs is the BlockSource of gpuprof's own workloads. In a block, one process of each build runs, and the two
// measure alternately, in turns. Builds that cannot take turns are measured one process after the other.
type turnPairs struct {
	run      Children
	sides    [2]Side
	minTime  time.Duration           // least total time of one process's turns in a block
	patience func() <-chan time.Time // time limit for one answer
	apart    BlockSource             // runs the sides' processes one after the other
	warn     func(gpuprof.Warning)   // called once
	seed     uint64                  // seed of the order of turns
	begun    uint64                  // blocks begun
	over     bool                    // these builds cannot take turns: use apart
	rate     float64                 // request rate of a load, 1/s, from the first process
}

// Source returns a BlockSource for two sides; seed chooses the random order of turns.
func (c *Builds) Source(run Children, sides [2]Side, seed uint64) BlockSource {
	began := time.Now()
	apart := &ProcessPairs{Run: run, Sides: sides, Budget: c.Budget}
	apart.Patience = func() time.Duration { return LimitOf(run.App, c.Budget, time.Since(began), apart.Longest) }
	if sides[0].Turns == nil {
		return apart
	}
	return &turnPairs{
		run: run, sides: sides, minTime: c.MinTime, apart: apart, seed: seed,
		patience: func() <-chan time.Time { return time.After(max(c.Budget, LeastPatience)) },
		warn:     func(w gpuprof.Warning) { c.Warnings = append(c.Warnings, w) },
	}
}

func (t *turnPairs) block(bFirst bool) (compare.Block, error) {
	if t.over {
		return t.apart.block(bFirst)
	}
	b, err := t.measurePair(bFirst)
	t.begun++
	cannot, ok := errors.AsType[*turnsError](err)
	if !ok || t.begun > 1 {
		return b, err
	}
	t.over = true
	// If apart fails too, its error has the cause.
	if b, err = t.apart.block(bFirst); err == nil {
		t.warn(cannot.Warning)
	}
	return b, err
}

// turnsError is the error if the two processes cannot take turns. Measuring them one after the other may still work.
type turnsError struct {
	gpuprof.Warning
	cause error
}

func (e *turnsError) Error() string { return e.cause.Error() }
func (e *turnsError) Unwrap() error { return e.cause }

func (t *turnPairs) measurePair(bFirst bool) (compare.Block, error) {
	b := compare.Block{BFirst: bFirst, Aligned: true}
	var pair [2]*TurnProcess
	defer func() {
		for _, p := range pair {
			if p != nil {
				p.Stop()
			}
		}
	}()
	for k, i := range FirstTo(bFirst) {
		var err error
		if pair[i], err = t.run.StartTurns(t.sides[i], t.patience); err != nil {
			return b, err
		}
		if err := t.awaitReady(pair[i], k == 1); err != nil {
			return b, err
		}
	}
	turns, err := t.takeTurns(pair, bFirst)
	if err != nil {
		return b, err
	}
	var results [2]*compare.Result
	serve := pair[0].serves && pair[1].serves
	for _, i := range FirstTo(bFirst) { // each load runs while the other process is idle
		p := pair[i]
		run, err := p.Result(t.lastQuestion(serve))
		if err != nil {
			return b, err
		}
		if q := run.Requests; q != nil && t.rate == 0 {
			t.rate = q.Rate
		}
		if run, err = PerTurn(run, turns[i], WarmTurns); err != nil {
			return b, gpuprof.Errorf(gpuprof.ErrInput, "measuring %s: %w", p.name, err).WithFix("run %s by itself to see the failure", p.Proc.Path)
		}
		if results[i], err = compare.FromRun(run); err != nil {
			return b, err
		}
		results[i].Source = p.name
	}
	b.A, b.B = results[0], results[1]
	return b, nil
}

// lastQuestion returns the line that ends a process's turns. If both sides serve requests, the line asks for a load at
// the rate of the first process. A rate proportional to each side's own throughput would hide that a build is slower.
func (t *turnPairs) lastQuestion(serve bool) string {
	if !serve {
		return TurnsEnd
	}
	return fmt.Sprintf("%s %s %s %s", TurnsLoad, strconv.FormatFloat(t.rate, 'g', -1, 64), t.minTime, 4*t.minTime)
}

// FirstTo returns the order in which the sides run: 0 is the old side, 1 the new one. bFirst puts the new side first.
func FirstTo(bFirst bool) [2]int {
	if bFirst {
		return [2]int{1, 0}
	}
	return [2]int{0, 1}
}

// awaitReady waits until a process can take turns; *turnsError if it cannot. second reports that the other side's
// process is running already.
func (t *turnPairs) awaitReady(p *TurnProcess, second bool) error {
	protocol, err := p.Ready()
	dead, _ := errors.AsType[*DeadError](err)
	var why, fix string
	switch {
	case err == nil && protocol == TurnsProtocol:
		return nil
	case err == nil || dead != nil && dead.exitCode() == cli.ExitUsage:
		why, fix = "cannot take turns with another process", "give --against a newer revision"
	case second && dead != nil && dead.exitCode() == cli.ExitFailed:
		why, fix = "could not start beside the other side's process ("+strings.TrimPrefix(cli.SentenceOf(p.Proc.Words()), "gpuprof: ")+")", "leave room on the device for two processes"
	default:
		return err
	}
	return &turnsError{gpuprof.Warning{
		Code: "no-turns", Fix: fix,
		Text: fmt.Sprintf("%s %s, so the sides were measured one process after the other, and a shared machine changes more between them", p.name, why),
	}, errors.Join(err, fmt.Errorf("measuring %s: it %s", p.name, why))}
}

// takeTurns lets the two processes measure alternately. Every second pair of turns has the reversed order, so that
// drift cancels. It returns the turns by side; the first WarmTurns of each side are warm-up.
func (t *turnPairs) takeTurns(pair [2]*TurnProcess, bFirst bool) (out [2][]measure.Turn, err error) {
	order := stats.MirroredOrder(WarmTurns+MostTurns, t.seed+t.begun)
	for !t.hasEnough(out) {
		for _, i := range FirstTo(bFirst != order[len(out[0])]) {
			turn, err := pair[i].Turn(TurnTime)
			if err != nil {
				return out, err
			}
			out[i] = append(out[i], turn)
		}
	}
	return out, nil
}

// hasEnough reports whether a block may end: the number of turns is even, it suffices for a confidence interval, and
// the turns reached the least time or the largest number. The number alone does not suffice, because a turn takes long
// on a busy machine.
func (t *turnPairs) hasEnough(out [2][]measure.Turn) bool {
	n, seconds := len(out[0])-WarmTurns, 0.0
	if n < LeastTurns || n%2 == 1 {
		return false
	}
	for _, side := range out {
		for _, turn := range side[WarmTurns:] {
			seconds += turn.Seconds
		}
	}
	return n >= MostTurns || seconds >= 2*t.minTime.Seconds()
}

// PerTurn replaces the samples of each turn by their median, and drops the first skip turns. Samples of equal index
// then come from neighbouring turns of both sides.
func PerTurn(run *gpuprof.Run, turns []measure.Turn, skip int) (*gpuprof.Run, error) {
	samples, stages, rates := 0, 0, 0
	for _, t := range turns {
		samples, stages, rates = samples+t.Samples, stages+t.Stages, rates+t.Rates
	}
	if run.Step.N() != samples || run.Throughput == nil || run.Throughput.Series.N() != rates || len(run.Order) != samples || len(run.Flags) != samples {
		return nil, fmt.Errorf("its result does not hold the %d samples of its %d turns", samples, len(turns))
	}
	out := *run
	out.Step, out.BareStep, out.ProbedStep, out.EnergyStep, out.Stages = turnMedians(run.Step, turns, skip, samplesOf), nil, nil, nil, nil
	out.Throughput = &gpuprof.Throughput{Unit: run.Throughput.Unit, Series: turnMedians(run.Throughput.Series, turns, skip, ratesOf)}
	for _, s := range run.Stages {
		if s.Parent != "step" || s.Exposed.N() != stages {
			continue
		}
		s.Device, s.Host, s.Exposed = nil, nil, turnMedians(s.Exposed, turns, skip, stagesOf)
		out.Stages = append(out.Stages, s)
	}
	out.Order, out.Flags = nil, nil
	at := 0
	for i, t := range turns {
		if i >= skip {
			o := run.Order[at]
			o.Block = i - skip
			out.Order = append(out.Order, o)
			flags := slices.Concat(run.Flags[at : at+t.Samples]...)
			slices.Sort(flags)
			out.Flags = append(out.Flags, slices.Compact(flags))
		}
		at += t.Samples
	}
	return &out, nil
}

func samplesOf(t measure.Turn) int { return t.Samples }
func stagesOf(t measure.Turn) int  { return t.Stages }
func ratesOf(t measure.Turn) int   { return t.Rates }

// turnMedians returns a process's series as one median per turn, without the first skip turns. count returns how many
// samples of s belong to a turn.
func turnMedians(s *gpuprof.Series, turns []measure.Turn, skip int, count func(measure.Turn) int) *gpuprof.Series {
	all, out := slices.Concat(s.Runs...), []float64(nil)
	for i, t := range turns {
		n := count(t)
		if i >= skip {
			out = append(out, stats.Median(all[:n]))
		}
		all = all[n:]
	}
	return &gpuprof.Series{Unit: s.Unit, Runs: [][]float64{out}}
}
