package search

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// simulated is a machine and a program whose true costs are known, on a clock of
// its own: a shared machine with bursts of other work, processes that are slow for
// their whole life, a drift, and sessions whose buffers lie well or badly.
type simulated struct {
	clock time.Time
	began time.Time
	rng   *rand.Rand
	truth func(gpuprof.Settings) float64 // of the cost, the default's being 1
	open  time.Duration                  // to open, check and warm up a session
	start time.Duration                  // of a process

	noise   float64 // of a block, log-normal
	bursts  float64 // the share of blocks that another program slows by 20 to 100 %
	sitting float64 // of a session: where its buffers came to lie
	slow    float64 // the share of processes 20 to 100 % slow for life
	half    float64 // the share of processes that become slow while they run
	drift   float64 // of the machine, over the whole budget

	compared []string
}

func newSimulated(seed uint64) *simulated {
	t := time.Unix(1e9, 0)
	return &simulated{clock: t, began: t, rng: rand.New(rand.NewPCG(seed, 99)), truth: func(gpuprof.Settings) float64 { return 1 },
		open: 400 * time.Millisecond, start: 300 * time.Millisecond,
		noise: 0.02, bursts: 0.1, sitting: 0.008, slow: 0.15, half: 0.05, drift: 0.04}
}

func (s *simulated) now() time.Time { return s.clock }

// blocks runs the pairs of one process or sitting, under the real rule of when
// it is enough.
func (s *simulated) blocks(a, b gpuprof.Settings, l Limits, opened time.Duration) *tune.Outcome {
	out := &tune.Outcome{Unit: "items", WorkA: 1, WorkB: 1}
	began := s.clock
	s.clock = s.clock.Add(opened)
	place := [2]float64{math.Exp(s.sitting * s.rng.NormFloat64()), math.Exp(s.sitting * s.rng.NormFloat64())}
	truth := [2]float64{s.truth(a), s.truth(b)}
	turn := math.Inf(1)
	if s.rng.Float64() < s.half {
		turn = 20 * s.rng.Float64()
	}
	for pair := 0; pair < mostPairs; pair++ {
		sides := [2]int{0, 1}
		if pair%2 == 1 {
			sides = [2]int{1, 0}
		}
		for _, side := range sides {
			c := truth[side] * place[side] * math.Exp(s.noise*s.rng.NormFloat64()) * (1 + s.drift*s.clock.Sub(s.began).Seconds()/120)
			if s.rng.Float64() < s.bursts {
				c *= 1.2 + 0.8*s.rng.Float64()
			}
			if float64(pair) > turn {
				c *= 1.5
			}
			s.clock = s.clock.Add(time.Duration(c * float64(blockTime)))
			if side == 0 {
				out.A = append(out.A, []float64{1e-3 * c})
			} else {
				out.B = append(out.B, []float64{1e-3 * c})
			}
		}
		out.TimeA, out.TimeB = out.A, out.B
		if isEnough(pair+1, s.clock.Sub(began), l, out) {
			break
		}
	}
	out.Seconds = s.clock.Sub(began).Seconds()
	return out
}

func (s *simulated) Compare(ctx context.Context, a, b Side, l Limits) (*tune.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.compared = append(s.compared, tune.DescribeSettings(changedSettings(a.Knobs, b.Knobs)))
	return s.blocks(a.Knobs, b.Knobs, l, s.open), nil
}

func (s *simulated) fresh(_ context.Context, a, b Side, l Limits) (*tune.Outcome, error) {
	s.clock = s.clock.Add(s.start)
	life := s.truth
	if s.rng.Float64() < s.slow { // both sides are: their ratio stays
		by := 1.2 + 0.8*s.rng.Float64()
		s.truth = func(k gpuprof.Settings) float64 { return by * life(k) }
	}
	defer func() { s.truth = life }()
	return s.blocks(a.Knobs, b.Knobs, l, 2*s.open), nil
}

