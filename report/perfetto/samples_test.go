package perfetto

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

// TestSamplesAreAllThere, each at its time with its length, block and flags.
func TestSamplesAreAllThere(t *testing.T) {
	r := fixture.Three()
	r.Flags[3] = []string{"throttled", "foreign"}
	b := render(t, r)
	var got, want []string
	for _, e := range check(t, b).Events {
		if e.Cat == catSample {
			got = append(got, fmt.Sprint(e.Name, e.start, e.end, e.Args["block"], e.Args["flags"]))
		}
	}
	n, lists := [2]int{}, [2][]float64{concatRuns(r.Step), concatRuns(r.BareStep)}
	for i, o := range r.Order {
		start := int64(math.Round(o.StartS * 1e9))
		dur := int64(math.Round(lists[o.Side][n[o.Side]] * 1e9))
		n[o.Side]++
		text := [2]string{"step", "bare step"}[o.Side]
		flags := any(nil)
		if i == 3 {
			flags = "throttled, foreign"
		}
		want = append(want, fmt.Sprint(text, start, start+dur, float64(o.Block), flags))
	}
	// Whole ns of neighbours may overlap by one, which takes a second row.
	if d := cmp.Diff(counted(want), counted(got)); d != "" || len(got) != r.Step.N()+r.BareStep.N() {
		t.Errorf("%d samples of %d (-want +got):\n%s", len(got), r.Step.N()+r.BareStep.N(), d)
	}
	tr, err := kineto.Read(t.Context(), bytes.NewReader(b), "x.perfetto.json", 0)
	if err != nil || len(tr.Warnings) > 0 {
		t.Fatalf("%v, warnings %v", err, tr.Warnings)
	}
}

func counted(s []string) map[string]int {
	out := map[string]int{}
	for _, v := range s {
		out[v]++
	}
	return out
}

// TestSamplesThatDoNotFit are left out rather than given times of others.
func TestSamplesThatDoNotFit(t *testing.T) {
	short, long, side := fixture.One(), fixture.One(), fixture.One()
	short.Order = short.Order[1:]
	long.Order = append(long.Order, gpuprof.Order{Block: 9, StartS: 1})
	side.Order[0].Side = 7
	for name, r := range map[string]*gpuprof.Run{"short": short, "long": long, "side": side} {
		if got := pairSamples(r, 0); got != nil {
			t.Errorf("%s: %d samples", name, len(got))
		}
	}
	bad := fixture.One()
	bad.Order[0].StartS, bad.Step.Runs[0][1] = math.NaN(), -1
	if got, want := len(pairSamples(bad, 0)), bad.Step.N()+bad.BareStep.N()-2; got != want {
		t.Errorf("%d samples, want %d", got, want)
	}
}
