package search

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/latency"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// caller is the sleeper as a service: its requests take ten times the step, and it refuses the
// share that its knob says. It notes the loads that it was asked for.
type caller struct {
	sleeper
	asked *[]workloads.Load
}

func (c caller) Knobs() []workloads.Knob {
	return append(c.sleeper.Knobs(), workloads.FloatKnob("refuse", "share", 0.001, 0, 1))
}

type callerSession struct {
	*sleeperSession
	c caller
}

func (c caller) Open(ctx context.Context, d device.Device, cfg workloads.Config) (workloads.Session, error) {
	s, err := c.sleeper.Open(ctx, d, cfg)
	if err != nil {
		return nil, err
	}
	return callerSession{s.(*sleeperSession), c}, nil
}

func (s callerSession) Serve(_ context.Context, l workloads.Load) (*loadtest.Requests, error) {
	*s.c.asked = append(*s.c.asked, l)
	rate := l.Rate
	if rate == 0 {
		rate = 0.5 * l.Throughput
	}
	return served(rate, int(rate*loadShare*l.MaxTime.Seconds()), s.set.Float("refuse"), time.Duration(10*s.set.Int("us"))*time.Microsecond)
}

// Alone implements workloads.Server, of which a search calls Serve alone.
func (callerSession) Alone() ([]gpuprof.Stage, float64) { return nil, 0 }

// served are n requests at a rate, a share of them refused and the rest answered in a time.
func served(rate float64, n int, refused float64, took time.Duration) (*loadtest.Requests, error) {
	h := latency.New()
	gone := int(math.Round(refused * float64(n)))
	for range n - gone {
		h.Record(took)
	}
	rec, err := h.Recorded()
	return &loadtest.Requests{Rate: rate, Processes: []loadtest.Served{{Seconds: float64(n) / rate, Scheduled: int64(n), Completed: int64(n - gone), InTime: int64(n - gone), Refused: int64(gone), Latency: rec}}}, err
}

func callerSide(t *testing.T, w caller, set gpuprof.Settings) Side {
	t.Helper()
	full, err := workloads.Resolve(w, "small", set)
	if err != nil {
		t.Fatal(err)
	}
	return Side{Workload: w, Preset: "small", Knobs: full}
}

// Both sides serve at the rate that the start asks for, whatever their own throughput is; a side
// that refuses too much has no p99, and what serves nothing is refused.
func TestLatencyGoal(t *testing.T) {
	b, w := newBench(t), caller{asked: new([]workloads.Load)}
	l := Limits{Goal: tune.Latency, Time: time.Second, Seed: 1}
	base := callerSide(t, w, gpuprof.Settings{"us": "500"}) // 2,000 a second, of which the half
	o := compareSides(t, b, base, callerSide(t, w, gpuprof.Settings{"us": "250"}), l)
	for _, seen := range []struct {
		by    *tune.Seen
		p50   float64
		pairs int
	}{{o.SeenA, 5e-3, len(o.A)}, {o.SeenB, 2.5e-3, len(o.B)}} {
		if len(seen.by.P50S) != seen.pairs || math.Abs(seen.by.P50S[0]/seen.p50-1) > 0.002 || math.Abs(seen.by.Goodput[0]-990) > 10 {
			t.Errorf("callers saw %+v, want a p50 of %g s and 999 answers per second in %d blocks", seen.by, seen.p50, seen.pairs)
		}
	}
	if text := callersText(o.SeenA, o.SeenB); !strings.HasPrefix(text, "p50 5.0") || !strings.Contains(text, " -> 2.5") || !strings.Contains(text, "goodput 99") {
		t.Errorf("the claim says %q", text)
	}
	d := ratioOf(o.A, o.B)
	if !d.ok || math.Abs(d.ratio-0.5) > 0.002 || math.Abs(o.Rate-1000) > 1 { // three digits of a histogram
		t.Errorf("%+v at %g per second", d, o.Rate)
	}
	for i, load := range *w.asked {
		if i > 0 && (load.Rate != o.Rate || load.MinTime != load.MaxTime || int(load.Rate*loadShare*load.MaxTime.Seconds()) < latencyRequests-1) {
			t.Errorf("load %d: %+v", i, load)
		}
	}
	if t2 := ratioOf(o.TimeA, o.TimeB); t2.ratio != 0.5 {
		t.Errorf("time %v", t2.ratio)
	}
	if o := compareSides(t, b, base, callerSide(t, w, gpuprof.Settings{"us": "500", "refuse": "0.02"}), l); o.Verdict != tune.Failed || !strings.Contains(o.Reason, "were not answered") {
		t.Errorf("%s %q", o.Verdict, o.Reason)
	}
	l.Rate = 300 // of another process
	if o := compareSides(t, b, base, base, l); o.Rate != 300 {
		t.Errorf("at %g per second, want 300", o.Rate)
	}
	l.Rate = 10
	if _, err := b.Compare(t.Context(), base, base, l); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "too few for p99") {
		t.Errorf("%v", err)
	}
	if _, err := b.Compare(t.Context(), sleeperSide(t, nil), sleeperSide(t, nil), l); !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "serves no requests") {
		t.Errorf("%v", err)
	}
}

