package collate

import (
	"reflect"
	"testing"
)

// Sessions of the same samples share their counts; whatever changes the samples is counted anew.
func TestSamplesAreCountedOnce(t *testing.T) {
	of := func(change func(*recipe)) drawn {
		r := recipe{Items: 4, Batch: 2, Probes: 8, Spread: 50, Cutoff: 4, Seed: 1}
		change(&r)
		return r.drawnInputs()
	}
	first := of(func(*recipe) {})
	for name, change := range map[string]func(*recipe){
		"batch": func(r *recipe) { r.Batch = 3 }, "padded": func(r *recipe) { r.Padded = true },
		"impl": func(r *recipe) { r.Impl = implNaive }, "reuse": func(r *recipe) { r.Reuse = true }, "room": func(r *recipe) { r.Room = 9 },
	} {
		if of(change) != first {
			t.Errorf("%s: the same samples are counted again", name)
		}
	}
	for name, change := range map[string]func(*recipe){
		"seed": func(r *recipe) { r.Seed = 2 }, "items": func(r *recipe) { r.Items = 5 }, "probes": func(r *recipe) { r.Probes = 9 },
		"spread": func(r *recipe) { r.Spread = 0 }, "cutoff": func(r *recipe) { r.Cutoff = 3 },
	} {
		if of(change) == first {
			t.Errorf("%s: other samples have the counts of these", name)
		}
	}
	// Sessions agree, whether they counted or not.
	set := []string{"batch=6", "probes=17", "cutoff=3.3"}
	a := openSession(t, "small", set...)
	rows, err := a.r.countRows(t.Context(), a.first)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := counted.Of(a.r.drawnInputs(), nil) // which would fail if it were not there
	if err != nil || !reflect.DeepEqual(kept, rows) {
		t.Errorf("%v: the counts that are kept differ", err)
	}
	if b := openSession(t, "small", set...); !reflect.DeepEqual(a.survey, b.survey) || !a.survey.exact {
		t.Errorf("%+v and %+v", a.survey, b.survey)
	}
}