func simulatedOptions(s *simulated, seed uint64, budget time.Duration) Options {
	return Options{Workload: fake{}, Preset: "small", Device: "host", DeviceDoc: "simulated", Goal: tune.Time, Budget: budget, Seed: seed, Bench: s, Fresh: s.fresh, Now: s.now}
}

// noises are machines to be tuned on.
func noises() map[string]func(*simulated) {
	return map[string]func(*simulated){
		"a shared machine": func(*simulated) {},
		"a quiet machine":  func(s *simulated) { s.noise, s.bursts, s.slow, s.half, s.drift = 0.005, 0, 0, 0, 0 },
		"slow processes":   func(s *simulated) { s.slow, s.half = 0.3, 0.2 },
		"a loaded machine": func(s *simulated) { s.noise, s.bursts, s.drift, s.open = 0.08, 0.25, 0.3, 900*time.Millisecond },
	}
}

const simulations = 60

// With nothing to find, nothing is recommended, whatever the noise and the budget;
// and no row of the table is better more often than its 95 % allow.
func TestNothingToFind(t *testing.T) {
	for name, noise := range noises() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, budget := range []time.Duration{12 * time.Second, 30 * time.Second, 2 * time.Minute} {
				wrong, tables := 0, 0
				for seed := range uint64(simulations) {
					s := newSimulated(seed + 1)
					noise(s)
					r := run(t, simulatedOptions(s, seed+1, budget))
					agrees(t, r)
					if r.Recommended != nil {
						wrong++
					}
					if slices.ContainsFunc(r.Effects, func(f tune.Effect) bool { return f.Verdict.Better() }) {
						tables++
					}
				}
				t.Logf("%s: %d of %d recommended, %d tables with a row that is better", budget, wrong, simulations, tables)
				if wrong > 0 || tables > simulations/12 { // 5 % and what chance adds
					t.Errorf("%s: %d of %d searches recommend what does nothing, %d tables show it", budget, wrong, simulations, tables)
				}
			}
		})
	}
}

// What there is to find is found and confirmed with an adequate budget, and
// nothing is recommended beside it.
func TestPlantedKnobIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		noise  string
		budget time.Duration
		knob   string
		effect float64
		hint   bool
		least  float64 // of the searches
	}{
		"30 % in 2 m":                  {"a shared machine", 2 * time.Minute, "cache", 0.7, false, 0.9},
		"30 % with slow processes":     {"slow processes", 2 * time.Minute, "cache", 0.7, false, 0.9},
		"10 % in 5 m":                  {"a shared machine", 5 * time.Minute, "pipe", 0.9, false, 0.9},
		"half on a loaded machine":     {"a loaded machine", 5 * time.Minute, "twin", 0.5, false, 0.9},
		"30 % in 30 s, by a finding":   {"a shared machine", 30 * time.Second, "cache", 0.7, true, 0.9},
		"half, by a finding in 30 s":   {"slow processes", 30 * time.Second, "cache", 0.5, true, 0.9},
		"half on a loaded one in 60 s": {"a loaded machine", time.Minute, "cache", 0.5, true, 0.9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, more := 0, 0
			for seed := range uint64(simulations) {
				s := newSimulated(seed + 1)
				noises()[c.noise](s)
				s.truth = func(k gpuprof.Settings) float64 {
					if k.On(c.knob) {
						return c.effect
					}
					return 1
				}
				o := simulatedOptions(s, seed+1, c.budget)
				if c.hint {
					o.Findings = s.finding(c.knob)
				}
				r := run(t, o)
				agrees(t, r)
				if r.Recommended != nil && r.Recommended.Knobs[c.knob] == "on" {
					found++
					if len(r.Recommended.Knobs) > 1 {
						more++
					}
				}
			}
			t.Logf("found in %d of %d, with something beside it in %d", found, simulations, more)
			if float64(found) < c.least*simulations || more > simulations/10 {
				t.Errorf("found in %d of %d, with something beside it in %d", found, simulations, more)
			}
		})
	}
}