// A start that refuses too much is the error, whichever side serves first: nothing was found to be
// worse than it. Where it serves, the other side is the one that failed.
func TestStartThatCannotServe(t *testing.T) {
	w := caller{asked: new([]workloads.Load)}
	serves, refuses := callerSide(t, w, gpuprof.Settings{"us": "300"}), callerSide(t, w, gpuprof.Settings{"us": "300", "refuse": "0.5"})
	first := map[bool]int{}
	for seed := range uint64(6) {
		b, l := newBench(t), Limits{Goal: tune.Latency, Time: time.Second, Seed: seed, Rate: 1000}
		first[stats.MirroredOrder(1, seed)[0]]++
		if o, err := b.Compare(t.Context(), refuses, refuses, l); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "were not answered") {
			t.Errorf("seed %d: %+v, %v", seed, o, err)
		}
		if o := compareSides(t, b, serves, refuses, l); o.Verdict != tune.Failed {
			t.Errorf("seed %d: %+v", seed, o)
		}
	}
	if len(first) != 2 {
		t.Errorf("only one side went first: %v", first)
	}
}

// A start that cannot have the goal is refused, and leaves no search to go on with.
func TestStartWithoutTheGoal(t *testing.T) {
	o := fakeOptions(newFakeBench(1), 1)
	o.Bench, o.Goal = refusingBench{}, tune.Latency
	saved := 0
	o.Save = func(*tune.Result) error { saved++; return nil }
	if r, err := Run(t.Context(), o); r != nil || !errors.Is(err, gpuprof.ErrUsage) || saved > 0 {
		t.Errorf("%+v, %v, saved %d times", r, err, saved)
	}
}

type refusingBench struct{}

func (refusingBench) Compare(context.Context, Side, Side, Limits) (*tune.Outcome, error) {
	return nil, gpuprof.Errorf(gpuprof.ErrUsage, "it serves no requests")
}

