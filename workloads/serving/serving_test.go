package serving

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// openOn opens a preset on a device, closed with the test.
func openOn(t testing.TB, d device.Device, preset string, set ...string) *session {
	t.Helper()
	s, err := open(context.Background(), d, workloadtest.Config(t, New(), preset, set...))
	if err != nil {
		t.Fatal(err)
	}
	return workloadtest.Closing(t, s)
}

func onHost(t testing.TB, set ...string) *session {
	t.Helper()
	return openOn(t, workloadtest.Host(t, host.Options{}), "synthetic", set...)
}

// fast makes batches that take some microseconds.
func fast(set ...string) []string { return append([]string{"tau=0.00001", "alpha=0.000001"}, set...) }

// combinations are ways to make, move and answer a batch.
var combinations = [][]string{
	{}, {"max_batch=1"}, {"max_batch=7", "depth=3"}, {"max_batch=6", "split=best"}, {"max_batch=6", "split=best", "pad=on"}, {"max_batch=5", "pad=on"},
	{"streams=shared"}, {"streams=new", "depth=1"}, {"pinned=off"}, {"overload=deadline"}, {"async_copy=off"}, {"sync=step", "streams=new"}, {"sync=every:3"},
	{"max_batch=3", "item_reads=4"}, {"max_batch=6", "graph=on", "pad=on"}, {"max_batch=5", "graph=on", "pad=on", "streams=new", "split=best"}, {"warm=off"},
}