// finding measures the start and speaks of a knob.
func (s *simulated) finding(knob string) func(context.Context, time.Duration) ([]tune.Hint, error) {
	return func(_ context.Context, limit time.Duration) ([]tune.Hint, error) {
		s.clock = s.clock.Add(s.start + s.open + limit)
		return []tune.Hint{{Rule: "planted", Knobs: gpuprof.Settings{knob: "on"}}}, nil
	}
}

// agrees holds the sentences of a result against its figures.
func agrees(t *testing.T, r *tune.Result) {
	t.Helper()
	text, better := r.Conclusion.Text, 0
	for _, f := range r.Effects {
		excludes := f.Ratio > 0 && (f.CI95[0] > 1 || f.CI95[1] < 1)
		if f.Verdict.Better() {
			better++
		}
		if f.Verdict.Better() && f.CI95[1] >= 1 || f.Verdict == tune.Slower && f.CI95[0] <= 1 || f.Verdict == tune.Inconclusive && excludes {
			t.Errorf("%s=%s is %s and shows %v", f.Knob, f.To, f.Verdict, f.CI95)
		}
		if f.Verdict.Better() && f.Ratio <= 1-equivalence && r.Recommended == nil && (len(r.Confirmations) == 0 || !strings.Contains(text, "not confirmed")) {
			t.Errorf("%s=%s is %s, and the conclusion does not speak of a confirmation: %s", f.Knob, f.To, f.Verdict, text)
		}
	}
	if better > 0 && r.Recommended == nil && !strings.Contains(text, strconv.Itoa(better)+" faster") {
		t.Errorf("%d rows are better: %s", better, text)
	}
	for _, c := range r.Confirmations {
		if excludes := c.Interval[1] > 0 && c.Interval[1] < 1 && c.Ratio <= 1-equivalence; c.Confirmed != excludes && c.Processes >= leastProcesses {
			t.Errorf("confirmed: %v, with %v: %s", c.Confirmed, c.Interval, text)
		}
		if !c.Confirmed && (c.Reason == "" || c.Ratio > 0 && !strings.Contains(text, fmt.Sprintf("x%.3f", c.Ratio))) && r.Recommended == nil {
			t.Errorf("a confirmation without its ratio or reason: %+v: %s", c, text)
		}
	}
	if (r.Recommended != nil) != (r.Conclusion.Verdict == tune.Recommends) {
		t.Errorf("recommended %v, concluded %s", r.Recommended, r.Conclusion.Verdict)
	}
}

// Findings come first, then every knob once, before anything is looked at again.
func TestOrderOfTheSearch(t *testing.T) {
	s := newSimulated(1)
	o := simulatedOptions(s, 1, 10*time.Minute)
	o.Findings = func(context.Context, time.Duration) ([]tune.Hint, error) {
		return []tune.Hint{{Knobs: gpuprof.Settings{"twin2": "on"}, ClaimS: 2}, {Knobs: gpuprof.Settings{"batch": "1024", "twin": "on"}, ClaimS: 1}, {Knobs: gpuprof.Settings{"size": "2", "nothing": "on"}}}, nil
	}
	r := run(t, o)
	if got := s.compared[:3]; !slices.Equal(got, []string{"twin2=on", "batch=1024", "twin=on"}) {
		t.Errorf("first %v", got)
	}
	looked, knobs := map[string]bool{}, map[string]int{}
	for i, c := range s.compared[:15] {
		if looked[c] {
			t.Errorf("%s was looked at again before all of %v", c, s.compared[:15])
		}
		knob, _, _ := strings.Cut(c, "=")
		if looked[c] = true; i >= 3 {
			knobs[knob]++
		}
		if knobs[knob] > 1 && len(knobs) < 9 {
			t.Errorf("%s has a second value before %d knobs have one: %v", knob, 9-len(knobs), s.compared[:15])
		}
	}
	if len(r.Findings) != 3 || len(r.Findings[2].Knobs) != 1 { // what no workload knows is left out
		t.Errorf("%+v", r.Findings)
	}
}

