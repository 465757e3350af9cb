package compare

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

const (
	refusedMetric = "refused"
	// refusedFloor is the share of requests that a service may refuse in a chance burst. A higher share of refused
	// requests is judged by its excess over the floor, since a share of zero has no ratio.
	refusedFloor = 0.01
)

// addRequests adds the latencies and rates that a service's clients measured, one figure per process, each with its
// request rate. It drops the knobs that set the rate, since the metrics hold it.
func (r *Result) addRequests(q *loadtest.Requests) {
	if q == nil {
		return
	}
	for _, k := range q.RateKnobs {
		delete(r.Knobs, k)
	}
	if q.Waits == loadtest.WaitsRoom {
		r.Ungated = "its sender waited for room in the queue, which hides how long its requests should have taken"
	}
	add := func(name, unit string, higher, late bool, values []float64) {
		m := MetricData{Metric: Metric{Name: name, Unit: unit, HigherIsBetter: higher}, Rate: q.Rate, UnderLoad: true, SenderLate: late}
		for _, v := range values {
			m.Runs = append(m.Runs, []float64{v})
		}
		r.Metrics = append(r.Metrics, m)
	}
	for _, share := range []float64{0.5, 0.99, 0.999} {
		if values, ok := latency.PerProcess(q, share); ok {
			add(loadtest.Percentile{Share: share}.Metric(), "s", false, share > q.Told(), values)
		}
	}
	var goodput, refused []float64
	for i := range q.Processes {
		p := &q.Processes[i]
		if p.Seconds <= 0 || p.Scheduled == 0 {
			return
		}
		goodput = append(goodput, float64(p.InTime)/p.Seconds)
		refused = append(refused, float64(p.Refused)/float64(p.Scheduled))
	}
	add("goodput", "requests/s", true, q.Told() == 0, goodput)
	add(refusedMetric, "share", false, false, refused)
}

// Rate returns the request rate of the measurement, requests per second; 0 for none.
func (r *Result) Rate() float64 {
	for i := range r.Metrics {
		if rate := r.Metrics[i].Rate; rate > 0 {
			return rate
		}
	}
	return 0
}

// filterByRate removes from stored sessions the request metrics measured at another rate than new's. If no session
// has new's rate, it keeps the latest session's rate. A change of rate would appear as a change of the program.
func filterByRate(sessions []*Result, new *Result) []*Result {
	rate, found := new.Rate(), false
	for _, s := range sessions {
		found = found || s.Rate() == rate
	}
	if !found {
		rate = sessions[len(sessions)-1].Rate()
	}
	out := slices.Clone(sessions)
	for i, s := range sessions {
		if s.Rate() != rate {
			kept := *s
			kept.Metrics = slices.DeleteFunc(slices.Clone(s.Metrics), func(m MetricData) bool { return m.UnderLoad })
			out[i] = &kept
		}
	}
	return out
}

// isUnderLoad reports whether callers of a service measured the metric.
func (e *entry) isUnderLoad() bool {
	return e.sides[0] != nil && e.sides[0].UnderLoad || e.sides[1] != nil && e.sides[1].UnderLoad
}

// checkGated returns an error for sides that a gate must not judge.
func checkGated(o Options, sides ...*Result) error {
	for _, r := range sides {
		if o.Judge && r.Ungated != "" {
			return gpuprof.Errorf(gpuprof.ErrUsage, "gating %s: %s", r.Source, r.Ungated).WithFix("let a full queue refuse requests and measure again, or use gpuprof compare")
		}
	}
	return nil
}

// rateMismatch states that the sides' request rates differ, with the fix; "" if they agree.
func rateMismatch(old, now *MetricData) string {
	if old == nil || now == nil || old.Rate == now.Rate {
		return ""
	}
	if old.Rate == 0 || now.Rate == 0 {
		return "one side has a rate of requests and the other's callers wait for their answers"
	}
	return fmt.Sprintf("the old side served %g requests per second and the new one %g: measure the new one with --set rate=%g, or with --baseline of the old run", old.Rate, now.Rate, old.Rate)
}
