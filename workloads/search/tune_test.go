package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/collate"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
)

func run(t *testing.T, o Options) *tune.Result {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The search finds what no knob does alone, and leaves out what hurts beside
// the others.
func TestSearchRespectsInteractions(t *testing.T) {
	for seed := range uint64(2) {
		r := run(t, fakeOptions(newFakeBench(seed+1), seed+1))
		got := r.Recommended.Knobs
		for _, k := range []string{"cache", "pipe", "twin", "twin2"} {
			if got[k] != "on" {
				t.Errorf("seed %d: %s is not in %v", seed, k, got)
			}
		}
		if got["clash"] != "" || got["explode"] != "" || got["slow"] != "" || got["round"] != "" || got["size"] != "" || got["mem"] != "" {
			t.Errorf("seed %d: %v holds what hurts, fails or must not be touched", seed, got)
		}
		if n := got.Int("batch"); n < 64 {
			t.Errorf("seed %d: batch %d", seed, n)
		}
		want := trueCost(With(resolved(t), changes(got)...)) / trueCost(resolved(t))
		if r.Recommended.Ratio < want*0.99 || r.Recommended.Ratio > want*1.01 || r.Recommended.CI95[1] >= 1 || !r.Recommended.Confirmed {
			t.Errorf("seed %d: ratio %v %v, confirmed %v; want %.3f", seed, r.Recommended.Ratio, r.Recommended.CI95, r.Recommended.Confirmed, want)
		}
		if r.Status != gpuprof.Complete || !strings.Contains(r.Recommended.Command, "--set cache=on") {
			t.Errorf("seed %d: %s, %s", seed, r.Status, r.Recommended.Command)
		}
		if r.Recommended.PaybackSteps <= 0 || r.Recommended.OneTime["autotune_s"] == 0 {
			t.Errorf("seed %d: pays back %v after %v steps", seed, r.Recommended.OneTime, r.Recommended.PaybackSteps)
		}
	}
}

func resolved(t *testing.T) gpuprof.Settings {
	t.Helper()
	s, err := workloads.Resolve(fake{}, "small", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func changes(s gpuprof.Settings) (out []Change) {
	for k, v := range s {
		out = append(out, Change{Knob: k, To: v})
	}
	return out
}

func TestEffects(t *testing.T) {
	r := run(t, fakeOptions(newFakeBench(1), 1))
	want := map[string]tune.Verdict{"cache=on": tune.Faster, "slow=on": tune.Slower, "pipe=on": tune.None, "twin=on": tune.None, "batch=64": tune.Faster, "batch=8": tune.Slower,
		"mem=huge": tune.Failed, "dev=gpu": tune.Refused, "round=bf16": tune.Refused, "clash=on": tune.Faster, "explode=on": tune.Faster}
	for _, f := range r.Effects {
		key := f.Knob + "=" + f.To
		if v, ok := want[key]; ok && v != f.Verdict {
			t.Errorf("%s is %s (%v %v), want %s", key, f.Verdict, f.Ratio, f.CI95, v)
		}
		delete(want, key)
		if f.Knob == "size" {
			t.Error("a model knob was turned")
		}
		if (f.Verdict == tune.Refused || f.Verdict == tune.Failed) && f.Reason == "" {
			t.Errorf("%s is %s without a reason", key, f.Verdict)
		}
	}
	if len(want) > 0 {
		t.Errorf("not in the table: %v", want)
	}
	for _, key := range []string{"mem=huge", "dev=gpu", "round=bf16"} {
		if !slices.ContainsFunc(r.Failed, func(f tune.Failure) bool { return strings.Contains(tune.DescribeSettings(f.Knobs), key) }) {
			t.Errorf("%s is not in failed: %v", key, r.Failed)
		}
	}
	if !slices.ContainsFunc(r.Failed, func(f tune.Failure) bool { return f.Knobs["cache"] == "on" && f.Knobs["explode"] == "on" }) {
		t.Errorf("the combination that is out of memory is not in failed: %v", r.Failed)
	}
	if len(r.Curves) != 1 || r.Curves[0].Knob != "batch" || r.Curves[0].Knee != "64" || len(r.Curves[0].Points) != 5 {
		t.Errorf("curves %+v", r.Curves)
	}
}

func TestDefaultIsBest(t *testing.T) {
	f := newFakeBench(3)
	f.flat = true
	r := run(t, fakeOptions(f, 3))
	if r.Recommended != nil || r.Conclusion.Verdict != tune.DefaultBest || !strings.Contains(r.Conclusion.Text, "the default is best") {
		t.Errorf("%+v, %+v", r.Recommended, r.Conclusion)
	}
}

func TestGoals(t *testing.T) {
	o := fakeOptions(newFakeBench(1), 1)
	o.Goal, o.Only = tune.Throughput, []string{"cache"}
	r := run(t, o)
	if r.Recommended.Ratio < 1.23 || r.Recommended.Ratio > 1.27 || r.Unit != "items/s" || r.Effects[0].Verdict != tune.Faster {
		t.Errorf("throughput: %+v %s", r.Recommended, r.Unit)
	}
	o.MaxMemory = 140
	o.Only, o.Goal = []string{"batch"}, tune.Time
	r = run(t, o)
	for _, f := range r.Effects {
		if f.To != "8" && f.To != "16" && (f.Verdict != tune.Refused || !strings.Contains(f.Reason, "--max-memory")) {
			t.Errorf("%+v", f)
		}
	}
}

// Every point at which a search can be interrupted: resumed, it gives what it
// would have given, and measures nothing twice.
func TestResumeLosesNothing(t *testing.T) {
	whole := newFakeBench(1)
	whole.noise = 0
	want := run(t, fakeOptions(whole, 1))
	for _, at := range []int{1, 9, 17, 30} {
		ctx, cancel := context.WithCancel(t.Context())
		first := newFakeBench(1)
		first.noise = 0
		first.stop = func(n int) {
			if n == at {
				cancel()
			}
		}
		o := fakeOptions(first, 1)
		var saved bytes.Buffer
		o.Save = func(r *tune.Result) error { saved.Reset(); return document.Encode(&saved, r) }
		part, err := Run(ctx, o)
		cancel()
		if !errors.Is(err, context.Canceled) || part.Status != gpuprof.Partial || part.Reason != "interrupted" || len(part.Journal) != at-1 {
			t.Fatalf("at %d: %v, %s, %d measurements", at, err, part.Status, len(part.Journal))
		}
		second := newFakeBench(1)
		second.noise, second.clock = 0, first.clock
		o = fakeOptions(second, 1)
		if o.Resume, err = tune.Decode(saved.Bytes(), "saved.json"); err != nil {
			t.Fatal(err)
		}
		got := run(t, o)
		if got.Recommended == nil || !maps.Equal(got.Recommended.Knobs, want.Recommended.Knobs) || got.Recommended.Ratio != want.Recommended.Ratio || len(got.Journal) != len(want.Journal) {
			t.Errorf("at %d: %v, %d measurements; want %v, %d", at, got.Recommended.Knobs, len(got.Journal), want.Recommended.Knobs, len(want.Journal))
		}
		if n := at - 1 + len(second.calls); n != len(whole.calls) {
			t.Errorf("at %d: %d comparisons in all, want %d", at, n, len(whole.calls))
		}
	}
}

func TestResumeOfSomethingElse(t *testing.T) {
	o := fakeOptions(newFakeBench(1), 1)
	o.Only, o.Driver = []string{"cache"}, "580.1"
	o.Resume = run(t, o)
	if o.Resume.Driver != "580.1" {
		t.Errorf("the result is of driver %q", o.Resume.Driver)
	}
	for name, change := range map[string]func(*Options){
		"goal": func(o *Options) { o.Goal = tune.Memory }, "driver": func(o *Options) { o.Driver = "590.2" }, "seed": func(o *Options) { o.Seed = 2 }, "device": func(o *Options) { o.DeviceDoc = "other" },
		"knobs": func(o *Options) { o.Only = nil }, "settings": func(o *Options) { o.Set = gpuprof.Settings{"pipe": "on"} },
	} {
		other := o
		change(&other)
		if _, err := Run(t.Context(), other); !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), "its "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A working tree is built again and again at one commit: what another build
// measured is not this one's.
func TestResumeOfAnotherBuild(t *testing.T) {
	old := fakeOptions(newFakeBench(1), 1)
	old.Only, old.Tool.Commit = []string{"cache"}, "aaa-dirty"
	for name, c := range map[string]struct {
		before, commit, build string
		refused               string
	}{
		"the same":                      {"1111", "aaa-dirty", "1111", ""},
		"built again at the commit":     {"1111", "aaa-dirty", "2222", "gpuprof of commit aaa-dirty (build 1111) measured it, and this is gpuprof of commit aaa-dirty (build 2222)"},
		"another commit":                {"1111", "bbb", "1111", "commit bbb"},
		"a file without its build":      {"", "aaa-dirty", "2222", ""},
		"neither, and another commit":   {"", "bbb", "", "this is gpuprof of commit bbb;"},
		"this program cannot be hashed": {"1111", "aaa-dirty", "", ""},
	} {
		before := old
		before.Bench, before.Build = newFakeBench(1), c.before
		now := old
		now.Resume = run(t, before)
		now.Tool.Commit, now.Build = c.commit, c.build
		_, err := Run(t.Context(), now)
		if refused := err != nil; refused != (c.refused != "") || refused && (!errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
	}
}

func TestSameSeedSameOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		a, b := newFakeBench(seed), newFakeBench(seed)
		for _, f := range []*fakeBench{a, b} {
			o := fakeOptions(f, seed)
			o.Only, o.Budget = []string{"cache", "pipe", "slow"}, 20*time.Second // a whole search a hundred times takes too long
			if _, err := Run(context.Background(), o); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(a.calls, b.calls) {
			t.Fatalf("seed %d measures in two orders", seed)
		}
	})
}

// The budget holds: little time measures little and says so.
func TestBudget(t *testing.T) {
	f := newFakeBench(1)
	o := fakeOptions(f, 1)
	o.Budget = 8 * time.Second
	r := run(t, o)
	if len(f.calls) > 8 {
		t.Errorf("%d comparisons of a second each in a budget of 8 s", len(f.calls))
	}
	if !slices.ContainsFunc(r.Effects, func(e tune.Effect) bool {
		return e.Verdict == tune.Inconclusive && strings.Contains(e.Reason, "--budget")
	}) {
		t.Error("nothing says that the budget ended")
	}
}

func TestOnly(t *testing.T) {
	for only, want := range map[string]string{"size": "model knob", "cach": `did you mean "cache"`} {
		o := fakeOptions(newFakeBench(1), 1)
		o.Only = []string{only}
		if _, err := Run(t.Context(), o); !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", only, err)
		}
	}
}

// A knob that is both set and asked for is where the search starts.
func TestStartFromASetting(t *testing.T) {
	o := fakeOptions(newFakeBench(1), 1)
	o.Set, o.Only = gpuprof.Settings{"slow": "on", "clash": "on"}, []string{"slow"}
	r := run(t, o)
	if got := r.Recommended.Knobs; len(got) != 1 || got["slow"] != "off" || !r.Recommended.Confirmed {
		t.Errorf("%v, %s", got, r.Recommended.Text)
	}
	if want := "gpuprof run fake --device host --preset small --set clash=on --set slow=off"; r.Recommended.Command != want {
		t.Errorf("%s, want %s", r.Recommended.Command, want)
	}
}

// A gain that does not matter is not recommended, nor one that chance explains.
func TestAccepted(t *testing.T) {
	e := &engine{Options: Options{Goal: tune.Time}, out: &tune.Result{}}
	for _, tt := range []struct {
		theta, se float64
		want      bool
	}{{-0.1, 0.01, true}, {-0.015, 0.001, false}, {-0.1, 0.05, false}, {0.1, 0.01, false}} {
		d := newDrawn(stats.Effect{Theta: tt.theta, SE: tt.se, Nu: 7})
		if got := e.isAccepted(nil, d, &tune.Outcome{}, falseConfirmRate); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	if e.isAccepted(nil, ratioEstimate{}, &tune.Outcome{}, falseConfirmRate) {
		t.Error("nothing measured was accepted")
	}
}

// Fresh processes are not started beyond the budget: a confirmation that has no
// time is stated with its ratio and is no recommendation.
func TestConfirmationKeepsToTheBudget(t *testing.T) {
	f := newFakeBench(1)
	o := fakeOptions(f, 1)
	o.Only, o.Budget = []string{"cache"}, 20*time.Second
	fresh := f.fresh
	processes := 0
	o.Fresh = func(ctx context.Context, a, b Side, l Limits) (*tune.Outcome, error) {
		processes++
		f.clock = f.clock.Add(6 * time.Second)
		return fresh(ctx, a, b, l)
	}
	begin := f.clock
	r := run(t, o)
	if took := f.clock.Sub(begin); took > o.Budget+7*time.Second {
		t.Errorf("took %s of %s, %d processes", took, o.Budget, processes)
	}
	if c := r.Confirmations; r.Recommended != nil || processes != 1 || len(c) != 1 || c[0].Processes != 1 || c[0].Ratio < 0.75 || c[0].Ratio > 0.85 || c[0].Confirmed {
		t.Errorf("%d processes: %+v, %+v", processes, r.Recommended, c)
	}
	for _, want := range []string{"no recommendation", "cache=on (in the search x0.", "in 1 fresh process, too few for an interval", "confirming it takes about", "--budget"} {
		if !strings.Contains(r.Conclusion.Text, want) {
			t.Errorf("no %q in: %s", want, r.Conclusion.Text)
		}
	}
}

func TestPeers(t *testing.T) {
	summary, err := os.ReadFile("../gpucheck/testdata/summary-gpu.json")
	if err != nil {
		t.Fatal(err)
	}
	fs := fstest.MapFS{"nvidia-h200/gpu-check/summary.json": {Data: summary}, "other/gpu-check/summary.json": {Data: []byte("{")}}
	for _, tt := range []struct {
		device   string
		workload workloads.Workload
		preset   string
		want     string
	}{
		{"NVIDIA H200", gruflow.New(), "energyflow", "torch.nn.GRU 0.003 s, run/gruflow-energyflow/gru 0.001; torch.nn.GRU 0.0007 s, run/gruflow-energyflow/tf32/gru 0.001"},
		{"NVIDIA H200", e3nn.New(), "deepaw", "OpenEquivariance 0.005 s, tensor_product/deepaw/csr 0.001; e3nn 0.02 s, tensor_product/deepaw/csr 0.001"},
		{"NVIDIA H200", collate.New(), "deepaw", ""},
		{"NVIDIA H200", e3nn.New(), "small", ""},
		{"another GPU", e3nn.New(), "deepaw", ""},
	} {
		var got []string
		for _, p := range FindPeers(fs, tt.device, tt.workload, tt.preset) {
			got = append(got, fmt.Sprintf("%s %g %s, %s %g", p.Name, p.Value, p.Unit, p.Figure, p.Ours))
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%v: %q", tt, got)
		}
	}
	o := fakeOptions(newFakeBench(1), 1)
	o.Peers, o.Set = fs, gpuprof.Settings{"size": "16"}
	if got := o.peersOf(); got != nil {
		t.Errorf("another shape has peers: %v", got)
	}
}

// Only what is paid once counts as such: a rate and a time of every batch end
// in _s too.
func TestOneTimeCosts(t *testing.T) {
	got := oneTimeOf(map[string]any{"autotune_s": 0.5, "input_bytes_per_s": 6e8, "make_collate_s": 0.1, "graph_setup_s": "none"})
	if len(got) != 1 || got["autotune_s"] != 0.5 {
		t.Errorf("%v", got)
	}
}
