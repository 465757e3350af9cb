package figure_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/figure"
)

// Where the sender was late the latencies that are its own are not drawn, and its delay is.
func TestLateSenderIsNotDrawnAsLatency(t *testing.T) {
	for told, want := range map[float64]string{1: "latency", 0.5: "latency, delay of the sender", 0: "delay of the sender"} {
		r := fixture.Loaded()[1]
		q := r.Requests
		for i := range 3 {
			q.Processes[0].Blocks = append(q.Processes[0].Blocks, loadtest.ServedBlock{StartS: float64(i), Seconds: 1, Latency: q.Processes[0].Latency})
		}
		if told < 1 {
			q.SenderLate, q.Latency.Percentiles = "the sender was late", q.Latency.Percentiles[:int(2*told)]
		}
		f := figure.Requests(r)
		var legend []string
		for _, e := range f.Legend {
			legend = append(legend, e.Text)
		}
		if got := strings.Join(legend, ", "); got != want {
			t.Errorf("told %g: the legend is %q, want %q", told, got, want)
		}
		longest := 0.0 // in the tone of latencies
		for _, p := range f.Panels[:len(f.Panels)-1] {
			for _, m := range p.Marks {
				for _, at := range m.Points {
					if m.Tone == "p0" {
						longest = max(longest, at[1])
					}
				}
			}
		}
		if p50, most := 0.022, q.Latency.MaxS; told == 1 && longest != most || told == 0.5 && (longest < 0.99*p50 || longest > 1.01*p50) || told == 0 && longest != 0 {
			t.Errorf("told %g: latencies up to %g s of %g are drawn", told, longest, most)
		}
		if over := slices.ContainsFunc(f.Panels, func(p figure.Panel) bool { return strings.HasPrefix(p.Title, "latency over time") }); over != (told > 0) {
			t.Errorf("told %g: latency over time is drawn: %v", told, over)
		}
	}
}
