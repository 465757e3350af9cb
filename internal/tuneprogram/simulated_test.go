package tuneprogram

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// machine is a simulated program on a noisy machine: seconds per step are the product of the gains of its settings and
// noise. Its clock goes on by the time of each run.
type machine struct {
	now     time.Time
	random  *rand.Rand
	gains   map[string]float64 // times faster, by the name of a setting; others have no effect
	parts   map[string]float64 // share of a plain step that a setting removes
	changes map[string]bool    // settings that change the losses
	noise   float64            // standard deviation of the logarithm of a run's cost
	slow    float64            // share of runs that are slower by half
	watts   float64            // power of the GPU; 0: none
	// load multiplies the time of a run, by its number from 1; nil: 1.
	load func(run int) float64
	runs int
	stop int // the run during which the user interrupts; 0: never
	end  context.CancelFunc
}

// costOf is the cost of a step with settings, without noise.
func (m *machine) costOf(s Set) float64 {
	share, gain := 1.0, 1.0
	for _, one := range s {
		share -= m.parts[one.Name()]
		if g, ok := m.gains[one.Name()]; ok {
			gain *= g
		}
	}
	return 0.01 * share / gain
}

// spend lets the clock go on by the time of a run, at most by its limit and the time in which its processes end.
func (m *machine) spend(r *tune.ProgramRun, seconds float64, limit time.Duration) (stopped bool) {
	if m.load != nil {
		seconds *= m.load(m.runs)
	}
	took := time.Duration(seconds * float64(time.Second))
	if stopped = took > limit; stopped {
		took = limit + child.Patience
		r.Stopped, r.AtLeast = tune.StopRun, max(limit.Seconds()-3, 0)/float64(r.Plan[1])
	}
	m.now = m.now.Add(took)
	r.Seconds = took.Seconds()
	return stopped
}

func (m *machine) Run(ctx context.Context, s Set, p Plan, limit time.Duration) (tune.ProgramRun, error) {
	if m.runs++; m.runs == m.stop {
		m.end()
		return tune.ProgramRun{}, ctx.Err()
	}
	cost := m.costOf(s) * math.Exp(m.noise*m.random.NormFloat64())
	if m.random.Float64() < m.slow {
		cost *= 1.5
	}
	two := 0
	loss := "0x1p+00"
	for _, one := range s {
		if m.changes[one.Name()] {
			loss = "0x1p+01"
		}
	}
	r := tune.ProgramRun{Key: s.Key(), Plan: [2]int{p.Warm, p.Steps}}
	if m.spend(&r, 3+cost*float64(p.Warm+p.Steps), limit) {
		return r, nil
	}
	seen := tune.Observed{Threads: 1, MKLDNN: true, KeepGrads: 5, Anomaly: 5, Loaders: []tune.Loader{{Workers: &two}}, Optimizers: []tune.Optimizer{{Tensors: 9}},
		Calls: map[string]map[string]int{"gc.collect": {"train.py:7": 5}}}
	r.Joules = m.watts * cost
	r.Cost, r.CPU, r.Losses, r.Memory = cost, cost, []string{"0x1p+00", loss}, 1<<20
	r.Hook = &tune.HookReport{Steps: p.Steps, Device: "cpu", Seen: seen}
	if len(s) > 0 {
		r.Took = map[string]int{"it": 1}
	}
	return r, nil
}

// Switch times blocks of each setting; every side of a block has the noise of a run.
func (m *machine) Switch(ctx context.Context, c Cells, warm int, limit time.Duration) (tune.ProgramRun, error) {
	if m.runs++; m.runs == m.stop {
		m.end()
		return tune.ProgramRun{}, ctx.Err()
	}
	seconds := 3 + m.costOf(c.Base)*float64(warm)
	for _, s := range c.Settings {
		off, on := m.costOf(c.Base), m.costOf(c.Base.addSetting(s))
		seconds += (off + on) / 2 * float64(c.countSteps()/len(c.Settings))
	}
	r := tune.ProgramRun{Key: c.Key(), Plan: [2]int{warm, c.countSteps()}}
	if m.spend(&r, seconds, limit) {
		return r, nil
	}
	r.Cost, r.Hook = 0.01, &tune.HookReport{Device: "cpu"}
	for _, s := range c.Settings {
		b := tune.Switched{Name: s.Name(), Took: 1}
		for range c.Blocks {
			sides := [2]float64{}
			for i, with := range []Set{c.Base, c.Base.addSetting(s)} {
				sides[i] = m.costOf(with) * float64(2*c.Steps) * math.Exp(m.noise*m.random.NormFloat64())
				if m.random.Float64() < m.slow {
					sides[i] *= 1.5
				}
			}
			b.Seconds = append(b.Seconds, sides)
		}
		r.Blocks = append(r.Blocks, b)
	}
	return r, nil
}

