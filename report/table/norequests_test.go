package table_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/fixture"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/table"
)

// A load without a request says so, and has no rate and no time: "0 scheduled in 0 ns" looks like a fault.
func TestNoRequests(t *testing.T) {
	for from, want := range map[string]string{
		gpuprof.FromFirstByte: "no request came while the run listened",
		gpuprof.FromSchedule:  "no request was sent after the warm-up of the load",
	} {
		r := fixture.Loaded()[0]
		q := *r.Requests
		r.Requests = &gpuprof.Requests{Arrivals: q.Arrivals, Throughput: q.Throughput, SLO: q.SLO, From: from, Processes: []gpuprof.Served{{}}}
		p, err := page.Runs([]*gpuprof.Run{r})
		if err != nil {
			t.Fatal(err)
		}
		brief := strings.Join(strings.Fields(shown(t, p, nil, table.Options{Lines: screenLines})), " ")
		if first := strings.ToUpper(want[:1]) + want[1:] + ", so there are no latencies."; !strings.Contains(brief, first) {
			t.Errorf("no %q in\n%s", first, brief)
		}
		whole := strings.Join(strings.Fields(shown(t, p, nil, table.Options{Width: 120})), " ")
		if !strings.Contains(whole, "requests none ("+want+")") || strings.Contains(whole, "0 scheduled") || strings.Contains(whole, "0 ns") {
			t.Errorf("%s", whole)
		}
	}
}
