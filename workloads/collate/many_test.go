//go:build !race

// Batches that are long beside what interrupts a step, and many sessions, take ten times as long under the race
// detector. TestRunReconciles and TestOrderDoesNotDependOnWorkers have the same workers there.

package collate

import (
	"math"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// Batches and their order on every source of samples that TestOrderDoesNotDependOnWorkers leaves out.
func TestOrderOfEverySource(t *testing.T) {
	sameOrder(t, func(source, workers int) bool { return (source+workers)%5 >= 2 })
}

// The time that a step starved is the time the device had nothing to do.
func TestStarvedIsIdle(t *testing.T) {
	for _, set := range []string{
		"workers=0,impl=naive,sync=never,batch=64", "workers=1,impl=naive,sync=never,batch=64", "workers=1,worker_kind=process,prefetch=1,impl=naive,sync=never,batch=64",
	} {
		t.Run(set, func(t *testing.T) {
			r := reconciles(t, set)
			starvedIsIdle(t, r)
			exampleAgrees(t, r)
		})
	}
}

// starvedIsIdle compares starved with the time in which no device stage ran,
// less what a batch that has come spends in staging, which has a stage of its
// own. The median over samples: what a busy machine interrupts is in the others.
func starvedIsIdle(t *testing.T, r *gpuprof.Run) {
	t.Helper()
	var ratios []float64
	for i, period := range timed(r) {
		at := func(stage string) float64 { return r.Stage(stage).Exposed.Runs[0][i] }
		if idle := period - at("h2d") - at("consume") - at("stage"); idle > 0.2*period { // else a batch was ready
			ratios = append(ratios, at("starved")/idle)
		}
	}
	slices.Sort(ratios)
	if len(ratios) < len(timed(r))/3 {
		t.Fatalf("only %d samples starved: the test shows nothing", len(ratios))
	}
	if m := ratios[len(ratios)/2]; m < 0.95 || m > 1 {
		t.Errorf("starved is %.3f of the time in which the device was idle (%v)", m, ratios)
	}
}

// exampleAgrees finds the sample that the example step shows and compares what
// it says about starving with the holes between the example's device spans.
func exampleAgrees(t *testing.T, r *gpuprof.Run) {
	t.Helper()
	best := math.Inf(1)
	for i, period := range timed(r) {
		busy, starved := holes(r.ExampleStep, period)
		said := r.Stage("starved").Exposed.Runs[0][i]
		ran := r.Stage("h2d").Exposed.Runs[0][i] + r.Stage("consume").Exposed.Runs[0][i]
		best = min(best, math.Abs(starved-said)/period+math.Abs(busy-ran)/period)
	}
	if best > 0.01 {
		t.Errorf("no sample reports the starving that the example step shows; the nearest is off by %.3f of the step", best)
	}
}

// holes adds up, over [0, period), where a device span runs, and where none
// does while the caller starves.
func holes(spans []gpuprof.Span, period float64) (busy, starved float64) {
	cuts := []float64{0, period}
	for _, s := range spans {
		cuts = append(cuts, min(max(s.StartS, 0), period), min(max(s.StartS+s.DurS, 0), period))
	}
	slices.Sort(cuts)
	for i, from := range cuts[1:] {
		mid, length := (from+cuts[i])/2, from-cuts[i]
		device, waits := false, false
		for _, s := range spans {
			if s.Kernel == "" && mid >= s.StartS && mid < s.StartS+s.DurS {
				device = device || s.Lane != "host"
				waits = waits || s.Lane == "host" && s.Stage == "starved"
			}
		}
		if device {
			busy += length
		} else if waits {
			starved += length
		}
	}
	return busy, starved
}
