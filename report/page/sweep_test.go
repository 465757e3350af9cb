package page

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
)

// A setting is called faster only if the intervals of both figures do not overlap, in the table too.
func TestWinnerIsShown(t *testing.T) {
	apart, same, unknown := "lies below its own", "neither is shown to be faster", "is unknown"
	for _, c := range []struct {
		rates, steps [2][2]float64 // shares of the median
		want         string
	}{
		{[2][2]float64{{0.99, 1.01}, {0.99, 1.01}}, [2][2]float64{{0.99, 1.01}, {0.99, 1.01}}, apart},
		{[2][2]float64{{0.99, 1.01}, {0.99, 1.01}}, [2][2]float64{{0.7, 1.5}, {0.6, 1.6}}, same},
		{[2][2]float64{{0.4, 1.9}, {0.4, 1.9}}, [2][2]float64{{0.99, 1.01}, {0.99, 1.01}}, same},
		{[2][2]float64{{0.99, 1.01}, {0.99, 1.01}}, [2][2]float64{{0.99, 1.01}, {}}, unknown},
	} {
		runs := fixture.Sweep()[:2]
		for i, r := range runs {
			rate, step := 100*float64(i+1), 0.1/float64(i+1) // twice as fast
			r.Throughput.Series = &gpuprof.Series{Median: rate, CI95: [2]float64{rate * c.rates[i][0], rate * c.rates[i][1]}}
			r.Step = &gpuprof.Series{Median: step, CI95: [2]float64{step * c.steps[i][0], step * c.steps[i][1]}}
		}
		if got := winnerText(runs); !strings.Contains(got, c.want) {
			t.Errorf("rates %v, steps %v: %q, want %q", c.rates, c.steps, got, c.want)
		}
	}
}
