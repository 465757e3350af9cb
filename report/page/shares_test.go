package page_test

import (
	"regexp"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/page"
)

// TestSharesOfSpread: the share of a spread has no exponent from 100 % on, and none that bounds nothing is
// printed as it is: of sessions, of the processes of a machine, and of ranks.
func TestSharesOfSpread(t *testing.T) {
	exponent := regexp.MustCompile(`e[+-]?[0-9]+ ?%`)
	for spread, want := range map[float64][3]string{0.012: {"1.2 %", "1.2 %", "1.2 %"}, 1.5: {"150 %", "348 %", "150.0 %"}, 40: {">999 %", ">999 %", ">999 %"}, 900: {">999 %", ">999 %", ">999 %"}} {
		h := fixture.History()
		h.Trends[0].Metrics[0].Spread, h.Trends[0].Metrics[0].Scatter = gpuprof.Number(spread), gpuprof.Number(spread)
		history, err := page.History(h)
		if err != nil {
			t.Fatal(err)
		}
		noise, err := page.Noise(&compare.NoisePlan{MachineNoise: compare.MachineNoise{Metrics: []compare.MetricNoise{{Name: "step", Spread: spread}}}, Smallest: gpuprof.Number(spread)})
		if err != nil {
			t.Fatal(err)
		}
		ranks, err := page.Fleet(&fleet.Report{Metrics: []fleet.Metric{{Name: "step", Unit: "s", WithinNodes: gpuprof.Number(spread), Slowest: []fleet.RankValue{{}}}}})
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range []*page.Page{history, noise, ranks} {
			found := false
			for _, c := range tableOf(t, p).Rows[0].Cells {
				found = found || c.Text == want[i] || c.Text == want[i]+" ("+want[i]+" between commits)"
				if exponent.MatchString(c.Text) {
					t.Errorf("a spread of %g reads %q", spread, c.Text)
				}
			}
			if !found {
				t.Errorf("a spread of %g does not read %q in %+v", spread, want[i], tableOf(t, p).Rows[0])
			}
		}
	}
}
