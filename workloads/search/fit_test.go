package search

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// A combination that fails for the reason of one of its knobs is not listed
// beside it; one that fails for another reason is.
func TestCausesOfFailures(t *testing.T) {
	got := firstCauses([]tune.Failure{{Knobs: gpuprof.Settings{"a": "1", "b": "1"}, Error: "no a"}, {Knobs: gpuprof.Settings{"a": "1"}, Error: "no a"}, {Knobs: gpuprof.Settings{"a": "1", "c": "1"}, Error: "no memory"}, {Knobs: gpuprof.Settings{"a": "2", "b": "1"}, Error: "no a"}})
	if len(got) != 3 || len(got[0].Knobs) != 1 || got[1].Error != "no memory" || got[2].Knobs["a"] != "2" {
		t.Errorf("%v", got)
	}
}

// hurried measures two pairs of blocks, too few for a ratio.
type hurried struct{ *fakeBench }

func (h hurried) Compare(ctx context.Context, a, b Side, l Limits) (*tune.Outcome, error) {
	o, err := h.fakeBench.Compare(ctx, a, b, l)
	if o != nil && o.Verdict == "" {
		o.A, o.B, o.TimeA, o.TimeB = o.A[:2], o.B[:2], o.TimeA[:2], o.TimeB[:2]
	}
	return o, err
}

// What was measured too little to tell says so, and so does the table.
func TestTooFewBlocks(t *testing.T) {
	f := newFakeBench(1)
	o := fakeOptions(f, 1)
	o.Only, o.Budget, o.Bench = []string{"cache"}, time.Millisecond, hurried{f}
	r := run(t, o)
	if f := r.Effects[0]; f.Verdict != tune.Inconclusive || f.Ratio != 0 || !strings.Contains(f.Reason, "too few blocks fitted") {
		t.Errorf("%+v", f)
	}
	if r.Default.Median <= 0 || r.Default.CI95 != [2]float64{} {
		t.Errorf("the default: %+v", r.Default)
	}
}

// An interval is stated of six blocks or more, of processes as replicates, and
// of what is the same in every block; of less there is none.
func TestDefaultInterval(t *testing.T) {
	blocks := func(v ...float64) (out [][]float64) {
		for _, x := range v {
			out = append(out, []float64{x})
		}
		return out
	}
	for name, c := range map[string]struct {
		goal   tune.Goal
		blocks [][]float64
		want   float64
		known  bool
	}{
		"one block":      {tune.Time, blocks(2), 2, false},
		"five blocks":    {tune.Time, blocks(1, 2, 2, 3, 4), 2, false},
		"six blocks":     {tune.Time, blocks(2, 1, 3, 2, 4, 2), 2, true},
		"a rate":         {tune.Throughput, blocks(0.5, 0.25, 0.5, 1, 0.5, 0.5), 2, true},
		"bytes":          {tune.Memory, blocks(7, 7), 7, true},
		"one process":    {tune.Time, [][]float64{{1, 2, 3}}, 2, false},
		"two processes":  {tune.Time, [][]float64{{1, 2, 3}, {2, 2, 2}}, 2, true},
		"nothing":        {tune.Time, nil, 0, false},
		"blocks of none": {tune.Time, [][]float64{nil, nil}, 0, false},
	} {
		m, ci := medianOf(c.goal, c.blocks)
		if m != c.want || (ci != [2]float64{}) != c.known || c.known && !(ci[0] <= m && m <= ci[1]) {
			t.Errorf("%s: %g in %v, want %g, known: %t", name, m, ci, c.want, c.known)
		}
	}
	// Three processes have t's interval, which is wider than their range.
	if _, ci := medianOf(tune.Time, [][]float64{{1, 1}, {1.1, 1.1}, {1.2, 1.2}}); ci[0] > 0.9 || ci[1] < 1.3 {
		t.Errorf("three processes: %v", ci)
	}
}

// A default that is above a limit is no answer: the fastest setting that keeps
// to the limits is, even where it is slower, and where nothing does tune says so.
func TestDefaultAboveALimit(t *testing.T) {
	for name, tt := range map[string]struct {
		set    gpuprof.Settings
		only   string
		memory int64
		goal   tune.Goal
		want   gpuprof.Settings // nil: nothing fits
		text   string
	}{
		"one change fits":              {nil, "batch", 110, tune.Time, gpuprof.Settings{"batch": "8"}, "the default is above a limit itself: it takes 132 B of memory"},
		"the fastest of those that do": {nil, "batch,cache", 110, tune.Time, gpuprof.Settings{"batch": "8", "cache": "on"}, "132 B"},
		"two only together":            {nil, "twin,twin2", 100, tune.Time, gpuprof.Settings{"twin": "on", "twin2": "on"}, "132 B"},
		"the least memory":             {nil, "batch,twin", 115, tune.Memory, gpuprof.Settings{"batch": "8", "twin": "on"}, "132 B"},
		"an error":                     {gpuprof.Settings{"round": "bf16"}, "round,slow", 0, tune.Time, gpuprof.Settings{"round": "fp32"}, "its error against float64, 0.05, is above --max-error 0.01"},
		"nothing fits":                 {nil, "twin,slow", 100, tune.Time, nil, "it takes 132 B of memory, more than --max-memory 100 B"},
		"the least that was seen":      {nil, "twin,slow", 100, tune.Time, nil, "the lowest measured value is 112 B"},
	} {
		f := newFakeBench(1)
		o := fakeOptions(f, 1)
		o.Set, o.Only, o.MaxMemory, o.Goal = tt.set, strings.Split(tt.only, ","), tt.memory, tt.goal
		r := run(t, o)
		if !strings.Contains(r.Conclusion.Text, tt.text) {
			t.Errorf("%s: %s", name, r.Conclusion.Text)
		}
		switch {
		case tt.want == nil:
			if r.Recommended != nil || r.Conclusion.Verdict != tune.NothingFits || r.Conclusion.Command != "" || !strings.Contains(r.Conclusion.Text, "no recommendation") {
				t.Errorf("%s: %+v, %+v", name, r.Recommended, r.Conclusion)
			}
		case r.Recommended == nil || !maps.Equal(r.Recommended.Knobs, tt.want):
			t.Errorf("%s: %+v; want %v: %s", name, r.Recommended, tt.want, r.Conclusion.Text)
		}
	}
}

