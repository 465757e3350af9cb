package judge

import (
	"bufio"
	"context"
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
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

const fakeBlocks = WarmTurns + LeastTurns // turns of a block that take 0.5 s where 1 s is asked for

// fakePair is a source of blocks of two such programs, which do as old and now
// say, "0 dies" for example.
type fakePair struct {
	*testkit.Turns
	*turnPairs
	cancel   func()
	warnings []gpuprof.Warning
	apart    int // blocks measured the other way
}

func (f *fakePair) block(bool) (compare.Block, error) {
	f.apart++
	return compare.Block{A: &compare.Result{}, B: &compare.Result{}}, nil
}

func newFakePair(t *testing.T, old, now string) *fakePair {
	t.Helper()
	f := &fakePair{Turns: testkit.NewTurns(t, fakeBlocks)}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(t.Context())
	f.turnPairs = &turnPairs{
		run: Children{App: &cli.App{Tables: &cli.Tables{}, Ctx: ctx, Stderr: io.Discard}}, minTime: time.Second, apart: f,
		patience: func() <-chan time.Time { return nil },
		warn:     func(w gpuprof.Warning) { f.warnings = append(f.warnings, w) },
	}
	for i, what := range []string{old, now} {
		name := []string{"old", "new"}[i]
		f.sides[i] = Side{Name: name, Dir: f.Dir, Turns: f.Command(name, what)}
	}
	return f
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
		f.Figures(t, times, times)
		b, err := f.turnPairs.block(bFirst)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*compare.Result{b.A, b.B} {
			for _, name := range []string{"step", "step/all"} {
				if got := r.Metric(name).Runs; len(got) != 1 || !slices.Equal(got[0], times[WarmTurns:]) {
					t.Errorf("%s of %s: %v", name, r.Source, got)
				}
			}
			if n := len(r.Metric("throughput").Runs[0]); n != LeastTurns || r.Metric("launches") == nil || len(r.RunInfo) != 1 {
				t.Errorf("%s: %d rates, %v", r.Source, n, r.RunInfo)
			}
		}
		if !b.Aligned || b.BFirst != bFirst || b.A.Source != "old" || b.B.Source != "new" {
			t.Errorf("block %+v", b)
		}
		text, err := os.ReadFile(filepath.Join(f.Dir, "log"))
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
	f.Requests = &loadtest.Requests{Arrivals: "gamma", Rate: 123.4, RateKnobs: []string{}, SLO: 0.1, From: loadtest.FromSchedule, Processes: []loadtest.Served{{
		Seconds: 1, Scheduled: 1000, Completed: 1000, InTime: 900, Latency: rec, Queue: rec, Service: rec, Late: rec, Batches: []int64{1000}, Blocks: []loadtest.ServedBlock{},
	}}}
	if err := latency.Summarise(f.Requests, 1); err != nil {
		t.Fatal(err)
	}
	f.Figures(t, slices.Repeat([]float64{1}, fakeBlocks), slices.Repeat([]float64{1}, fakeBlocks))
	for _, bFirst := range []bool{true, false} {
		b, err := f.turnPairs.block(bFirst)
		if err != nil {
			t.Fatal(err)
		}
		if m := b.B.Metric("latency/p99"); m == nil || m.Rate != 123.4 || b.A.Metric("goodput").Runs[0][0] != 900 || b.A.Metric("latency/p999") != nil {
			t.Errorf("%+v", b.B.Metrics)
		}
	}
	if got, want := f.asked(t, TurnsLoad), []string{"new serve 0 1s 4s", "old serve 123.4 1s 4s", "old serve 123.4 1s 4s", "new serve 123.4 1s 4s"}; !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
	one := newFakePair(t, "-1 x", "-1 serves")
	if _, err := one.turnPairs.block(false); err != nil {
		t.Fatal(err)
	}
	if got := append(one.asked(t, TurnsLoad), one.asked(t, "end")...); !slices.Equal(got, []string{"old end", "new end"}) {
		t.Errorf("asked %q", got)
	}
}

// asked are the questions of a word, in order.
func (f *fakePair) asked(t *testing.T, word string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.Dir, "log"))
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
				f.Figures(t, old, now)
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
			if err == nil || !matched(t, tt.says, cli.Sentence(err)) || cli.ExitCode(err) != cli.ExitFailed || f.apart > 0 {
				t.Errorf("%v, exit code %d", err, cli.ExitCode(err))
			}
		})
	}
	t.Run("another number of samples", func(t *testing.T) {
		t.Parallel()
		f := newFakePair(t, "-1 x", "-1 x")
		f.Figures(t, []float64{1, 2, 3}, []float64{1, 2, 3})
		if _, err := f.turnPairs.block(false); err == nil || !strings.Contains(err.Error(), "does not hold the 24 samples of its 12 turns") || cli.ExitCode(err) != cli.ExitFailed {
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
				if FirstTo(stats.MirroredOrder(turn, f.seed)[turn-1])[0] == 1 { // the new side's turn comes first
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
			if err == nil || !strings.Contains(err.Error(), "measuring new: its process has not answered within the time for the whole measurement") || cli.ExitCode(err) != cli.ExitFailed {
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
			log := testkit.Pipe(t, filepath.Join(f.Dir, "log"))
			go func() {
				for lines := bufio.NewScanner(log); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "new") {
						f.cancel()
					}
				}
			}()
		}
		if _, err := f.turnPairs.block(false); !errors.Is(err, context.Canceled) || cli.ExitCode(err) != cli.ExitInterrupted || f.apart > 0 {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// A block has as many turns as both sides' time needs, in whole mirrored pairs.
func TestEnoughTurns(t *testing.T) {
	for _, tt := range []struct {
		old, now, minTime float64 // seconds of a turn, and of a side
		want              int
	}{{0.051, 0.051, 2, 40}, {0.06, 0.06, 2, 34}, {0.031, 0.071, 2, 40}, {1, 1, 2, LeastTurns}, {600, 1, 2, LeastTurns}, {1e-6, 1e-6, 2, MostTurns}, {0.04, 0.04, 0.1, LeastTurns}} {
		p := turnPairs{minTime: time.Duration(tt.minTime * 1e9)}
		out := [2][]measure.Turn{{{Seconds: 100}, {Seconds: 1}}, {{Seconds: 100}, {Seconds: 1}}} // that warm up
		for !p.hasEnough(out) {
			out[0], out[1] = append(out[0], measure.Turn{Seconds: tt.old}), append(out[1], measure.Turn{Seconds: tt.now})
		}
		if got := len(out[0]) - WarmTurns; got != tt.want {
			t.Errorf("%d turns of %g and %g s in %g s a side, want %d", got, tt.old, tt.now, tt.minTime, tt.want)
		}
	}
}
