package baseline

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// shifted is a run of six processes, all times times f, with noise of 0.3 %
// between processes.
func shifted(rng *rand.Rand, f float64, days int) *gpuprof.Run {
	r := run(6, 20, days)
	for p := range r.Step.Runs {
		g := f * (1 + 0.003*rng.NormFloat64())
		for i := range r.Step.Runs[p] {
			r.Step.Runs[p][i] *= g
			r.Stages[0].Exposed.Runs[p][i] *= g
			r.Stages[1].Exposed.Runs[p][i] *= g
			r.Throughput.Series.Runs[p][i] /= g
		}
	}
	return r
}

// TestStoredBaselineDecides: sessions that differ by 1 % let an unchanged
// program pass and find one that is 12 % slower, through the file.
func TestStoredBaselineDecides(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := Open(t.TempDir())
	idle := func(r *gpuprof.Run) *gpuprof.Run { // every workload has stages that take no time
		zeros := &gpuprof.Series{Unit: "s"}
		for range r.Step.Runs {
			zeros.Runs = append(zeros.Runs, make([]float64, len(r.Step.Runs[0])))
		}
		r.Stages = append(r.Stages, gpuprof.StageResult{Name: "sync", Parent: "step", Exposed: zeros})
		return r
	}
	for day := range 12 {
		add(t, s, 0, idle(shifted(rng, 1+0.01*rng.NormFloat64(), day)))
	}
	b, err := s.Find(FingerprintOf(run(6, 20, 99)))
	if err != nil {
		t.Fatal(err)
	}
	for want, f := range map[compare.Verdict]float64{compare.Pass: 1, compare.Regressed: 1.12, compare.Improved: 0.85} {
		now, err := compare.FromRun(idle(shifted(rng, f, 99)))
		if err != nil {
			t.Fatal(err)
		}
		c, err := compare.CompareStored(b.Results(), now, compare.Options{Judge: true, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if c.Verdict != want || c.SpreadAssumed {
			t.Errorf("times %g: %s, want %s (%+v)", f, c.Verdict, want, c.Metrics[0])
		}
	}
}

// served adds what callers saw at a rate to a run: six processes of 2,000 requests that take some time.
func served(t *testing.T, r *gpuprof.Run, rate float64, took time.Duration) *gpuprof.Run {
	t.Helper()
	q := &loadtest.Requests{Rate: rate, RateKnobs: []string{"load", "rate"}}
	for i := range 6 {
		h := latency.New()
		for range 2000 {
			h.Record(took + time.Duration(i*5%6)*took/200 + time.Duration(r.Started.Day()))
		}
		rec, err := h.Recorded()
		if err != nil {
			t.Fatal(err)
		}
		q.Processes = append(q.Processes, loadtest.Served{Seconds: 20, Scheduled: 2000, Completed: 2000, InTime: 2000, Latency: rec})
	}
	r.Requests = q
	r.Knobs["load"], r.Knobs["rate"] = "auto", strconv.FormatFloat(rate, 'g', -1, 64)
	r.ModelKnobs = append(slices.Clone(r.ModelKnobs), "load", "rate")
	return r
}

// againstStored compares a run with the sessions stored for it, by all metrics or some alone.
func againstStored(t *testing.T, s *Store, r *gpuprof.Run, only ...string) *compare.Comparison {
	t.Helper()
	b, err := s.Find(FingerprintOf(r))
	if err != nil {
		t.Fatal(err)
	}
	now, err := compare.FromRun(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := compare.CompareStored(b.Results(), now, compare.Options{Judge: true, Seed: 1, Only: only})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestStoredRate: a stored baseline keeps the rate of requests, finds a slower service at it however the rate was set, and
// says at which rate another one would compare. Sessions of other rates say nothing.
func TestStoredRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	s := Open(t.TempDir())
	for day := range 3 {
		add(t, s, 0, served(t, shifted(rng, 1, day), 100, 10*time.Millisecond))
	}
	add(t, s, 0, served(t, shifted(rng, 1, 4), 200, 90*time.Millisecond))
	for _, c := range []struct {
		rate float64
		took time.Duration
		want compare.Verdict
		why  string
	}{
		{100, 10 * time.Millisecond, compare.Same, ""}, {100, 15 * time.Millisecond, compare.Regressed, ""}, {100, 7 * time.Millisecond, compare.Improved, ""},
		{200, 120 * time.Millisecond, compare.Regressed, ""}, {300, 10 * time.Millisecond, compare.NotComparable, "--set rate=200"},
	} {
		r := served(t, shifted(rng, 1, 9), c.rate, c.took)
		r.Knobs["load"], r.Knobs["rate"] = "0.5", "auto"
		got := againstStored(t, s, r)
		at := slices.IndexFunc(got.Metrics, func(m compare.MetricResult) bool { return m.Name == "latency/p99" })
		if m := got.Metrics[at]; m.Verdict != c.want || !strings.Contains(m.Reason, c.why) {
			t.Errorf("%s at %g per second: %s (%s), want %s", c.took, c.rate, m.Verdict, m.Reason, c.want)
		}
	}
	late, err := compare.FromRun(served(t, shifted(rng, 1, 9), 100, 10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	for i := range late.Metrics {
		late.Metrics[i].SenderLate = late.Metrics[i].UnderLoad
	}
	kept := SessionOf(late)
	if !slices.EqualFunc(kept.Result("").Metrics, late.Metrics, func(a, b compare.MetricData) bool { return a.SenderLate == b.SenderLate && a.Rate == b.Rate }) {
		t.Errorf("what is kept does not say that the sender was late: %+v", kept.Metrics)
	}
	// A service that begins to refuse is found beside sessions that refused nothing.
	refuses := served(t, shifted(rng, 1, 9), 100, 10*time.Millisecond)
	for i := range refuses.Requests.Processes {
		refuses.Requests.Processes[i].Refused = 100
	}
	if got := againstStored(t, s, refuses, "refused"); got.Verdict != compare.Regressed {
		t.Errorf("5 %% refused beside none: %+v", got)
	}
	waits := served(t, shifted(rng, 1, 5), 100, 10*time.Millisecond)
	waits.Requests.Waits = loadtest.WaitsRoom
	if _, _, err := s.Add([]*gpuprof.Run{waits}, Provenance{}, 0); err == nil || !strings.Contains(err.Error(), "waited for room") {
		t.Errorf("a run whose sender waited: %v", err)
	}
}

// TestThinningChangesNoVerdict: the same sessions whole and thinned out give
// the same ratios.
func TestThinningChangesNoVerdict(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s := Open(t.TempDir())
	var whole []*compare.Result
	for day := range 3 {
		r := shifted(rng, 1, day)
		r.Started = r.Started.Add(time.Hour)
		add(t, s, 0, r)
		w, err := compare.FromRun(r)
		if err != nil {
			t.Fatal(err)
		}
		whole = append(whole, w)
	}
	b, err := s.Show("e3nn-small")
	if err != nil {
		t.Fatal(err)
	}
	now, err := compare.FromRun(shifted(rng, 1.1, 9))
	if err != nil {
		t.Fatal(err)
	}
	o := compare.Options{Judge: true, Seed: 1}
	x, err := compare.CompareStored(whole, now, o)
	if err != nil {
		t.Fatal(err)
	}
	y, err := compare.CompareStored(b.Results(), now, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Metrics {
		p, q := x.Metrics[i], y.Metrics[i]
		if p.Name != q.Name || p.Verdict != q.Verdict || float64(p.Ratio)/float64(q.Ratio) > 1+1e-7 || float64(q.Ratio)/float64(p.Ratio) > 1+1e-7 {
			t.Errorf("whole %+v\nthinned %+v", p, q)
		}
	}
	if !y.SpreadAssumed || y.SessionSpread < 0.0099 {
		t.Errorf("three sessions: assumed %v, spread %v", y.SpreadAssumed, y.SessionSpread)
	}
}
