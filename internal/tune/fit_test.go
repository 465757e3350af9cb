package tune

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
)

// A default that is above a limit is no answer: the fastest setting that keeps
// to the limits is, even where it is slower, and where nothing does tune says so.
func TestDefaultAboveALimit(t *testing.T) {
	for name, tt := range map[string]struct {
		set    gpuprof.Settings
		only   string
		memory int64
		goal   Goal
		want   gpuprof.Settings // nil: nothing fits
		text   string
	}{
		"one change fits":              {nil, "batch", 110, Time, gpuprof.Settings{"batch": "8"}, "the default is above a limit itself: it takes 132.0 B of memory"},
		"the fastest of those that do": {nil, "batch,cache", 110, Time, gpuprof.Settings{"batch": "8", "cache": "on"}, "132.0 B"},
		"two only together":            {nil, "twin,twin2", 100, Time, gpuprof.Settings{"twin": "on", "twin2": "on"}, "132.0 B"},
		"the least memory":             {nil, "batch,twin", 115, Memory, gpuprof.Settings{"batch": "8", "twin": "on"}, "132.0 B"},
		"an error":                     {gpuprof.Settings{"round": "bf16"}, "round,slow", 0, Time, gpuprof.Settings{"round": "fp32"}, "its error against float64, 0.05, is above --max-error 0.01"},
		"nothing fits":                 {nil, "twin,slow", 100, Time, nil, "it takes 132.0 B of memory, more than --max-memory 100.0 B"},
		"the least that was seen":      {nil, "twin,slow", 100, Time, nil, "the least that was seen is 112.0 B"},
	} {
		f := newFakeBench(1)
		o := fakeOptions(f, 1)
		o.Set, o.Only, o.MaxMemory, o.Goal = tt.set, strings.Split(tt.only, ","), tt.memory, tt.goal
		o.Fresh = func(ctx context.Context, s gpuprof.Settings, limit time.Duration) (*gpuprof.Run, error) {
			all := maps.Clone(s)
			for k, v := range o.Set { // as the command does
				if _, turned := s[k]; !turned {
					all[k] = v
				}
			}
			return f.fresh(ctx, all, limit)
		}
		r := run(t, o)
		rec := r.Recommended
		if !strings.Contains(rec.Text, tt.text) || rec.DefaultBest {
			t.Errorf("%s: %s", name, rec.Text)
		}
		switch {
		case tt.want == nil:
			if len(rec.Knobs) > 0 || !strings.Contains(rec.Text, "nothing is recommended") {
				t.Errorf("%s: %v, %s", name, rec.Knobs, rec.Text)
			}
		case !maps.Equal(rec.Knobs, tt.want) || !rec.Confirmed:
			t.Errorf("%s: %v, confirmed %v; want %v: %s", name, rec.Knobs, rec.Confirmed, tt.want, rec.Text)
		}
	}
}

// A process of its own that takes more than the limit is no confirmation.
func TestConfirmationKeepsToTheLimits(t *testing.T) {
	f := newFakeBench(1)
	o := fakeOptions(f, 1)
	o.Only, o.MaxMemory = []string{"cache"}, 140
	o.Fresh = func(ctx context.Context, s gpuprof.Settings, limit time.Duration) (*gpuprof.Run, error) {
		r, err := f.fresh(ctx, s, limit)
		if s.On("cache") {
			r.PeakMemory += 20
		}
		return r, err
	}
	r := run(t, o)
	if len(r.Recommended.Knobs) > 0 || len(r.Failed) != 1 || !strings.Contains(r.Failed[0].Error, "more than --max-memory") {
		t.Errorf("%+v, failed %v", r.Recommended, r.Failed)
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
	if rec := r.Recommended; len(rec.Knobs) != 1 || !rec.Knobs.On("cache") || rec.Confirmed {
		t.Errorf("%+v", rec)
	}
	last := r.Journal[len(r.Journal)-1].Key
	if !strings.Contains(last, "pipe=on") {
		t.Errorf("measured after the budget: %s", last)
	}
}

func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"a":[[1]],"b":[[1]]}},{"key":"l","outcome":null}]}`: "",
		`{"schema_version":"2.0.0","kind":"tune","journal":{"later":1}}`:                                                              "schema_version 2.0.0 is newer",
		`{"schema_version":"1.0.0","kind":"tune","journal":{"later":1}}`:                                                              "the file is damaged",
		`{"schema_version":"1.0.0","kind":"run"}`:                                                                                     "was not written by gpuprof tune",
		`[]`: "the file is damaged",
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"a":[[1],[2]],"b":[[1]]}}]}`:                     `measurement "k" has sides that do not fit together`,
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"a":[],"b":[null]}}]}`:                           "do not fit together",
		`{"schema_version":"1.0.0","kind":"tune","journal":[{"key":"k","outcome":{"b":[[1]],"time_a":[[1]],"time_b":[[1],[1]]}}]}`: "do not fit together",
	} {
		_, err := Decode(strings.NewReader(text), "x.json")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
