package document_test

import (
	"bytes"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// Results before 1.8 say by their warning alone that the sender was late: they are read without
// the tail that is its own, and without any latency where it was later than the median.
func TestLateSenderOfEarlierResults(t *testing.T) {
	warned := []gpuprof.Warning{{Code: "generator-late", Text: "the sender of the requests was 4.00 ms late at p99"}}
	for name, c := range map[string]struct {
		warnings []gpuprof.Warning
		reason   string
		told     float64
		beside   *loadtest.OnSchedule
	}{
		"in time":               {nil, "", 1, nil},
		"cut short":             {nil, "interrupted", 1, nil},
		"late":                  {warned, "", 0.5, nil},
		"callers that wait":     {warned, "", 1, &loadtest.OnSchedule{SenderLate: "late"}},
		"late, cut short":       {warned, "interrupted", 0.5, nil},
		"later than the median": {warned, loadtest.ReasonGenerator, 0, nil},
		"the sixth process was": {warned, "process 6: " + loadtest.ReasonGenerator, 0, nil},
		"no requests":           {warned, "", -1, nil},
	} {
		r := &gpuprof.Run{Head: document.NewHead(document.Run, gpuprof.Tool{}), Status: gpuprof.Complete, Reason: c.reason, Workload: "serving", Warnings: c.warnings}
		if c.told >= 0 {
			r.Requests = &loadtest.Requests{Latency: loadtest.LatencySummary{Count: 2000, Percentiles: []loadtest.Percentile{{Share: 0.5}, {Share: 0.9}, {Share: 0.99}}}, OnSchedule: c.beside}
		}
		var b bytes.Buffer
		if err := document.EncodeRuns(&b, r); err != nil {
			t.Fatal(err)
		}
		got, err := document.Runs(b.Bytes(), "x.json")
		if err != nil {
			t.Fatal(err)
		}
		q := got[0].Requests
		if c.told < 0 {
			if q != nil {
				t.Errorf("%s: requests", name)
			}
			continue
		}
		if _, tail := q.Latency.At(0.99); q.Told() != c.told || tail != (c.told == 1) {
			t.Errorf("%s: told %g, want %g, %+v", name, q.Told(), c.told, q.Latency.Percentiles)
		}
	}
}
