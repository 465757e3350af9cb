package latency

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// process has n requests of a latency and a service time; the latest tenth was sent late by late.
func process(t *testing.T, n int, took, service, late time.Duration) loadtest.Served {
	t.Helper()
	record := func(of func(int) time.Duration) loadtest.Recorded {
		h := New()
		for i := range n {
			h.Record(of(i))
		}
		r, err := h.Recorded()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	sent := func(i int) time.Duration {
		if 10*i >= 9*n {
			return late
		}
		return 0
	}
	return loadtest.Served{Seconds: 10, Scheduled: int64(n), Completed: int64(n), Latency: record(func(i int) time.Duration { return took + sent(i) }),
		Queue: record(func(int) time.Duration { return took - service }), Service: record(func(int) time.Duration { return service }), Late: record(sent)}
}

// A late sender has the tail left out, and one later than the median latency all of it, whichever
// process had it; one that waits, or is another program, has no schedule to be late for.
func TestLateSender(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	for name, c := range map[string]struct {
		late  []time.Duration
		n     int
		edit  func(*loadtest.Requests)
		told  float64
		wants string
	}{
		"in time":                   {late: []time.Duration{500 * us}, told: 1},
		"late":                      {late: []time.Duration{510 * us}, told: 0.5, wants: "510 us late at p99, 5 % of the median latency of 10.0 ms"},
		"later than the median":     {late: []time.Duration{11 * ms}, told: 0, wants: "11.0 ms late at p99, 110 %"},
		"one of three":              {late: []time.Duration{0, 600 * us, 0}, told: 0.5, wants: "600 us late"},
		"the worst of three":        {late: []time.Duration{600 * us, 12 * ms, 700 * us}, told: 0, wants: "12.0 ms late"},
		"too few for a p99":         {late: []time.Duration{600 * us}, n: 500, told: 0.5, wants: "requests were sent up to 600 us late, 6 % of the median latency"},
		"at once":                   {late: []time.Duration{450 * us}, edit: func(r *loadtest.Requests) { r.Rate = 30000 }, told: 0.5, wants: "in which 14 requests fall due and a batch takes 400 us"},
		"waits for answers":         {late: []time.Duration{11 * ms}, edit: func(r *loadtest.Requests) { r.From, r.Waits = loadtest.FromSend, loadtest.WaitsAnswer }, told: 1},
		"waits for room":            {late: []time.Duration{11 * ms}, edit: func(r *loadtest.Requests) { r.Waits = loadtest.WaitsRoom }, told: 1},
		"receiving from other ones": {late: []time.Duration{11 * ms}, edit: func(r *loadtest.Requests) { r.From = loadtest.FromFirstByte }, told: 1},
	} {
		q := &loadtest.Requests{From: loadtest.FromSchedule, Rate: 200}
		n := c.n
		if n == 0 {
			n = 2000
		}
		for _, late := range c.late {
			q.Processes = append(q.Processes, process(t, n, 10*ms, 400*us, late))
		}
		if c.edit != nil {
			c.edit(q)
		}
		if err := Summarise(q, 1); err != nil {
			t.Fatal(err)
		}
		if q.Told() != c.told || !strings.Contains(q.SenderLate, c.wants) || (q.SenderLate == "") != (c.told == 1) {
			t.Errorf("%s: told %g, want %g; %q", name, q.Told(), c.told, q.SenderLate)
		}
		for _, share := range Shares() {
			if _, known := q.Latency.At(share); known != (share <= c.told && Enough(share, q.Latency.Count)) {
				t.Errorf("%s: p%g is there: %v", name, 100*share, known)
			}
		}
		if _, known := q.Late.At(0.9); !known || q.Processes[0].Latency.Count != int64(n) {
			t.Errorf("%s: what was recorded is not kept", name)
		}
	}
}

// Several processes of callers that wait have their loads on a schedule merged, and judged by
// what is known of their sender.
func TestMergeOnSchedule(t *testing.T) {
	closed := func(rate float64, late time.Duration) *loadtest.Requests {
		return &loadtest.Requests{From: loadtest.FromSend, Waits: loadtest.WaitsAnswer, Arrivals: "closed:2", Processes: []loadtest.Served{process(t, 2000, 1e6, 1e6, 0)},
			OnSchedule: &loadtest.OnSchedule{Rate: rate, Processes: []loadtest.Served{process(t, 3000, 10e6, 1e6, late)}}}
	}
	got, err := Merge([]*loadtest.Requests{closed(100, 0), closed(100, time.Millisecond), nil}, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := got.OnSchedule
	if got.Latency.Count != 4000 || o.Latency.Count != 6000 || len(o.Processes) != 2 || o.Rate != 100 {
		t.Errorf("%d answers, on a schedule %d of %d processes at %g", got.Latency.Count, o.Latency.Count, len(o.Processes), o.Rate)
	}
	if got.Told() != 1 || o.Requests().Told() != 0.5 {
		t.Errorf("told %g, on a schedule %g: %q", got.Told(), o.Requests().Told(), o.SenderLate)
	}
	if _, err := Merge([]*loadtest.Requests{closed(100, 0), closed(101, 0)}, 1); err == nil {
		t.Error("two rates are merged")
	}
}
