package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// serves is a workload whose session also serves: what it is asked for and what it returns.
type serves struct {
	fake
	out   *loadtest.Requests
	err   error
	asked *workloads.Load
	// Of a request alone.
	alone  []gpuprof.Stage
	aloneS float64
}

type servingSession struct {
	*fakeSession
	s serves
}

func (s serves) Open(ctx context.Context, d device.Device, c workloads.Config) (workloads.Session, error) {
	in, err := s.fake.Open(ctx, d, c)
	if err != nil {
		return nil, err
	}
	return servingSession{in.(*fakeSession), s}, nil
}

func (s servingSession) Serve(_ context.Context, l workloads.Load) (*loadtest.Requests, error) {
	*s.s.asked = l
	return s.s.out, s.s.err
}

func (s servingSession) Alone() ([]gpuprof.Stage, float64) { return s.s.alone, s.s.aloneS }

func (s serves) plan() Plan {
	p := s.fake.plan()
	p.Workload = s
	return p
}

// served is 20 blocks of a second with 100 requests each of a latency, half of it in service.
func served(t *testing.T, took, late time.Duration, rate float64) *loadtest.Requests {
	t.Helper()
	return servedIn(t, 100, took, took/2, late, rate)
}

func servedIn(t *testing.T, block int, took, service, late time.Duration, rate float64) *loadtest.Requests {
	t.Helper()
	n := 20 * block
	record := func(d time.Duration, n int) loadtest.Recorded {
		h := latency.New()
		for range n {
			h.Record(d)
		}
		r, err := h.Recorded()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	p := loadtest.Served{Seconds: 20, Scheduled: int64(n), Completed: int64(n), InTime: int64(n / 2),
		Latency: record(took, n), Queue: record(took-service, n), Service: record(service, n), Late: record(late, n)}
	for i := range 20 {
		p.Blocks = append(p.Blocks, loadtest.ServedBlock{StartS: float64(i), Seconds: 1, Completed: int64(block), Latency: record(took, block)})
	}
	q := &loadtest.Requests{Arrivals: "gamma", Rate: rate, From: loadtest.FromSchedule, SLO: 0.1, Processes: []loadtest.Served{p}}
	if err := latency.Summarise(q, 1); err != nil {
		t.Fatal(err)
	}
	return q
}

func runServing(t *testing.T, s serves, change func(*Plan)) (*gpuprof.Run, error) {
	t.Helper()
	s.fake = fake{spin: 100 * time.Microsecond}
	s.asked = &workloads.Load{}
	p := s.plan()
	p.Samples, p.MinTime = 10, 7*time.Millisecond
	if change != nil {
		change(&p)
	}
	return Run(context.Background(), openHost(t), p)
}

func hasWarning(r *gpuprof.Run, code string) bool {
	return slices.ContainsFunc(r.Warnings, func(w gpuprof.Warning) bool { return w.Code == code })
}

// The load comes after the steps, with the throughput that they have.
func TestRequests(t *testing.T) {
	var asked workloads.Load
	s := serves{out: served(t, time.Millisecond, time.Microsecond, 100)}
	s.fake, s.asked = fake{spin: 100 * time.Microsecond}, &asked
	p := s.plan()
	p.Samples, p.Rate = 10, 12
	r, err := Run(context.Background(), openHost(t), p)
	if err != nil || r.Status != gpuprof.Complete || r.Requests != s.out {
		t.Fatalf("%v, %+v", err, r)
	}
	if asked.Rate != 12 || asked.MinTime != p.MinTime || asked.MaxTime != p.MaxTime || asked.Throughput != r.Throughput.Series.Median {
		t.Errorf("asked for %+v at %g", asked, r.Throughput.Series.Median)
	}
	if hasWarning(r, "generator-late") || hasWarning(r, "few-requests") {
		t.Errorf("%+v", r.Warnings)
	}
}

// Where probes are too dear the run's throughput is that of the steps without them, and so is
// the one that the load is a share of.
func TestRequestsOfBareSteps(t *testing.T) {
	var asked workloads.Load
	s := serves{out: served(t, time.Millisecond, time.Microsecond, 100)}
	s.fake, s.asked = fake{spin: 20 * time.Microsecond}, &asked
	p := s.plan()
	p.Samples = 60
	r, err := Run(context.Background(), slowEvents{openHost(t), 200 * time.Microsecond}, p)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, w := range r.Warnings {
		if w.Code == "stages-apart" {
			named++
		}
	}
	// On a machine so busy that the probes are not shown to be dear, neither side is without them.
	if asked.Throughput != r.Throughput.Series.Median || named > 1 || (named == 1) != (r.ProbedStep != nil) {
		t.Errorf("asked at %g, the run has %g; %d warnings, probed step %v", asked.Throughput, r.Throughput.Series.Median, named, r.ProbedStep != nil)
	}
}

// A sender that is late is named; one that is later than the answers ends the trust in the run.
func TestLateSender(t *testing.T) {
	r, err := runServing(t, serves{out: served(t, time.Millisecond, 60*time.Microsecond, 100)}, nil)
	if err != nil || !hasWarning(r, "generator-late") || r.Status != gpuprof.Complete {
		t.Errorf("%v, %s, %+v", err, r.Status, r.Warnings)
	}
	// A queue that has grown has long latencies. In 60 ms 12 requests fall due, and a batch takes 4 ms.
	for late, warns := range map[time.Duration]bool{60 * time.Millisecond: true, 40 * time.Millisecond: false} {
		grown := servedIn(t, 100, 4*time.Second, 4*time.Millisecond, late, 200)
		r, err = runServing(t, serves{out: grown}, nil)
		if err != nil || hasWarning(r, "generator-late") != warns || r.Status != gpuprof.Complete {
			t.Errorf("%v late: %v, %s, %+v", late, err, r.Status, r.Warnings)
		}
	}
	r, err = runServing(t, serves{out: served(t, time.Millisecond, 2*time.Millisecond, 100)}, nil)
	if err == nil || r.Status != gpuprof.Partial || r.Reason != "generator" || r.Requests == nil || r.Step == nil {
		t.Errorf("%v, %s %s", err, r.Status, r.Reason)
	}
	// With too few requests for a p99 the latest one counts, and is not called a p99.
	few := servedIn(t, 10, time.Millisecond, time.Millisecond, 2*time.Millisecond, 100)
	r, err = runServing(t, serves{out: few}, nil)
	if err == nil || strings.Contains(fmt.Sprint(err, r.Warnings), "p99") || !strings.Contains(fmt.Sprint(r.Warnings), "requests were sent up to 2.00 ms late") {
		t.Errorf("%v, %+v", err, r.Warnings)
	}
}

// A service that refuses requests below the throughput of its steps cannot do under load what
// they say. One that is asked for more than that is expected to.
func TestRefusedBelowThroughput(t *testing.T) {
	for name, c := range map[string]struct {
		rate, throughput float64
		refused          int64
		warns            bool
	}{
		"as it should be": {70, 100, 0, false}, "few": {70, 100, 19, false}, "below": {70, 100, 360, true}, "above": {130, 100, 360, false},
		"unknown": {70, 0, 360, false},
	} {
		q := served(t, time.Millisecond, 0, c.rate)
		q.Throughput = c.throughput
		p := &q.Processes[0]
		p.Refused, p.Completed = c.refused, p.Completed-c.refused
		r, err := runServing(t, serves{out: q}, nil)
		if err != nil || hasWarning(r, "refused-below-throughput") != c.warns {
			t.Errorf("%s: %v, %+v", name, err, r.Warnings)
		}
		if c.warns && !strings.Contains(fmt.Sprint(r.Warnings), "18 % of the requests were refused at a rate of 0.70 of the throughput: under load the service answered 82.0 requests/s, and 100 requests/s in the steps") {
			t.Errorf("%s: %+v", name, r.Warnings)
		}
	}
	// Nearly all refused: more time would bring no answers.
	q := served(t, time.Millisecond, 0, 70)
	q.Processes[0].Refused, q.Processes[0].Completed = 1999, 1
	r, err := runServing(t, serves{out: q}, nil)
	if text := fmt.Sprint(r.Warnings); err != nil || !strings.Contains(text, "of 2000 requests after the warm-up of the load 1 were answered") || !strings.Contains(text, "lower the rate") {
		t.Errorf("%v, %s", err, text)
	}
}

// A warm-up of fewer than 20 relaxation times is said; one of as many is not, nor one of a load at which no queue settles.
func TestShortWarmUp(t *testing.T) {
	for _, c := range []struct {
		throughput, warm float64
		warns            bool
	}{
		// 100 per second at 0.25 of 400 forget in 2.5 ms / (1 - 0.5)^2 = 10 ms.
		{400, 0.199, true}, {400, 0.2, false}, {101, 0.1, false}, {0, 0, false},
	} {
		out := served(t, time.Millisecond, time.Microsecond, 100)
		out.Throughput, out.Processes[0].WarmUpS = c.throughput, c.warm
		r, err := runServing(t, serves{out: out}, nil)
		if err != nil || hasWarning(r, "load-warm-up-cut") != c.warns {
			t.Errorf("%+v: %v, %+v", c, err, r.Warnings)
		}
	}
}

// Books that do not add up leave no times; a failure of the device keeps the steps.
func TestServeFails(t *testing.T) {
	r, err := runServing(t, serves{out: served(t, time.Millisecond, 0, 100), err: gpuprof.Errorf(gpuprof.ErrCheck, "Little's law")}, nil)
	if !errors.Is(err, gpuprof.ErrCheck) || r.Status != gpuprof.Invalid || r.Step != nil || r.Requests != nil {
		t.Errorf("%v, %s, %+v", err, r.Status, r.Requests)
	}
	r, err = runServing(t, serves{out: served(t, time.Millisecond, 0, 100), err: gpuprof.Errorf(gpuprof.ErrDevice, "lost")}, nil)
	if !errors.Is(err, gpuprof.ErrDevice) || r.Status != gpuprof.Partial || r.Step == nil || r.Requests == nil {
		t.Errorf("%v, %s", err, r.Status)
	}
	r, err = runServing(t, serves{}, func(p *Plan) { p.NoRequests = true })
	if err != nil || r.Requests != nil {
		t.Errorf("%v, %+v", err, r.Requests)
	}
}

// Turns end with a load where the caller asks for one, at its rate, and serve none otherwise.
func TestTurnsThenLoad(t *testing.T) {
	for _, ends := range []error{io.EOF, LastLoad{Rate: 77, MinTime: time.Second, MaxTime: time.Minute}} {
		asked := &workloads.Load{}
		s := serves{fake: fake{spin: 100 * time.Microsecond}, out: served(t, time.Millisecond, 0, 77), asked: asked}
		var first Turn
		calls := 0
		run, err := RunTurns(t.Context(), openHost(t), s.plan(), func(last Turn) (time.Duration, error) {
			if calls++; calls == 1 {
				first = last
			}
			if calls > 2 {
				return 0, ends
			}
			return time.Millisecond, nil
		})
		if err != nil || !first.Serves || run.Status != gpuprof.Complete || run.Step.N() == 0 {
			t.Fatalf("%v, %+v, %s", err, first, run.Status)
		}
		if errors.Is(ends, io.EOF) {
			if run.Requests != nil || asked.MaxTime != 0 {
				t.Errorf("a load that was not asked for: %+v", asked)
			}
			continue
		}
		if run.Requests == nil || asked.Rate != 77 || asked.MinTime != time.Second || asked.MaxTime != time.Minute || !(asked.Throughput > 0) {
			t.Errorf("asked for %+v", asked)
		}
	}
}

// The least latency is of the parts of a request alone at the run's peak rates; one that is longer than the latencies is
// withheld, and that of several processes is the least.
func TestLatencyFloor(t *testing.T) {
	parts := []gpuprof.Stage{{Name: "h2d", Role: gpuprof.RoleTransfer, Minimum: gpuprof.Cost{BytesRead: 1000, BytesWritten: 1000}}, {Name: "forward", Minimum: gpuprof.Cost{Flops: 2e5}}}
	var runs []*gpuprof.Run
	cache := openHost(t).Info().CacheBytes
	for _, known := range []float64{2e-4, 0, 2e-3} {
		q := served(t, time.Millisecond, 0, 100)
		r, err := runServing(t, serves{out: q, alone: parts, aloneS: known}, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := known
		for _, st := range parts {
			want += r.Ceilings.Bound(st.Minimum, cache).S
		}
		if known > 1e-3 {
			want = 0
		}
		if got := r.Requests.FloorS; got != want || known == 0 && got <= 0 {
			t.Errorf("%g s are known: a floor of %g, want %g", known, got, want)
		}
		runs = append(runs, r)
	}
	m, err := Merge(runs)
	if err != nil || m.Requests.FloorS != runs[1].Requests.FloorS {
		t.Errorf("%v; the floor of three processes is %g, want %g", err, m.Requests.FloorS, runs[1].Requests.FloorS)
	}
}

// Processes at one rate make one distribution; those at two are refused.
func TestMergeRequests(t *testing.T) {
	var runs []*gpuprof.Run
	for i := range 3 {
		r, err := runServing(t, serves{out: served(t, time.Duration(i+1)*time.Millisecond, 0, 100)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	m, err := Merge(runs)
	if err != nil || m.Requests == nil || len(m.Requests.Processes) != 3 || m.Requests.Latency.Count != 6000 {
		t.Fatalf("%v, %+v", err, m)
	}
	p, _ := m.Requests.Latency.At(0.5)
	if p.CI95 == nil || p.CI95[0] > 1e-3 || p.CI95[1] < 3e-3 {
		t.Errorf("%+v: the interval is that of three processes", p)
	}
	runs[1].Requests.Rate = 99
	if _, err := Merge(runs); err == nil || !strings.Contains(err.Error(), "99 requests per second") {
		t.Errorf("%v", err)
	}
}

// A run that listened and was asked nothing says that, and not how many of no requests were answered.
func TestNoRequestCame(t *testing.T) {
	out := &loadtest.Requests{From: loadtest.FromFirstByte, SLO: 0.1, Processes: []loadtest.Served{{}}}
	r, err := runServing(t, serves{out: out}, nil)
	if err != nil || !slices.ContainsFunc(r.Warnings, func(w gpuprof.Warning) bool { return w.Text == "no request came while the run listened" }) {
		t.Errorf("%v, %+v", err, r)
	}
}
