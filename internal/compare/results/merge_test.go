package results_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/results"
)

// Several results of a service keep the rate that callers saw it at, and that a sender of one
// was late. Of different rates nothing is put together.
func TestMergeKeepsTheRate(t *testing.T) {
	side := func(rate float64, late bool) *compare.Result {
		return &compare.Result{Tool: "gpuprof", Status: gpuprof.Complete, Metrics: []compare.MetricData{
			{Metric: compare.Metric{Name: "step", Unit: "s"}, Runs: [][]float64{{1}}},
			{Metric: compare.Metric{Name: "latency/p99", Unit: "s"}, Runs: [][]float64{{2}}, Rate: rate, UnderLoad: true, SenderLate: late},
		}}
	}
	r, err := results.Merge(side(100, false), side(100, true))
	if err != nil {
		t.Fatal(err)
	}
	if m := r.Metric("latency/p99"); m.Rate != 100 || !m.UnderLoad || !m.SenderLate || len(m.Runs) != 2 {
		t.Errorf("%+v", m)
	}
	if m := r.Metric("step"); m.Rate != 0 || m.UnderLoad || m.SenderLate {
		t.Errorf("%+v", m)
	}
	if _, err := results.Merge(side(100, false), side(90, false)); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "latency/p99 was measured at 100 and at 90 requests per second") {
		t.Errorf("%v", err)
	}
}
