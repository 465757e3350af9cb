package compare_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// servedRun has six processes of 2,000 requests, each of one latency.
func servedRun(t *testing.T, rate float64, load string, took time.Duration, edits ...func(*loadtest.Requests)) *compare.Result {
	t.Helper()
	q := &loadtest.Requests{Rate: rate, RateKnobs: []string{"load", "rate"}}
	r := &gpuprof.Run{Workload: "w", Preset: "p", Status: gpuprof.Complete, Knobs: gpuprof.Settings{"load": load, "rate": "auto"}, ModelKnobs: []string{"load", "rate"}, Requests: q}
	for i := range 6 {
		h := latency.New()
		for range 2000 {
			h.Record(took + time.Duration(i*5%6)*took/200)
		}
		rec, err := h.Recorded()
		if err != nil {
			t.Fatal(err)
		}
		q.Processes = append(q.Processes, loadtest.Served{Seconds: 10, Scheduled: 2100, Completed: 2000, Refused: 100, InTime: int64(1900 + i), Latency: rec})
	}
	for _, edit := range edits {
		edit(q)
	}
	out, err := compare.FromRun(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func verdictOf(c *compare.Comparison, name string) (compare.MetricResult, bool) {
	for _, m := range c.Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return compare.MetricResult{}, false
}

// At one rate the latencies compare, whichever knob made it: p50 and p99 regress, the
// goodput does not, and p99.9 is not told of 2,000 requests.
func TestLatencyMetrics(t *testing.T) {
	c, err := compare.Compare(servedRun(t, 100, "auto", time.Millisecond), servedRun(t, 100, "0.7", 2*time.Millisecond), compare.Options{SessionSpread: 0.001})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]compare.Verdict{"latency/p50": compare.Regressed, "latency/p99": compare.Regressed} {
		if m, ok := verdictOf(c, name); !ok || m.Verdict != want {
			t.Errorf("%s: %s, want %s (%s)", name, m.Verdict, want, m.Reason)
		}
	}
	if m, ok := verdictOf(c, "goodput"); !ok || !m.HigherIsBetter || m.Verdict == compare.Regressed {
		t.Errorf("goodput: %+v", m)
	}
	if _, ok := verdictOf(c, "latency/p999"); ok {
		t.Error("p99.9 of 2,000 requests")
	}
	if len(c.Differences) > 0 {
		t.Errorf("the sides differ in %v", c.Differences)
	}
}

// A service that begins to refuse is caught, and one that stops is better, though a share of nothing has no ratio; a burst
// in one process is chance.
func TestRefused(t *testing.T) {
	refuses := func(of ...int64) *compare.Result {
		r := servedRun(t, 100, "0.7", time.Millisecond)
		for i := range r.Metrics {
			if m := &r.Metrics[i]; m.Name == "refused" {
				for k := range m.Runs {
					m.Runs[k][0] = float64(of[k%len(of)]) / 2100
				}
			}
		}
		return r
	}
	for _, c := range []struct {
		old, now []int64
		want     compare.Verdict
	}{
		{[]int64{0}, []int64{0}, compare.Same}, {[]int64{0}, []int64{100, 103, 98}, compare.Regressed}, {[]int64{100, 103, 98}, []int64{0}, compare.Improved},
		{[]int64{100, 103, 98}, []int64{200, 203, 201}, compare.Regressed}, {[]int64{0}, []int64{1, 0, 0, 0, 0, 0}, compare.TooSmall}, {[]int64{1, 2}, []int64{0, 1, 2, 3}, compare.TooSmall},
	} {
		r, err := compare.Compare(refuses(c.old...), refuses(c.now...), compare.Options{SessionSpread: 0.001})
		if err != nil {
			t.Fatal(err)
		}
		if m, _ := verdictOf(r, "refused"); m.Verdict != c.want || m.HigherIsBetter {
			t.Errorf("%d refused, then %d: %s (%s), want %s", c.old, c.now, m.Verdict, m.Reason, c.want)
		}
	}
}

// In a gate latencies are judged beside the step, which explains its stages alone; a side
// whose sender waited for room is refused, and compared all the same.
func TestLatencyInGate(t *testing.T) {
	var blocks []compare.Block
	for i := range 6 {
		side := func(took time.Duration) *compare.Result {
			r := servedRun(t, 100, "auto", took)
			for k := range r.Metrics { // of one process
				r.Metrics[k].Runs = r.Metrics[k].Runs[i : i+1]
			}
			r.Total = "step"
			for _, m := range []string{"step", "throughput"} {
				r.Metrics = append(r.Metrics, compare.MetricData{Metric: compare.Metric{Name: m, Unit: "s"}, Runs: [][]float64{{1 + 0.001*float64(i)}}})
			}
			return r
		}
		blocks = append(blocks, compare.Block{A: side(time.Millisecond), B: side(2 * time.Millisecond), BFirst: i%2 == 1})
	}
	c, err := compare.NewGate(compare.Options{}).Stage1(blocks)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]compare.Verdict{"latency/p50": compare.Regressed, "latency/p99": compare.Regressed, "step": compare.Same, "throughput": compare.Explains, "refused": compare.Same} {
		if m, ok := verdictOf(c, name); !ok || m.Verdict != want {
			t.Errorf("%s: %s, want %s (%s)", name, m.Verdict, want, m.Reason)
		}
	}
	blocks[0].B.Ungated = "its sender waits"
	if _, err := compare.NewGate(compare.Options{}).Stage1(blocks[:1]); !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "its sender waits") {
		t.Errorf("%v", err)
	}
}