// search searches on a machine.
func (m *machine) search(ctx context.Context, seed uint64, budget time.Duration, resume *tune.Result) (*tune.Result, error) {
	o := m.searchOptions(seed, budget)
	o.Resume = resume
	return Run(ctx, o)
}

func recommended(r *tune.Result) string {
	if r.Recommended == nil {
		return ""
	}
	return tune.DescribeSettings(r.Recommended.Knobs)
}

// TestNothingToFind: where no setting has an effect, none is recommended. A wrong confirmation has a chance of about 5 %
// for a setting that survives the screening; the bound leaves room for as many of 40 as that.
func TestNothingToFind(t *testing.T) {
	wrong := 0
	for seed := range uint64(40) {
		m := &machine{noise: 0.05, slow: 0.1}
		r, err := m.search(context.Background(), seed, 10*time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := recommended(r); got != "" {
			wrong++
			t.Logf("seed %d: %s", seed, r.Conclusion.Text)
		}
	}
	if wrong > 2 {
		t.Errorf("%d of 40 searches recommended a setting without effect", wrong)
	}
}

// TestPlanted plants one setting or several with a gain. A search recommends these settings and no others.
func TestPlanted(t *testing.T) {
	for name, gains := range map[string]map[string]float64{
		"one":    {"gc.collect=removed": 1.4},
		"two":    {"gc.collect=removed": 1.5, "anomaly_detection=off": 1.4},
		"loader": {"num_workers=2": 1.9},
	} {
		var names []string
		for k := range gains {
			names = append(names, k)
		}
		slices.Sort(names)
		found, other := 0, 0
		const searches = 15
		for seed := range uint64(searches) {
			m := &machine{noise: 0.05, gains: gains}
			r, err := m.search(context.Background(), seed, 10*time.Minute, nil)
			if err != nil {
				t.Fatal(err)
			}
			switch got := recommended(r); got {
			case strings.Join(names, " "):
				found++
			case "":
			default:
				other++
				t.Logf("%s, seed %d: %s", name, seed, r.Conclusion.Text)
			}
		}
		t.Logf("%s: found in %d of %d, another set in %d", name, found, searches, other)
		if found < searches*4/5 || other > 1 {
			t.Errorf("%s: found in %d of %d, another set in %d", name, found, searches, other)
		}
	}
}

// TestMasked: a setting that removes 2 % of a plain step is among the losers of the screening. Beside one that removes
// 90 % its part is a fifth of what is left, and the recommended set has both.
func TestMasked(t *testing.T) {
	both, dominating := 0, 0
	const searches = 15
	for seed := range uint64(searches) {
		m := &machine{noise: 0.02, parts: map[string]float64{"anomaly_detection=off": 0.9, "set_to_none=True": 0.02}}
		r, err := m.search(context.Background(), seed, 10*time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch got := recommended(r); got {
		case "anomaly_detection=off set_to_none=True":
			both++
		case "anomaly_detection=off":
			dominating++
		default:
			t.Errorf("seed %d: %q: %s", seed, got, r.Conclusion.Text)
		}
	}
	if both < searches*4/5 {
		t.Errorf("both in %d of %d, the dominating one alone in %d", both, searches, dominating)
	}
}

// TestChangedTraining: a setting that is faster and changes the losses is refused.
func TestChangedTraining(t *testing.T) {
	m := &machine{noise: 0.02, gains: map[string]float64{"num_workers=2": 3}, changes: map[string]bool{"num_workers=2": true}}
	r, err := m.search(context.Background(), 1, 10*time.Minute, nil)
	if err != nil || r.Recommended != nil {
		t.Fatalf("recommended %s (%v)", recommended(r), err)
	}
	for _, f := range r.Effects {
		if f.Knob == "num_workers" && (f.Verdict != tune.Refused || f.Losses.Verdict != tune.Changed || !strings.Contains(f.Reason, "changes the training")) {
			t.Errorf("effect %+v, losses %+v", f, f.Losses)
		}
	}
}

// TestStarved: a budget without room for a confirmation recommends nothing, and says so.
func TestStarved(t *testing.T) {
	for _, budget := range []time.Duration{20 * time.Second, 30 * time.Second} {
		m := &machine{gains: map[string]float64{"gc.collect=removed": 5}}
		r, err := m.search(context.Background(), 1, budget, nil)
		if err != nil || r.Recommended != nil || !strings.Contains(r.Conclusion.Text, "--budget") {
			t.Errorf("budget %s: recommended %q, %q (%v)", budget, recommended(r), r.Conclusion.Text, err)
		}
	}
}

// TestInterruptAndResume: what was measured before Ctrl-C is kept, and the search that goes on makes the runs that are
// missing and concludes as one that was never interrupted.
func TestInterruptAndResume(t *testing.T) {
	gains := map[string]float64{"gc.collect=removed": 2}
	whole := &machine{gains: gains}
	want, err := whole.search(context.Background(), 3, 10*time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	first := &machine{gains: gains, stop: 9, end: cancel}
	part, err := first.search(ctx, 3, 10*time.Minute, nil)
	if !errors.Is(err, context.Canceled) || len(part.Program.Runs) != 8 || part.Reason != "interrupted" || len(part.Effects) == 0 {
		t.Fatalf("%d runs, reason %q, error %v", len(part.Program.Runs), part.Reason, err)
	}
	second := &machine{gains: gains}
	got, err := second.search(context.Background(), 3, 10*time.Minute, part)
	if err != nil || recommended(got) != recommended(want) || recommended(got) == "" {
		t.Errorf("resumed: %q, at once: %q (%v)", recommended(got), recommended(want), err)
	}
	if second.runs+8 != whole.runs {
		t.Errorf("%d runs after 8, and %d at once", second.runs, whole.runs)
	}
}

// TestResumeKeepsRuns: a search that goes on with the same budget or a smaller one keeps every recorded run, wherever it
// was interrupted, and makes no run of which the budget has no room. Before, it lost those behind the first decision that
// another budget changes, and those behind a setting for which there was no time.
func TestResumeKeepsRuns(t *testing.T) {
	slow := map[string]float64{"num_workers=2": 0.03, "anomaly_detection=off": 0.3, "gc.collect=removed": 2}
	skipped := 0
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 3))
		budget := time.Duration(40+random.IntN(300)) * time.Second
		first := &machine{noise: 0.1, slow: 0.2, gains: slow}
		whole, err := first.search(context.Background(), seed, budget, nil)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(whole.Conclusion.Text, "no time") {
			skipped++
		}
		runs := whole.Program.Runs
		cut := 3 + random.IntN(len(runs)-2)
		part := *whole
		program := *whole.Program
		program.Runs, part.Program, part.SpentS = runs[:cut], &program, runs[cut-1].EndS
		earlier := &part
		for range 2 { // what a smaller budget left is kept by the search after it as well
			budget = min(budget, time.Duration(1+random.IntN(300))*time.Second)
			next := &machine{noise: 0.1, slow: 0.2, gains: slow}
			got, err := next.search(context.Background(), seed, budget, earlier)
			if err != nil {
				t.Fatal(err)
			}
			kept := len(got.Program.Runs) - next.runs
			if kept != len(earlier.Program.Runs) {
				t.Errorf("seed %d: %d of %d runs kept with %s", seed, kept, len(earlier.Program.Runs), budget)
			}
			if got.SpentS > max(budget.Seconds(), earlier.SpentS)+child.Patience.Seconds() {
				t.Errorf("seed %d: %.0f s spent of %s after %.0f s", seed, got.SpentS, budget, earlier.SpentS)
			}
			earlier = got
		}
	}
	if skipped == 0 {
		t.Error("no search lacked time for a setting")
	}
}