// A process of its own that takes more than the limit is no confirmation.
func TestConfirmationKeepsToTheLimits(t *testing.T) {
	f := newFakeBench(1)
	o := fakeOptions(f, 1)
	o.Only, o.MaxMemory = []string{"cache"}, 140
	o.Fresh = func(ctx context.Context, a, b Side, l Limits) (*tune.Outcome, error) {
		r, err := f.fresh(ctx, a, b, l)
		if b.Knobs.On("cache") {
			r.MemoryB += 20
		}
		return r, err
	}
	r := run(t, o)
	if r.Recommended != nil || len(r.Failed) != 1 || !strings.Contains(r.Failed[0].Error, "more than --max-memory") ||
		r.Conclusion.Verdict != tune.Unconfirmed || !strings.Contains(r.Conclusion.Text, "more than --max-memory") {
		t.Errorf("%+v, failed %v: %s", r.Recommended, r.Failed, r.Conclusion.Text)
	}
}

// With its budget spent, the search does not begin a comparison more to know
// what a combination does: it falls back on what it measured.
func TestSpentBudgetMeasuresNothingMore(t *testing.T) {
	f := newFakeBench(1)
	o := fakeOptions(f, 1)
	o.Only, o.Budget, o.Fresh = []string{"cache", "pipe"}, 40*time.Second, nil
	f.stop = func(int) { // the combination takes the rest of the budget, and more
		if strings.Contains(f.calls[len(f.calls)-1], "cache=on clash=off dev=any explode=off mem=small pipe=off") && strings.Contains(f.calls[len(f.calls)-1], "pipe=on") {
			f.clock = f.clock.Add(time.Minute)
		}
	}
	r := run(t, o)
	if r.Recommended != nil || !strings.Contains(r.Conclusion.Text, "cache=on alone x0.") || !strings.Contains(r.Conclusion.Text, "no fresh process can be started") {
		t.Errorf("%+v: %s", r.Recommended, r.Conclusion.Text)
	}
	last := r.Journal[len(r.Journal)-1].Key
	if !strings.Contains(last, "pipe=on") {
		t.Errorf("measured after the budget: %s", last)
	}
}

// A result of schema 1 is read, and what it did not confirm is not called
// recommended.
func TestDecodeSchema1(t *testing.T) {
	for text, want := range map[string]string{
		`"knobs":{"batch":"2"},"text":"batch=2: time x0.5","confirmed":true`:  tune.Recommends,
		`"knobs":{"batch":"2"},"text":"batch=2: time x0.5","confirmed":false`: tune.Undecided,
		`"knobs":{},"text":"the default is best","default_best":true`:         tune.Undecided,
	} {
		r, err := tune.Decode([]byte(`{"schema_version":"1.0.0","kind":"tune","recommended":{`+text+`}}`), "x.json")
		if err != nil || r.Conclusion.Verdict != want || r.Conclusion.Text == "" || (r.Recommended != nil) != (want == tune.Recommends) || r.IntervalText() != "95 % interval of each row alone" {
			t.Errorf("%s: %v, %+v", text, err, r)
		}
	}
}

func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"a":[[1]],"b":[[1]]}},{"key":"l","outcome":null}]}`: "",
		`{"schema_version":"3.0.0","kind":"tune","journal":{"later":1}}`:                                                              "schema_version 3.0.0 is newer",
		`{"schema_version":"1.0.0","kind":"tune","journal":{"later":1}}`:                                                              "the file is damaged",
		`{"schema_version":"1.0.0","kind":"run"}`:                                                                                     "it is a run, which",
		`[]`:                     "was not written by gpuprof tune",
		`{"schema_version":"1.0`: "the file is damaged",
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"a":[[1],[2]],"b":[[1]]}}]}`:                     `measurement 1 has sides that no measurement has`,
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"a":[],"b":[null]}}]}`:                           "sides that no measurement has",
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"b":[[1]],"time_a":[[1]],"time_b":[[1],[1]]}}]}`: "sides that no measurement has",
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"a":[[1,0]],"b":[[1,1]]}}]}`:                     "sides that no measurement has",
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"a":[[1]],"b":[[-1]]}}]}`:                        "sides that no measurement has",
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"verdict":"faster"}}]}`:                          "sides that no measurement has",
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"verdict":"failed"}}]}`:                          "",
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"memory_b":-1}}]}`:                               "sides that no measurement has",
		`{"schema_version":"1.0.0","kind":"tune","budget_s":10,"spent_s":-1}`:                                                      "its budget is 10 s, of which -1 s are spent",
		`{"schema_version":"1.0.0","kind":"tune","budget_s":1e300}`:                                                                "the file is damaged",
	} {
		_, err := tune.Decode([]byte(text), "x.json")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
