package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// fakeTurns is a program that takes turns as a gpuprof does, with figures from a
// file. $1 says after how many lines it does what $2 says instead. It notes each
// line it reads, and it and a program that it starts hold a pipe open while they
// live.
const fakeTurns = `#!/bin/sh
name=$1 at=$2 do=$3
cd "$(dirname "$0")"
exec 9>alive
sleep 1000 </dev/null >/dev/null 2>&1 &
bad() {
	case $do in
	dies) echo "gpuprof: the device is lost" >&2; exit 7 ;;
	refuses) echo "gpuprof: gpuprof run has no flag" >&2; exit 2 ;;
	full) echo "gpuprof: no memory is left" >&2; exit 4 ;;
	leaves) exit 0 ;;
	garbles) echo "BenchmarkA 100 1000 ns/op" ;;
	newer) echo '{"ready":99}' ;;
	older) echo '{"ready":1}' ;;
	empties) echo '{"turn":{"samples":0,"stages":0,"rates":0,"seconds":1}}' ;;
	hangs) read x <never ;;
	stays) trap "" TERM; while :; do read x <never; done ;;
	esac
}
if [ $at = 0 ]; then bad; elif [ $do = serves ]; then echo '{"ready":2,"serves":true}'; else echo '{"ready":2}'; fi
i=0
while read line; do
	i=$((i + 1))
	echo "$name $line" >>log
	if [ $i = $at ]; then bad; continue; fi
	case $line in end|serve*) cat "$name.json"; continue ;; esac
	echo '{"turn":{"samples":2,"stages":1,"rates":1,"seconds":0.5}}'
done
`

const fakeBlocks = warmTurns + leastTurns // turns of a block that take 0.5 s where 1 s is asked for

// figures is the result of a process: two samples of the step a turn, and one of the
// stage, which are times[turn].
func figures(times []float64) *gpuprof.Run {
	run := &gpuprof.Run{
		Head: document.NewHead(document.Run, wired.tables().tool), Status: gpuprof.Complete, Workload: "fake", Preset: "small", Mode: gpuprof.Steady,
		Device: gpuprof.Env{Kind: "host", Name: "fake"}, Counters: map[string]float64{"launches": 3},
	}
	var step, rates []float64
	for i, t := range times {
		step = append(step, t, t)
		rates = append(rates, 1/t)
		for k := range 2 {
			run.Order = append(run.Order, gpuprof.Order{Block: i, StartS: float64(2*i + k)})
			run.Flags = append(run.Flags, nil)
		}
	}
	series := func(x []float64) *gpuprof.Series { return &gpuprof.Series{Unit: "s", Runs: [][]float64{x}} }
	run.Step, run.Throughput = series(step), &gpuprof.Throughput{Unit: "x/s", Series: series(rates)}
	run.Stages = []gpuprof.StageResult{{Name: "all", Parent: "step", Exposed: series(times), Device: series(times)}}
	return run
}

// fakePair is a source of blocks of two such programs, which do as old and now
// say, "0 dies" for example.
type fakePair struct {
	*turnPairs
	dir      string
	cancel   func()
	warnings []gpuprof.Warning
	apart    int // blocks measured the other way
	requests *gpuprof.Requests
}

func (f *fakePair) block(bool) (compare.Block, error) {
	f.apart++
	return compare.Block{A: &compare.Result{}, B: &compare.Result{}}, nil
}

func newFakePair(t *testing.T, old, now string) *fakePair {
	t.Helper()
	dir := t.TempDir()
	f := &fakePair{dir: dir}
	for _, name := range []string{"alive", "never"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Whoever holds the pipe lives: it ends when all that was started has.
	alive, err := os.OpenFile(filepath.Join(dir, "alive"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nobodyLives(t, alive) })
	program := filepath.Join(dir, "fake")
	if err := os.WriteFile(program, []byte(fakeTurns), 0o755); err != nil {
		t.Fatal(err)
	}
	f.figures(t, slices.Repeat([]float64{1}, fakeBlocks), slices.Repeat([]float64{1}, fakeBlocks))
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(t.Context())
	f.turnPairs = &turnPairs{
		run: children{app: &app{tables: wired.tables(), ctx: ctx, stderr: io.Discard}}, minTime: time.Second, apart: f,
		patience: func() <-chan time.Time { return nil },
		warn:     func(w gpuprof.Warning) { f.warnings = append(f.warnings, w) },
	}
	for i, what := range []string{old, now} {
		name := []string{"old", "new"}[i]
		f.sides[i] = side{name: name, dir: dir, turns: append([]string{program, name}, strings.Fields(what)...)}
	}
	return f
}

// nobodyLives waits for the end of the pipe that all processes hold.
func nobodyLives(t *testing.T, alive *os.File) {
	t.Helper()
	defer alive.Close()
	if err := alive.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, alive); err != nil {
		t.Errorf("a process is left: %v", err)
	}
}

