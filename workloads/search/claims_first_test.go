package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/guides"
)

// firstClaim runs one claim of the first answer by processes that take what took says.
func firstClaim(t *testing.T, device string, budget time.Duration, took func(warm bool, n int) (float64, error)) (tune.ClaimRow, []string) {
	t.Helper()
	at := slices.IndexFunc(guides.Claims(), func(c guides.Claim) bool { return c.Run == guides.First })
	k := guides.Claims()[at]
	b := &claimBench{fakeBench: newFakeBench(1)}
	o, find := claimOptions(b)
	o.Device, o.Budget = device, budget
	e := &engine{Options: o, ctx: t.Context(), out: newResult(o), journal: map[string]*tune.Outcome{}, began: o.Now()}
	var ran []string
	c := &claimRunner{engine: e, find: find, run: func(_ context.Context, _ workloads.Workload, preset string, set gpuprof.Settings, _ time.Duration) (*gpuprof.Run, error) {
		ran = append(ran, preset+" "+set["warm"])
		b.clock = b.clock.Add(2 * time.Second)
		v, err := took(set["warm"] == "on", len(ran))
		return &gpuprof.Run{Input: map[string]any{firstAnswer: v}}, err
	}}
	row := tune.ClaimRow{ID: k.ID}
	if err := c.firstRuns(k, &row, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	return row, ran
}

// Both sides take turns in processes, as many as the time holds; what a process cannot do is
// the row's reason, and no effect is none.
func TestFirstAnswer(t *testing.T) {
	noisy := func(warm bool, n int) (float64, error) {
		v := 0.2 + 0.001*float64(n%3)
		if warm {
			v /= 10
		}
		return v, nil
	}
	row, ran := firstClaim(t, "cuda", time.Hour, noisy)
	if row.Verdict != confirmed || row.Measured < 9.8 || row.Measured > 10.2 || row.CI95[0] > row.Measured || row.CI95[1] < row.Measured || row.CI95[0] == row.CI95[1] {
		t.Errorf("%+v", row)
	}
	want := strings.Fields("off on on off off on on off off on on off") // the sixth pair of 4 s begins at 20 s
	for i := range want {
		want[i] = "rxvision " + want[i]
	}
	if !slices.Equal(ran, want) {
		t.Errorf("%q", ran)
	}
	row, _ = firstClaim(t, "host", time.Hour, func(_ bool, n int) (float64, error) { return 0.2 + 0.0001*float64(n%2), nil })
	if row.Verdict != noEffect {
		t.Errorf("no effect: %+v", row)
	}
	row, _ = firstClaim(t, "host", time.Hour, func(warm bool, n int) (float64, error) { v, err := noisy(!warm, n); return v, err })
	if row.Verdict != opposite {
		t.Errorf("slower: %+v", row)
	}
	row, ran = firstClaim(t, "host", 7*time.Second, noisy)
	if row.Verdict == confirmed || !strings.Contains(row.Reason, "--budget") || len(ran) != 4 || ran[0] != "small off" {
		t.Errorf("short: %+v after %q", row, ran)
	}
	row, _ = firstClaim(t, "host", time.Hour, func(bool, int) (float64, error) { return 0, errors.New("no such library") })
	if row.Verdict != notMeasurable || row.Reason != "no such library" {
		t.Errorf("fails: %+v", row)
	}
	row, _ = firstClaim(t, "host", time.Hour, func(bool, int) (float64, error) { return 0, nil })
	if row.Verdict != notMeasurable || !strings.Contains(row.Reason, "does not say when its first answer came") {
		t.Errorf("silent: %+v", row)
	}
}

// On a GPU the claims of the service are decided by the network made for it, on the host by the small one.
func TestDecidedByDevice(t *testing.T) {
	for device, preset := range map[string]string{"host": "small", "cuda": "rxvision"} {
		c := &claimRunner{engine: &engine{Options: Options{Device: device}}}
		n := 0
		for _, k := range guides.Claims() {
			if len(k.AB) == 0 || k.AB[0].Workload != "serving" {
				continue
			}
			n++
			if ab := k.AB[c.decidingIndex(k)]; ab.Preset != preset || !strings.Contains(c.describeAB(k), preset) {
				t.Errorf("%s on %s: %s", k.ID, device, ab.Preset)
			}
			for _, ab := range c.listDetails(k) {
				if ab.Preset != preset {
					t.Errorf("%s on %s: %s", k.ID, device, fmt.Sprint(ab))
				}
			}
		}
		if n != 5 {
			t.Errorf("%d claims", n)
		}
	}
}