// The percentile is of all that was scheduled: what is refused was never answered.
func TestAnsweredWithin(t *testing.T) {
	for _, c := range []struct {
		n       int
		refused float64
		ok      bool
	}{{1000, 0, true}, {999, 0, false}, {10000, 0.01, true}, {10000, 0.011, false}, {0, 0, false}} {
		q, err := served(100, c.n, c.refused, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		v, err := answeredWithin(q, latencyShare)
		if (err == nil) != c.ok || c.ok && math.Abs(v-1e-3) > 2e-6 {
			t.Errorf("%+v: %g, %v", c, v, err)
		}
	}
	// Half of what is answered takes long: of 1,000 with 5 refused, p99 is at 990 of 995.
	h := latency.New()
	for i := range 995 {
		h.Record(time.Duration(i+1) * time.Millisecond)
	}
	rec, err := h.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	q := &loadtest.Requests{Rate: 1, Processes: []loadtest.Served{{Seconds: 1, Scheduled: 1000, Completed: 995, Latency: rec}}}
	if v, err := answeredWithin(q, latencyShare); err != nil || math.Abs(v-0.990) > 0.002 {
		t.Errorf("%g, %v", v, err)
	}
}

// A search fixes the rate by its first measurement, gives it to every other and to fresh
// processes, and keeps it for a resumed one.
func TestLatencySearch(t *testing.T) {
	f := newFakeBench(1)
	o := fakeOptions(f, 1)
	o.Goal = tune.Latency
	var rates []float64
	o.Bench = ratedBench{f, &rates}
	fresh := o.Fresh
	o.Fresh = func(ctx context.Context, a, b Side, l Limits) (*tune.Outcome, error) {
		rates = append(rates, l.Rate)
		return fresh(ctx, a, b, l)
	}
	r := run(t, o)
	if r.Rate != 321 || r.Unit != "s" || r.Recommended == nil {
		t.Fatalf("rate %g, unit %q, %+v", r.Rate, r.Unit, r.Conclusion)
	}
	if rates[0] != 0 || slices.ContainsFunc(rates[1:], func(v float64) bool { return v != 321 }) {
		t.Errorf("rates %v", rates)
	}
	rates = nil
	o.Resume, o.Budget = r, 2*o.Budget
	if again := run(t, o); again.Rate != 321 || slices.Contains(rates, 0) {
		t.Errorf("resumed: %g, %v", again.Rate, rates)
	}
}

type ratedBench struct {
	*fakeBench
	rates *[]float64
}

func (r ratedBench) Compare(ctx context.Context, a, b Side, l Limits) (*tune.Outcome, error) {
	*r.rates = append(*r.rates, l.Rate)
	o, err := r.fakeBench.Compare(ctx, a, b, l)
	if o != nil {
		o.Rate = 321
	}
	return o, err
}

// Knobs that act under load alone are tried where the goal is what callers see.
func TestTriedUnderLoad(t *testing.T) {
	w := delays{}
	base := gpuprof.Settings{"delay": "0"}
	for goal, want := range map[tune.Goal]int{tune.Time: 0, tune.Latency: 2} {
		got, err := listAlternatives(w, goal, base, nil, nil, 1)
		if err != nil || len(got) != want {
			t.Errorf("%s: %v, %v", goal, got, err)
		}
	}
}

type delays struct{ fake }

func (delays) Knobs() []workloads.Knob {
	k := workloads.IntKnob("delay", "", 0, 0, 9)
	k.Try, k.TryUnderLoad = []string{}, []string{"0", "1", "2"}
	return []workloads.Knob{k}
}

// A claim's latencies say in how many blocks they are of a sender that was late, and so does the result.
func TestLateSenderOfClaims(t *testing.T) {
	q, err := served(1000, 2000, 0, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	block := func(late ...string) *tune.Seen {
		s := &bench{}
		for _, q.SenderLate = range late {
			s.sess = fixedServer{q: q}
			if _, err := new(InProcess).load(t.Context(), s, 1000); err != nil {
				t.Fatal(err)
			}
		}
		return &s.seen
	}
	for _, c := range []struct {
		a, b         *tune.Seen
		late, blocks int
		text         string
	}{
		{block("", ""), block("", ""), 0, 4, ""},
		{block("", "late"), block("late", "late"), 3, 4, "the sender late in 3 of 4 blocks, whose tail measures the sender"},
	} {
		text := callersText(c.a, c.b)
		if !strings.HasPrefix(text, "p50 ") || !strings.HasSuffix(text, c.text) || c.text == "" && strings.Contains(text, "late") {
			t.Errorf("%q, want %q", text, c.text)
		}
		r := &tune.Result{Journal: []tune.Entry{{Outcome: &tune.Outcome{SeenA: c.a, SeenB: c.b}}, {}, {Outcome: &tune.Outcome{}}}}
		if late, blocks := r.SenderLate(); late != c.late || blocks != c.blocks {
			t.Errorf("late in %d of %d blocks, want %d of %d", late, blocks, c.late, c.blocks)
		}
	}
}

// fixedServer serves one load, whatever it is asked for.
type fixedServer struct {
	workloads.Session
	q *loadtest.Requests
}

func (f fixedServer) Alone() ([]gpuprof.Stage, float64) { return nil, 0 }

func (f fixedServer) Serve(context.Context, workloads.Load) (*loadtest.Requests, error) {
	return f.q, nil
}
