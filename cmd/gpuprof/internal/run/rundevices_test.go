package run

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads/testkit/toy"
)

// fakeDevices lets two made-up processes take rounds; they do as first and second say, as in
// newFakePair, the first in so many turns. Steps take 1 s alone and together[i] s of device i together.
func fakeDevices(t *testing.T, rounds, turns int, first, second string, together [2]float64) ([]fleet.DeviceRun, *testkit.Turns, error) {
	t.Helper()
	f := testkit.NewTurns(t, judge.WarmTurns+judge.LeastTurns)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	a := &cli.App{Tables: &cli.Tables{}, Ctx: ctx, Stderr: io.Discard}
	sides := []judge.Side{{Name: "old", Dir: f.Dir, Turns: f.Command("old", first)}, {Name: "new", Dir: f.Dir, Turns: f.Command("new", second)}}
	s := &session{Cmd: &Cmd{Samples: rounds, MaxTime: time.Hour, TargetFlags: cli.TargetFlags{Seed: 3}}, app: a, aim: &cli.Target{Workload: toy.Workload{}}}
	var times [2][]float64
	for _, togetherFirst := range stats.MirroredOrder(judge.WarmTurns+judge.MostTurns, s.Seed)[:judge.WarmTurns+rounds] {
		for i := range times {
			pair := []float64{together[i], 1}
			if !togetherFirst {
				slices.Reverse(pair)
			}
			times[i] = append(times[i], pair...)
		}
	}
	f.Figures(t, times[0][:min(turns, len(times[0]))], times[1])
	out, err := s.takeRounds(judge.Children{App: a}, sides, func() <-chan time.Time { return nil })
	return out, f, err
}

// TestRounds: each round has a turn together and one of each device alone, and the samples
// go to the kind of turn that they are of, whichever came first.
func TestRounds(t *testing.T) {
	const rounds = 7
	got, f, err := fakeDevices(t, rounds, 99, "99 -", "99 -", [2]float64{1.5, 1.25})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{1.5, 1.25} {
		g := got[i]
		if g.Failed != nil || g.Run.Step.N() != rounds || g.Alone.Step.N() != rounds || len(g.TurnS) != rounds || g.Run.Step.P05 != want || g.Run.Step.P95 != want || g.Alone.Step.P05 != 1 || g.Alone.Step.P95 != 1 {
			t.Errorf("device %d: %v, together %+v, alone %+v", i, g.Failed, g.Run.Step, g.Alone.Step)
		}
	}
	r, err := fleet.OfDevices(got, gpuprof.Tool{Name: "gpuprof"})
	if err != nil {
		t.Fatal(err)
	}
	// 1/1.5 + 1/1.25 of what 1 + 1 are alone.
	if d := r.Devices; math.Abs(d.Scaling.Ratio-(1/1.5+1/1.25)/2) > 1e-12 || d.Slowest != "old" || math.Abs(d.Skew.Ratio-1.5/1.375) > 1e-12 || d.Overlap != 1 {
		t.Errorf("%+v, %v, %v", d, d.Skew, d.Scaling)
	}
	log, err := os.ReadFile(f.Dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "new "); n != 2*(judge.WarmTurns+rounds)+1 {
		t.Errorf("%d lines were written to a device: %s", n, log)
	}
	// The turns that follow the warm rounds are as long as the longest of those.
	if !strings.Contains(string(log), "old "+judge.TurnTime.String()) || !strings.Contains(string(log), "old 500ms") {
		t.Error(string(log))
	}
}

// TestRoundsFail: a device that fails before the first round, or in one, costs neither the
// other's rounds so far nor its own reason.
func TestRoundsFail(t *testing.T) {
	for does, c := range map[string]struct {
		turns  int // of the other device
		rounds int // that both finished
		why    string
	}{
		"0 full":    {0, 0, "no memory is left"},
		"0 garbles": {0, 0, "BenchmarkA"},
		fmt.Sprint(2*(judge.WarmTurns+4)+1, " dies"):   {2*(judge.WarmTurns+4) + 1, 4, "the device is lost"},
		fmt.Sprint(2*(judge.WarmTurns+9)+1, " leaves"): {2 * (judge.WarmTurns + 9), 9, "ended before it had answered"}, // asked for its result
	} {
		t.Run(does, func(t *testing.T) {
			got, _, err := fakeDevices(t, 9, c.turns, "99 -", does, [2]float64{1, 1})
			if err != nil {
				t.Fatal(err)
			}
			if got[1].Failed == nil || !strings.Contains(got[1].Failed.Error(), c.why) || got[1].Run != nil {
				t.Errorf("the device that failed: %+v", got[1])
			}
			switch {
			case c.rounds == 0:
				if got[0].Failed == nil || !strings.Contains(got[0].Failed.Error(), "another device failed") {
					t.Errorf("%+v", got[0])
				}
			case got[0].Failed != nil || got[0].Run.Step.N() != c.rounds || got[0].Alone.Step.N() != c.rounds || len(got[0].TurnS) != c.rounds:
				t.Errorf("%+v", got[0])
			}
		})
	}
}

func TestDevicesNamed(t *testing.T) {
	here := []cli.Device{{Name: "host"}, {Name: "cuda:0"}, {Name: "cuda:1"}, {Name: "cuda:3"}}
	for text, want := range map[string]string{
		"0,1": "cuda:0 cuda:1", "all": "cuda:0 cuda:1 cuda:3", "cuda:3,0": "cuda:3 cuda:0",
		"0,0": "cuda:0 is named twice", "0,cuda:0": "cuda:0 is named twice", "0,2": "there is no cuda:2; the driver shows cuda:0, cuda:1, cuda:3", "host,0": `"host" is no number of a GPU`,
		"0,all": `"all" is no number`, "1": "it is one device, cuda:1", "-1,0": `"-1" is no number`, "": `"" is no number`, "0,70000": `"70000" is no number`,
	} {
		got, err := devicesNamed(strings.Split(text, ","), here, "")
		var names []string
		for _, d := range got {
			names = append(names, d.Name)
		}
		if err != nil {
			why, fix := gpuprof.FixOf(err)
			names = []string{why + "; " + fix}
		}
		if all := strings.Join(names, " "); err == nil && all != want || err != nil && !strings.Contains(all, want) {
			t.Errorf("%s: %s", text, all)
		}
	}
	for _, text := range []string{"all", "0,1"} {
		if _, err := devicesNamed(strings.Split(text, ","), here[:1], "no GPU was found"); err == nil || !strings.Contains(err.Error(), "no GPU was found") || cli.ExitCode(err) != cli.ExitFailed {
			t.Errorf("%s without a GPU: %v", text, err)
		}
	}
}