// TestUnknownNames: a misspelt name of --only or --skip is an error that lists the settings, before the first run. One
// that does not apply to this program may be skipped.
func TestUnknownNames(t *testing.T) {
	for _, c := range []struct {
		only, skip []string
		fails      string
	}{
		{nil, []string{"num_worker"}, `reading --skip num_worker: there is no such setting (did you mean "num_workers=2"?); the settings are gc.collect=removed`},
		{nil, []string{"num_workers=3"}, "reading --skip num_workers=3: there is no such setting"},
		{[]string{"nosuch"}, nil, "reading --only nosuch: there is no such setting"},
		{[]string{"tf32"}, nil, "choosing settings with --only tf32: none of that name applies"},
		{nil, []string{"tf32", "gc.collect", "num_workers=2", "A=1"}, ""},
	} {
		m := &machine{}
		o := m.searchOptions(1, time.Minute)
		o.Only, o.Skip, o.Tries = c.only, c.skip, []Try{{Name: "A", Values: []string{"1", "2"}}}
		_, err := Run(context.Background(), o)
		switch {
		case c.fails == "" && err != nil, c.fails != "" && (!errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("--only %v --skip %v: %v", c.only, c.skip, err)
		case strings.HasPrefix(c.fails, "reading") && m.runs > 0:
			t.Errorf("--only %v --skip %v: refused after %d runs", c.only, c.skip, m.runs)
		}
	}
}