// A finding about a knob that the search may not turn is said, with what to type.
func TestFindingThatIsHeld(t *testing.T) {
	s := newSimulated(1)
	o := simulatedOptions(s, 1, time.Minute)
	o.Only, o.Findings = []string{"pipe"}, s.finding("cache")
	r := run(t, o)
	if want := "not tried, because --set or --knob leaves it out: cache=on (finding planted); to try that give --knob pipe,cache"; !strings.Contains(r.Conclusion.Text, want) {
		t.Errorf("no %q in: %s", want, r.Conclusion.Text)
	}
	for _, c := range s.compared {
		if strings.Contains(c, "cache") {
			t.Errorf("%s was tried", c)
		}
	}
}

// What is found first may take the time of the whole search for as few blocks as
// tell anything: where steps are slow, one pair of each of many changes tells nothing.
func TestFindingsHaveTheTimeTheyNeed(t *testing.T) {
	s := newSimulated(1)
	s.open, s.truth = 3*time.Second, func(k gpuprof.Settings) float64 {
		if k.On("cache") {
			return 2
		}
		return 10 // blocks of 0.4 s
	}
	o := simulatedOptions(s, 1, 30*time.Second)
	o.Findings = s.finding("cache")
	r := run(t, o)
	if !slices.ContainsFunc(r.Effects, func(f tune.Effect) bool { return f.Knob == "cache" && f.Verdict == tune.Faster }) {
		t.Errorf("%+v", r.Effects)
	}
	if took := s.clock.Sub(s.began); took > 35*time.Second {
		t.Errorf("took %s", took)
	}
}

// A small budget gives an honest answer: what it saw, that it could not be
// confirmed, and what budget would do it.
func TestSmallBudget(t *testing.T) {
	s := newSimulated(3)
	s.truth = func(k gpuprof.Settings) float64 {
		if k.On("cache") {
			return 0.6
		}
		return 1
	}
	o := simulatedOptions(s, 3, 10*time.Second)
	o.Findings = s.finding("cache")
	r := run(t, o)
	for _, want := range []string{"no recommendation", "cache=on (in the search x0.", "not confirmed", "confirming it takes about", "the budget had", "--budget 1m"} {
		if !strings.Contains(r.Conclusion.Text, want) {
			t.Errorf("no %q in: %s", want, r.Conclusion.Text)
		}
	}
	if took := s.clock.Sub(s.began); took > 11*time.Second || r.Recommended != nil || r.Conclusion.Verdict != tune.Unconfirmed {
		t.Errorf("%s, %+v", took, r.Conclusion)
	}
}

// The verdict of a row is its interval, and that of a table is at 95 % together:
// a row that alone would exclude the default does not among many.
func TestTogether(t *testing.T) {
	row := func(z float64) ratioEstimate {
		return newDrawn(stats.Effect{Theta: z / 100, SE: 0.01, Nu: math.Inf(1)})
	}
	table := []ratioEstimate{row(-9), row(-2.2), {}, row(0), row(2.9), row(0.3), row(-0.5)}
	ci, p := jointIntervals(table)
	want := []tune.Verdict{tune.Faster, tune.Inconclusive, tune.Inconclusive, tune.Inconclusive, tune.Slower, tune.Inconclusive, tune.Inconclusive}
	for i, d := range table {
		if got := d.judgeBy(tune.Time, ci[i]); got != want[i] {
			t.Errorf("row %d is %s at %v, want %s", i, got, ci[i], want[i])
		}
		if d.ok && (p[i] <= errorRate) != (ci[i][0] > 1 || ci[i][1] < 1) {
			t.Errorf("row %d: p %v, interval %v", i, p[i], ci[i])
		}
	}
	if alone := row(-2.2).judgeBy(tune.Time, row(-2.2).ci); alone != tune.Faster {
		t.Errorf("alone it is %s", alone)
	}
}

func TestSpell(t *testing.T) {
	for d, want := range map[time.Duration]string{30 * time.Second: "30s", time.Minute: "1m", 10 * time.Minute: "10m", 90 * time.Second: "1m30s", 2 * time.Hour: "2h", 100 * time.Minute: "1h40m"} {
		if got := spellDuration(d); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
