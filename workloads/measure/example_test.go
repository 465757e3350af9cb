package measure

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/probes/events"
)

// TestExampleStepKeepsItsLaunches: of a caller that runs two steps ahead, the
// example step keeps the launches and copies that came before its begin, and
// its neighbours what overlaps it from its first span on.
func TestExampleStepKeepsItsLaunches(t *testing.T) {
	const period, ahead = 1000, 2000
	rec := &events.Block{}
	for step := range 5 {
		begin := int64(step * period)
		rec.Begin = append(rec.Begin, begin)
		rec.Spans = append(rec.Spans,
			events.Span{Stage: 0, Step: step, HostStart: begin - ahead - 100, HostEnd: begin - ahead},
			events.Span{Stage: 1, Step: step, HostStart: begin - ahead, HostEnd: begin - ahead + 10, OnDevice: true, DevStart: begin - 400, DevEnd: begin - 300},
			events.Span{Stage: 2, Step: step, HostStart: begin - ahead + 20, HostEnd: begin - ahead + 30, OnDevice: true, DevStart: begin + 50, DevEnd: begin + 900})
	}
	rec.Begin = append(rec.Begin, 5*period)
	r := &runner{sess: &fakeSession{stages: threeStages}, example: &block{rec: rec, first: 1, last: 4}}
	var got []string
	for _, s := range r.exampleStep() {
		got = append(got, fmt.Sprintf("%d %s %s %.0f+%.0f", s.Step, s.Stage, s.Lane, s.StartS*1e9, s.DurS*1e9))
	}
	want := []string{
		"-2 kernel stream -1950+850", "-1 h2d stream -1400+100", "-1 kernel stream -950+850",
		"0 collate host -2100+100", "0 h2d host -2000+10", "0 h2d stream -400+100", "0 kernel host -1980+10", "0 kernel stream 50+850",
		"1 collate host -1100+100", "1 h2d host -1000+10", "1 h2d stream 600+100", "1 kernel host -980+10",
		"2 collate host -100+100", "2 h2d host 0+10", "2 kernel host 20+10",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if out := (&runner{}).exampleStep(); out == nil || len(out) != 0 {
		t.Errorf("%v without a block, want an empty list", out)
	}
}

// TestExampleStepIsTypical: an outlier in the middle of a block is no example.
func TestExampleStepIsTypical(t *testing.T) {
	b := &block{rec: &events.Block{Begin: []int64{0, 10, 20, 120, 131, 140}}, first: 0, last: 5}
	if got := b.typicalStep(); got != 1 { // periods 10 10 100 11 9
		t.Errorf("step %d, want 1", got)
	}
	b.first, b.last = 2, 2
	if got := b.typicalStep(); got != 2 {
		t.Errorf("step %d of no sample, want 2", got)
	}
}