// passes runs the check of each slot, which has to look at every stage that is no wait, and
// a few steps, whose answers have to be their requests'.
func passes(t *testing.T, s *session) {
	t.Helper()
	for i := range s.slots {
		checks, err := s.checkSlot(context.Background(), &s.slots[i])
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, c := range checks {
			seen[c.Stage] = true
			if !c.Pass {
				t.Errorf("%+v", c)
			}
		}
		for _, st := range s.Stages() {
			if st.Kind != gpuprof.WaitStage && !seen[st.Name] {
				t.Errorf("stage %s was not checked", st.Name)
			}
		}
	}
	for i := range 7 {
		if err := s.Step(i, loop.Silent{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.drainSlots(); err != nil || s.wrong != 0 {
		t.Errorf("%v, %d answers belong to another request", err, s.wrong)
	}
}

// Every setting passes the check of every stage, and answers each step's requests.
func TestChecksPass(t *testing.T) {
	for _, set := range combinations {
		t.Run(strings.Join(set, ","), func(t *testing.T) { passes(t, onHost(t, fast(set...)...)) })
	}
}

// The same on the simulated CUDA device.
func TestOnCUDA(t *testing.T) {
	d := workloadtest.Simulated(t, false)
	for _, set := range combinations {
		t.Run(strings.Join(set, ","), func(t *testing.T) { passes(t, openOn(t, d, "synthetic", fast(set...)...)) })
	}
}

// An answer that belongs to another request is seen, in steps and under load.
func TestWrongAnswer(t *testing.T) {
	s := onHost(t, fast("max_batch=4")...)
	net := s.net.(*synthetic)
	net.inputs[2] += 0.25 // after the device was given the others
	l := &s.slots[0]
	l.ids = append(l.ids[:0], 2)
	if err := s.run(l, 0, loop.Silent{}); err != nil {
		t.Fatal(err)
	}
	if err := l.end.Wait(); err != nil {
		t.Fatal(err)
	}
	net.inputs[2] -= 0.25
	if got := s.countWrong(l); got != 1 {
		t.Errorf("%d wrong answers, want 1", got)
	}
	s.wrong = 1
	if _, err := s.Serve(context.Background(), load()); !errors.Is(err, gpuprof.ErrCheck) {
		t.Errorf("%v", err)
	}
}

func load() workloads.Load {
	return workloads.Load{Throughput: 20_000, MinTime: time.Millisecond, MaxTime: 150 * time.Millisecond}
}

// Each kind of arrivals is served to the last request: every one that was scheduled has an
// end, and the books add up (Serve would fail).
func TestServe(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "arrivals.txt")
	if err := os.WriteFile(trace, []byte("0\n0.001\n0.002\n0.003\n0.02\n0.02\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set          []string
		from, waits  string
		rate         float64
		noneRefused  bool
		wantFromSent bool
	}{
		{[]string{"rate=2000"}, loadtest.FromSchedule, "", 2000, true, false},
		{[]string{"load=0.1"}, loadtest.FromSchedule, "", 2000, true, false},
		{[]string{"rate=2000", "max_delay=0.001", "streams=new"}, loadtest.FromSchedule, "", 2000, true, false},
		{[]string{"rate=2000", "split=best", "pad=on", "queue=0", "cv=3"}, loadtest.FromSchedule, "", 2000, true, false},
		{[]string{"load=3", "tau=0.002", "queue=4", "max_batch=1"}, loadtest.FromSchedule, "", 60_000, false, false},
		{[]string{"load=3", "tau=0.002", "queue=4", "overload=refuse-old"}, loadtest.FromSchedule, "", 60_000, false, false},
		{[]string{"load=3", "tau=0.002", "queue=4", "overload=deadline", "slo=0.01"}, loadtest.FromSchedule, "", 60_000, false, false},
		{[]string{"rate=3000", "tau=0.002", "queue=2", "max_batch=1", "overload=block"}, loadtest.FromSchedule, loadtest.WaitsRoom, 3000, true, true},
		{[]string{"arrivals=closed:3"}, loadtest.FromSend, loadtest.WaitsAnswer, 0, true, false},
		{[]string{"arrivals=trace:" + trace}, loadtest.FromSchedule, "", 250, true, false},
	} {
		t.Run(strings.Join(c.set, ","), func(t *testing.T) {
			set := map[string]string{}
			for _, kv := range append(fast(), c.set...) { // the last of a knob
				k, v, _ := strings.Cut(kv, "=")
				set[k] = v
			}
			var list []string
			for k, v := range set {
				list = append(list, k+"="+v)
			}
			s := onHost(t, list...)
			for i := range 3 { // batches of steps are in flight
				if err := s.Step(i, loop.Silent{}); err != nil {
					t.Fatal(err)
				}
			}
			q, err := s.Serve(context.Background(), load())
			if err != nil {
				t.Fatal(err)
			}
			p := q.Processes[0]
			if q.From != c.from || q.Waits != c.waits || q.Rate != c.rate || (q.FromSent != nil) != c.wantFromSent {
				t.Errorf("%s, waits for %q, rate %g, from sent %v", q.From, q.Waits, q.Rate, q.FromSent)
			}
			if p.Completed == 0 || p.Scheduled != p.Completed+p.Refused || p.Open != 0 || p.Failed != 0 || c.noneRefused && p.Refused > 0 || !c.noneRefused && p.Refused == 0 {
				t.Errorf("%d scheduled, %d completed, %d refused, %d open, %d failed", p.Scheduled, p.Completed, p.Refused, p.Open, p.Failed)
			}
			if q.Latency.Count != p.Completed {
				t.Errorf("%d latencies of %d answers", q.Latency.Count, p.Completed)
			}
			if o := q.OnSchedule; (o != nil) != (c.waits == loadtest.WaitsAnswer) {
				t.Errorf("on a schedule: %+v", o)
			} else if o != nil { // as many per second, and a load of its own
				b, sent := o.Processes[0], float64(p.Completed)/p.Seconds
				if math.Abs(o.Rate/sent-1) > 1e-3 || b.Scheduled == 0 || b.Scheduled != b.Completed+b.Refused || b.Open != 0 || b.FromSent != nil {
					t.Errorf("%g per second on a schedule, %g by the callers; %d scheduled, %d answered", o.Rate, sent, b.Scheduled, b.Completed)
				}
			}
			if err := s.Step(4, loop.Silent{}); err != nil { // steps go on after a load
				t.Error(err)
			}
		})
	}
}

// The rate that another process took goes before the settings.
func TestGivenRate(t *testing.T) {
	l := load()
	l.Rate = 1234.5
	q, err := onHost(t, fast("load=0.5")...).Serve(context.Background(), l)
	if err != nil || q.Rate != 1234.5 {
		t.Errorf("%v, %+v", err, q)
	}
	l = load()
	l.Rate = 1500
	if q, err = onHost(t, fast("arrivals=closed:2")...).Serve(context.Background(), l); err != nil || q.Rate != 0 || q.OnSchedule.Rate != 1500 {
		t.Errorf("callers that wait: %v, %+v", err, q)
	}
	l = load()
	l.Throughput = 0
	if _, err := onHost(t, fast()...).Serve(context.Background(), l); !errors.Is(err, gpuprof.ErrInput) {
		t.Errorf("a share of nothing: %v", err)
	}
}

// An interrupt ends the load, and what was answered stays.
func TestInterruptedLoad(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	l := load()
	l.MinTime, l.MaxTime = time.Hour, 2*time.Hour
	l.Progress = func(done, _ float64, _ string) {
		if done > 0 {
			cancel()
		}
	}
	q, err := onHost(t, fast("rate=2000")...).Serve(ctx, l)
	if err != nil || q == nil || q.Processes[0].Scheduled != q.Processes[0].Completed+q.Processes[0].Open {
		t.Errorf("%v, %+v", err, q)
	}
}

// Settings that make no service are refused by name.
func TestRefusals(t *testing.T) {
	for set, words := range map[string]string{
		"load=0.5,rate=100":                   "load=0.5 and rate=100",
		"arrivals=closed:2,rate=100":          "arrivals=closed:2 with load or rate",
		"arrivals=closed:9,queue=8":           "not refused",
		"arrivals=closed:9,overload=deadline": "not refused",
		"load=1,queue=0":                      "load=1 without a bound",
		"queue=16,max_delay=0.1":              "queue=16 with max_batch=32 and max_delay=0.1: the queue is full before a batch is",
		"tau=0,alpha=0":                       "no time",
		"arrivals=closed:0":                   "N from 1 to 65536",
		"arrivals=trace:/no/such":             "names no file",
		"cv=-1":                               "outside 0 to 20",
		"load=nan":                            "not a number",
		"max_delay=1e9":                       "outside 0 to 60",
		"overload=refuse":                     "refuse-new",
		"queue=-1":                            "outside 0",
		"streams=2":                           "own, shared or new",
		"arrivals=http:127.0.0.1":             "names no address of this machine and a port",
		"arrivals=http:example.com:80":        "names no address of this machine and a port",
		"arrivals=http:127.0.0.1:65536":       "names no address of this machine and a port",
		"arrivals=http:":                      "names no address of this machine and a port",
		"arrivals=https:127.0.0.1:1":          "nor trace:FILE nor http:ADDRESS:PORT nor closed:N",
		"arrivals=http:1,load=0.5":            "these arrivals have a rate of their own",
		"arrivals=http:1,queue=0":             "queue=0: what callers from outside send has to be bounded",
		"arrivals=http:1,overload=block":      "overload=block: callers from outside cannot be made to wait",
		"split=on":                            "; use off or best",
		"load=2,queue=0,rate=auto":            "load=2 without a bound",
		"arrivals=trace:,load=auto":           "names no file",
		"slo=0":                               "outside 0.000001 to 3600 s",
		"max_delay=0.1s":                      "is not a number of seconds; use a number of seconds from 0 to 60",
		"rate=1e9":                            "outside 0.001 to 1000000; use auto or a number from 0.001 to 1000000",
		"arrivals=poisson":                    "gamma (which is Poisson with cv=1)",
		"alpha=61":                            "outside 0 to 60",
		"depth=0":                             "outside 1 to 64",
		"max_batch=1025":                      "outside 1 to 1024",
		"graph=on":                            "graph=on with pad=off",
		"graph=on,split=best":                 "graph=on with pad=off",
		"item_reads=4097":                     "from 0 to 4096",
		"sync=every:0":                        "every:",
		"autotune=on":                         "autotune=on with network=synthetic",
	} {
		s := gpuprof.Settings{}
		for _, kv := range strings.Split(set, ",") {
			k, v, _ := strings.Cut(kv, "=")
			s[k] = v
		}
		knobs, err := workloads.Resolve(New(), "synthetic", s)
		if err == nil {
			err = New().Refuse(device.Info{Kind: "host"}, knobs)
		}
		if !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want a usage error with %q", set, err, words)
		}
	}
}

// A service is reached by this machine alone where no address is given.
func TestAddress(t *testing.T) {
	for given, want := range map[string]string{
		"http:8000": "http:127.0.0.1:8000", "http::8000": "http:127.0.0.1:8000", "http:0": "http:127.0.0.1:0", "http:localhost:1": "http:localhost:1",
		"http:0.0.0.0:80": "http:0.0.0.0:80", "http:[::1]:80": "http:[::1]:80", "http:127.0.0.1:080": "http:127.0.0.1:80",
	} {
		if got, err := arrivalsKnob().Canonical(given); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %s", given, got, err, want)
		}
	}
}

func TestSettingsAreKnobs(t *testing.T) {
	workloadtest.ReadsKnobs[struct {
		settings
		loop.Pace
	}](t, Workload{})
}
