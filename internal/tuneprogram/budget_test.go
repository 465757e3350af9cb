package tuneprogram

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// spent is the time that a machine's clock has gone on.
func (m *machine) spent() time.Duration { return m.now.Sub(time.Unix(0, 0)) }

// TestBudgetHolds: a search ends with its budget, whatever the settings and the load of the machine do to the time of a
// run. Only the end of one stopped run comes on top.
func TestBudgetHolds(t *testing.T) {
	slow := map[string]float64{"num_workers=2": 0.02, "anomaly_detection=off": 0.005, "gc.collect=removed": 3}
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 2))
		from, factor := 1+random.IntN(60), 1+20*random.Float64()
		budget := time.Duration(20+random.IntN(600)) * time.Second
		m := &machine{noise: 0.1, slow: 0.1, gains: slow, load: func(run int) float64 {
			if run >= from { // other work begins, and does not end
				return factor
			}
			return 1
		}}
		r, err := m.search(context.Background(), seed, budget, nil)
		if err != nil && !errors.Is(err, gpuprof.ErrInput) {
			t.Fatal(err)
		}
		if m.spent() > budget+child.Patience {
			t.Errorf("seed %d: %s of %s spent, the load x%.1f from run %d on: %s", seed, m.spent(), budget, factor, from, r.Conclusion.Text)
		}
		if len(r.Program.Runs) < m.runs {
			t.Errorf("seed %d: %d runs were made, the document has %d", seed, m.runs, len(r.Program.Runs))
		}
	}
}

// TestStoppedSetting: a setting that makes a run 50 times as long is stopped, has a bound and no figure, and the search
// still finds the setting that helps.
func TestStoppedSetting(t *testing.T) {
	m := &machine{noise: 0.02, gains: map[string]float64{"num_workers=2": 0.02, "gc.collect=removed": 3}}
	r, err := m.search(context.Background(), 1, 4*time.Minute, nil)
	if err != nil || recommended(r) != "gc.collect=removed" || m.spent() > 4*time.Minute+child.Patience {
		t.Fatalf("recommended %q in %s: %s (%v)", recommended(r), m.spent(), r.Conclusion.Text, err)
	}
	for _, f := range r.Effects {
		if f.Knob == "num_workers" && (f.Verdict != tune.Stopped || f.Ratio != 0 || !strings.HasPrefix(f.Reason, "stopped by the ") ||
			!strings.Contains(f.Reason, "times slower")) {
			t.Errorf("effect %+v", f)
		}
	}
}

// TestResumeStopped: a run that the budget stopped is made again if the search goes on with a larger budget, and the runs
// before it are kept.
func TestResumeStopped(t *testing.T) {
	gains := map[string]float64{"num_workers=2": 0.05}
	first := &machine{gains: gains}
	part, err := first.search(context.Background(), 1, 75*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	stopped := 0
	for _, r := range part.Program.Runs {
		if r.Stopped == tune.StopBudget {
			stopped++
		}
	}
	if stopped != 1 {
		t.Fatalf("%d runs were stopped by the budget of %d", stopped, len(part.Program.Runs))
	}
	same := &machine{gains: gains}
	again, err := same.search(context.Background(), 1, 75*time.Second, part)
	if err != nil || same.runs != 0 || len(again.Program.Runs) != len(part.Program.Runs) {
		t.Errorf("with the same budget %d runs were made, %d of %d kept (%v)", same.runs, len(again.Program.Runs), len(part.Program.Runs), err)
	}
	more := &machine{gains: gains}
	got, err := more.search(context.Background(), 1, 10*time.Minute, part)
	if err != nil || more.runs == 0 || more.runs+len(part.Program.Runs)-1 != len(got.Program.Runs) {
		t.Errorf("with more time %d runs were made after %d, the document has %d (%v)", more.runs, len(part.Program.Runs), len(got.Program.Runs), err)
	}
	for _, f := range got.Effects {
		if f.Knob == "num_workers" && f.Verdict == tune.Stopped {
			t.Errorf("it had time now: %s", f.Reason)
		}
	}
}

// TestShortBudget: a budget that ends before the program's first runs is an error with the fix.
func TestShortBudget(t *testing.T) {
	for _, budget := range []time.Duration{time.Millisecond, 2 * time.Second, 8 * time.Second} {
		m := &machine{}
		_, err := m.search(context.Background(), 1, budget, nil)
		if !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "--budget") || m.spent() > budget+child.Patience {
			t.Errorf("budget %s: %v after %s", budget, err, m.spent())
		}
	}
}

// TestClearCandidate: a setting of x3 on a machine whose pairs scatter by 40 % is confirmed by ten pairs that agree, for
// which the search has kept time. It found 44 of these 60 when it reserved six pairs and counted ten of a later stage.
func TestClearCandidate(t *testing.T) {
	const searches = 60
	found := 0
	for seed := range uint64(searches) {
		m := &machine{noise: 0.2, slow: 0.2, gains: map[string]float64{"num_workers=2": 3}}
		r, err := m.search(context.Background(), seed, 3*time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		if recommended(r) == "num_workers=2" {
			found++
		}
	}
	t.Logf("found in %d of %d", found, searches)
	if found < 52 {
		t.Errorf("found in %d of %d", found, searches)
	}
}

// TestClaimedFirst: with time for few pairs, the setting that a finding names is measured before the others.
func TestClaimedFirst(t *testing.T) {
	m := &machine{noise: 0.01, gains: map[string]float64{"num_workers=2": 2}}
	o := m.searchOptions(1, 112*time.Second)
	o.Tries = []Try{{Name: "A", Values: []string{"1", "2", "3", "4", "5", "6", "7", "8"}}}
	o.Only = []string{"A", "num_workers"}
	o.Findings = func(context.Context, time.Duration) ([]Finding, error) {
		return []Finding{{Rule: "dataloader-stall", Share: 0.5}}, nil
	}
	r, err := Run(context.Background(), o)
	if err != nil || recommended(r) != "num_workers=2" {
		t.Errorf("recommended %q: %s (%v)", recommended(r), r.Conclusion.Text, err)
	}
	for _, run := range r.Program.Runs {
		if run.Key != "" {
			if run.Key != "num_workers=2" {
				t.Errorf("%s was tried first", run.Key)
			}
			break
		}
	}
}