func TestBlockIsNotGated(t *testing.T) {
	q := &loadtest.Requests{Rate: 100, Waits: loadtest.WaitsRoom}
	r, err := compare.FromRun(&gpuprof.Run{Workload: "w", Status: gpuprof.Complete, PeakMemory: 1, Requests: q})
	if err != nil || !strings.Contains(r.Ungated, "waited for room") {
		t.Fatalf("%v, %q", err, r.Ungated)
	}
	if _, err := compare.Compare(r, r, compare.Options{Judge: true}); !errors.Is(err, gpuprof.ErrUsage) {
		t.Errorf("%v", err)
	}
	if _, err := compare.Compare(r, r, compare.Options{}); err != nil {
		t.Error(err)
	}
}

// A side whose sender was late has no tail to compare; in a gate, whose sides took turns, it has.
func TestLateSenderIsNotCompared(t *testing.T) {
	side := func(late string, percentiles ...loadtest.Percentile) *compare.Result {
		return servedRun(t, 100, "auto", time.Millisecond, func(q *loadtest.Requests) { q.SenderLate, q.Latency.Percentiles = late, percentiles })
	}
	for name, c := range map[string]struct {
		now     *compare.Result
		blocked []string
	}{
		"in time": {side(""), nil},
		"late":    {side("late", loadtest.Percentile{Share: 0.5}), []string{"latency/p99"}},
		"own":     {side("late"), []string{"latency/p50", "latency/p99", "goodput"}},
	} {
		got, err := compare.Compare(side(""), c.now, compare.Options{SessionSpread: 0.001})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Metrics {
			blocked := slices.Contains(c.blocked, m.Name)
			if blocked != strings.Contains(m.Reason, "the sender of the new side's requests was late") || blocked != math.IsNaN(float64(m.New)) || blocked != (m.Verdict == compare.Inconclusive) {
				t.Errorf("%s: %s is %s, %g: %s", name, m.Name, m.Verdict, float64(m.New), m.Reason)
			}
		}
		if said := strings.Contains(strings.Join(got.Next, " "), "whose sender was late"); said != (len(c.blocked) > 0) {
			t.Errorf("%s: next is %v", name, got.Next)
		}
	}
}

// At two rates they do not, and the comparison says how they would.
func TestRatesApart(t *testing.T) {
	c, err := compare.Compare(servedRun(t, 100, "0.7", time.Millisecond), servedRun(t, 90, "0.7", time.Millisecond), compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, _ := verdictOf(c, "latency/p50")
	if m.Verdict != compare.NotComparable || !strings.Contains(m.Reason, "--set rate=100") || !strings.Contains(strings.Join(c.Next, " "), "--set rate=100") {
		t.Errorf("%s: %s; %v", m.Verdict, m.Reason, c.Next)
	}
}