// figures are what each side's process measures in each turn of a block.
func (f *fakePair) figures(t *testing.T, old, now []float64) {
	t.Helper()
	for name, times := range map[string][]float64{"old": old, "new": now} {
		run := figures(times)
		run.Requests = f.requests
		text, err := json.Marshal(run)
		if err == nil {
			text, err = json.Marshal(turnAnswer{Run: text})
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(f.dir, name+".json"), append(text, '\n'), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Both processes of a block live at the same time and are asked in turn, each
// second turn the mirror of the one before; a turn is a sample, those that warm
// up are none.
func TestTurnsAlternate(t *testing.T) {
	t.Parallel()
	for _, bFirst := range []bool{false, true} {
		f := newFakePair(t, "-1 x", "-1 x")
		var times []float64
		for i := range fakeBlocks {
			times = append(times, float64(i+1))
		}
		f.figures(t, times, times)
		b, err := f.turnPairs.block(bFirst)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*compare.Result{b.A, b.B} {
			for _, name := range []string{"step", "step/all"} {
				if got := r.Metric(name).Runs; len(got) != 1 || !slices.Equal(got[0], times[warmTurns:]) {
					t.Errorf("%s of %s: %v", name, r.Source, got)
				}
			}
			if n := len(r.Metric("throughput").Runs[0]); n != leastTurns || r.Metric("launches") == nil || len(r.RunInfo) != 1 {
				t.Errorf("%s: %d rates, %v", r.Source, n, r.RunInfo)
			}
		}
		if !b.Aligned || b.BFirst != bFirst || b.A.Source != "old" || b.B.Source != "new" {
			t.Errorf("block %+v", b)
		}
		text, err := os.ReadFile(filepath.Join(f.dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		ends := []string{"old end", "new end"}
		if bFirst {
			slices.Reverse(ends)
		}
		if len(lines) != 2*fakeBlocks+2 || !slices.Equal(lines[len(lines)-2:], ends) {
			t.Fatalf("asked %q", lines)
		}
		for i := 0; i < 2*fakeBlocks; i += 4 { // ABBA or BAAB
			if q := lines[i : i+4]; q[0] != q[3] || q[1] != q[2] || q[0] == q[1] {
				t.Errorf("turns %q", q)
			}
		}
	}
}

// Two builds that serve take a load behind their turns, one after the other, all at the rate
// of the first; with one that cannot, nothing is asked of the other either.
func TestTurnsThenLoad(t *testing.T) {
	t.Parallel()
	f := newFakePair(t, "-1 serves", "-1 serves")
	h := latency.New()
	for range 1000 {
		h.Record(time.Millisecond)
	}
	rec, err := h.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	f.requests = &gpuprof.Requests{Arrivals: "gamma", Rate: 123.4, RateKnobs: []string{}, SLO: 0.1, From: gpuprof.FromSchedule, Processes: []gpuprof.Served{{
		Seconds: 1, Scheduled: 1000, Completed: 1000, InTime: 900, Latency: rec, Queue: rec, Service: rec, Late: rec, Batches: []int64{1000}, Blocks: []gpuprof.ServedBlock{},
	}}}
	if err := latency.Summarise(f.requests, 1); err != nil {
		t.Fatal(err)
	}
	f.figures(t, slices.Repeat([]float64{1}, fakeBlocks), slices.Repeat([]float64{1}, fakeBlocks))
	for _, bFirst := range []bool{true, false} {
		b, err := f.turnPairs.block(bFirst)
		if err != nil {
			t.Fatal(err)
		}
		if m := b.B.Metric("latency/p99"); m == nil || m.Rate != 123.4 || b.A.Metric("goodput").Runs[0][0] != 900 || b.A.Metric("latency/p999") != nil {
			t.Errorf("%+v", b.B.Metrics)
		}
	}
	if got, want := f.asked(t, turnsLoad), []string{"new serve 0 1s 4s", "old serve 123.4 1s 4s", "old serve 123.4 1s 4s", "new serve 123.4 1s 4s"}; !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
	one := newFakePair(t, "-1 x", "-1 serves")
	if _, err := one.turnPairs.block(false); err != nil {
		t.Fatal(err)
	}
	if got := append(one.asked(t, turnsLoad), one.asked(t, "end")...); !slices.Equal(got, []string{"old end", "new end"}) {
		t.Errorf("asked %q", got)
	}
}

// asked are the questions of a word, in order.
func (f *fakePair) asked(t *testing.T, word string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if parts := strings.Fields(line); parts[1] == word {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// A last question that is none is refused, and a good one is read whole.
func TestLastLoad(t *testing.T) {
	if err := lastLoad("123.4 2s 8s"); !errors.Is(err, measure.LastLoad{Rate: 123.4, MinTime: 2 * time.Second, MaxTime: 8 * time.Second}) {
		t.Errorf("%v", err)
	}
	for _, text := range []string{"", "1", "1 2s", "x 2s 8s", "1 8s 2s", "-1 2s 8s", "nan 2s 8s"} {
		if err := lastLoad(text); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What slows both sides down for some turns is not taken for a difference, and a
// difference of a tenth is found below three times as much noise.
func TestTurnsJudged(t *testing.T) {
	t.Parallel()
	for slower, want := range map[float64]compare.Verdict{1: compare.Pass, 1.1: compare.Regressed} {
		f := newFakePair(t, "-1 x", "-1 x")
		rng := rand.New(rand.NewPCG(1, 2))
		measured := func(n int) (blocks []compare.Block) {
			for i, bFirst := range compare.Order(n, 1) {
				var old, now []float64
				level := math.Exp(0.2 * rng.NormFloat64())
				for range fakeBlocks {
					machine := level * math.Exp(0.3*rng.NormFloat64())
					old, now = append(old, machine*math.Exp(0.01*rng.NormFloat64())), append(now, slower*machine*math.Exp(0.01*rng.NormFloat64()))
				}
				f.figures(t, old, now)
				b, err := f.turnPairs.block(bFirst)
				if err != nil {
					t.Fatalf("block %d: %v", i, err)
				}
				blocks = append(blocks, b)
			}
			return blocks
		}
		g := compare.NewGate(compare.Options{Only: []string{"step"}, Seed: 1})
		c, err := g.Stage1(measured(compare.Stage1Blocks))
		if err == nil && len(g.Escalated()) > 0 {
			c, err = g.Stage2(measured(compare.Stage2Blocks))
		}
		if err != nil || c.Verdict != want {
			t.Errorf("slower by %g: %v %v", slower, c, err)
		}
	}
}

// A process that goes wrong ends the gate with one sentence that says how, and
// nothing is left running.
func TestTurnsGoWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, old, now, says string }{
		{"dies at its start", "0 dies", "-1 x", "measuring old: .*fake failed: exit status 7: gpuprof: the device is lost; run it by itself"},
		{"dies in a turn", "-1 x", "4 dies", "measuring new: .*the device is lost"},
		{"dies at the end", "13 dies", "-1 x", "measuring old: .*the device is lost"},
		{"cannot start", "0 full", "-1 x", "measuring old: .*no memory is left"},
		{"usage in the middle", "-1 x", "3 refuses", "measuring new: .*has no flag"},
		{"leaves at its start", "-1 x", "0 leaves", "ended before it had answered"},
		{"leaves in a turn", "5 leaves", "-1 x", "ended before it had answered"},
		{"garbage at its start", "0 garbles", "-1 x", `answered "BenchmarkA 100 1000 ns/op" when`},
		{"garbage in a turn", "-1 x", "1 garbles", `answered "BenchmarkA`},
		{"garbage at the end", "-1 x", "13 garbles", `answered "BenchmarkA`},
		{"a turn without samples", "-1 x", "2 empties", "when it was asked to take its turn"},
		{"no result", "-1 x", "13 empties", "when it was asked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFakePair(t, tt.old, tt.now)
			_, err := f.turnPairs.block(false)
			if err == nil || !matched(t, tt.says, sentence(err)) || exitCode(err) != exitFailed || f.apart > 0 {
				t.Errorf("%v, exit code %d", err, exitCode(err))
			}
		})
	}
	t.Run("another number of samples", func(t *testing.T) {
		t.Parallel()
		f := newFakePair(t, "-1 x", "-1 x")
		f.figures(t, []float64{1, 2, 3}, []float64{1, 2, 3})
		if _, err := f.turnPairs.block(false); err == nil || !strings.Contains(err.Error(), "does not hold the 24 samples of its 12 turns") || exitCode(err) != exitFailed {
			t.Error(err)
		}
	})
}

func matched(t *testing.T, pattern, text string) bool {
	t.Helper()
	ok, err := regexp.MatchString(pattern, text)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// A process that does not answer is ended when the time for an answer is over,
// also one that does not want to end.
func TestTurnsThatHang(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"hangs", "stays"} {
		for _, turn := range []int{0, 3} { // 0 is its start
			f := newFakePair(t, "-1 x", fmt.Sprint(turn, " ", how))
			hurry := make(chan struct{})
			close(hurry) // it is not waited for
			f.run.hurry = hurry
			last := 2 // of the questions: each side is asked for its start first
			if turn > 0 {
				last += 2 * turn
				if firstTo(compare.Order(turn, f.seed)[turn-1])[0] == 1 { // the new side's turn comes first
					last--
				}
			}
			late := make(chan time.Time)
			close(late)
			f.turnPairs.patience = func() <-chan time.Time {
				if last--; last == 0 {
					return late
				}
				return nil
			}
			_, err := f.turnPairs.block(false)
			if err == nil || !strings.Contains(err.Error(), "measuring new: its process has not answered within the time for the whole measurement") || exitCode(err) != exitFailed {
				t.Errorf("%s at %d: %v", how, turn, err)
			}
		}
	}
}

// A build that cannot take turns, or not beside the other, is measured a process
// at a time, and the result says so.
func TestTurnsFallBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, old, now, says string }{
		{"an older build", "0 refuses", "-1 x", "old cannot take turns with another process, so the sides were measured one process after the other"},
		{"one whose step has the probe in it", "0 older", "-1 x", "old cannot take turns with another process"},
		{"a newer protocol", "-1 x", "0 newer", "new cannot take turns"},
		{"no room for two", "-1 x", "0 full", `new could not start beside the other side's process \(no memory is left\), so`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFakePair(t, tt.old, tt.now)
			for range 2 {
				if b, err := f.turnPairs.block(false); err != nil || b.Aligned {
					t.Fatalf("%+v %v", b, err)
				}
			}
			if f.apart != 2 || len(f.warnings) != 1 || !matched(t, tt.says, f.warnings[0].Text) || f.warnings[0].Code != "no-turns" {
				t.Errorf("%d blocks the other way, %+v", f.apart, f.warnings)
			}
		})
	}
}

// An interrupt ends both processes, and what they started.
func TestTurnsInterrupted(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"0", "1"} {
		f := newFakePair(t, "-1 x", at+" hangs")
		f.turnPairs.patience = func() <-chan time.Time {
			if at == "0" {
				f.cancel()
			}
			return nil
		}
		if at == "1" { // once it has been asked
			log := pipe(t, filepath.Join(f.dir, "log"))
			go func() {
				for lines := bufio.NewScanner(log); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "new") {
						f.cancel()
					}
				}
			}()
		}
		if _, err := f.turnPairs.block(false); !errors.Is(err, context.Canceled) || exitCode(err) != exitInterrupted || f.apart > 0 {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// A block has as many turns as both sides' time needs, in whole mirrored pairs.
func TestEnoughTurns(t *testing.T) {
	for _, tt := range []struct {
		old, now, minTime float64 // seconds of a turn, and of a side
		want              int
	}{{0.051, 0.051, 2, 40}, {0.06, 0.06, 2, 34}, {0.031, 0.071, 2, 40}, {1, 1, 2, leastTurns}, {600, 1, 2, leastTurns}, {1e-6, 1e-6, 2, mostTurns}, {0.04, 0.04, 0.1, leastTurns}} {
		p := turnPairs{minTime: time.Duration(tt.minTime * 1e9)}
		out := [2][]measure.Turn{{{Seconds: 100}, {Seconds: 1}}, {{Seconds: 100}, {Seconds: 1}}} // that warm up
		for !p.enough(out) {
			out[0], out[1] = append(out[0], measure.Turn{Seconds: tt.old}), append(out[1], measure.Turn{Seconds: tt.now})
		}
		if got := len(out[0]) - warmTurns; got != tt.want {
			t.Errorf("%d turns of %g and %g s in %g s a side, want %d", got, tt.old, tt.now, tt.minTime, tt.want)
		}
	}
}

// What serves turns ends when its standard input does, whatever it is at.
func TestTakeTurnsEndsWithItsInput(t *testing.T) {
	t.Parallel()
	for _, ask := range []string{"", "1ms\n", "1ms\n1ms\n"} {
		cmd := selfCommand(t, t.TempDir(), "run", "e3nn", "--device", "host", "--set", "batch=4", "--set", "edges=40", "--warmup", "0", turnsFlag)
		cmd.Stdin = strings.NewReader(ask)
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != exitInterrupted || strings.Contains(string(out), `"run"`) {
			t.Errorf("after %q: %v %s", ask, err, out)
		}
	}
}
