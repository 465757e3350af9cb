//go:build !race

// Under the race detector these take many times as long. They simulate jobs in one goroutine; the tests of folders
// start those that read.

package fleet

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
)

// TestNoStraggler: equal ranks have none, a rank that changes from step to step is no
// rank's fault, and a family of ranks with more work is an imbalance.
func TestNoStraggler(t *testing.T) {
	for seed := range uint64(5) {
		j := trainingJob(func(j *tracetest.Job) { j.Seed = seed })
		if r := jobOf(t, traced(t, j.Run(), j.Ranks)); r.Verdict != Even || len(r.Waiting.Stragglers) != 0 || r.Waiting.Unclaimed != "" {
			t.Errorf("equal ranks, seed %d: %s %+v", seed, r.Reason, r.Waiting)
		}
	}
	j := trainingJob(func(j *tracetest.Job) { j.Steps, j.Wander = 17, 5_000_000 })
	r := jobOf(t, traced(t, j.Run(), j.Ranks))
	if len(r.Waiting.Stragglers) > 0 || r.Waiting.EvenS < 0.003 || r.Verdict != Even || !strings.Contains(strings.Join(r.Notes, "\n"), "changes from step to step") {
		t.Errorf("wandering: %+v %q", r.Waiting, r.Notes)
	}
	j = trainingJob(func(j *tracetest.Job) { j.Slow = map[int]float64{1: 1.3, 6: 1.3} })
	r = jobOf(t, traced(t, j.Run(), j.Ranks))
	if len(r.Waiting.Stragglers) != 1 || len(r.Waiting.Stragglers[0].Ranks) != 2 || !slices.Contains(r.Waiting.Stragglers[0].Ranks, 1) || !slices.Contains(r.Waiting.Stragglers[0].Ranks, 6) {
		t.Errorf("two slow ranks: %+v", r.Waiting)
	}
	j = trainingJob(func(j *tracetest.Job) { j.Longer = 1.4 })
	r = jobOf(t, traced(t, j.Run(), j.Ranks))
	if len(r.Waiting.Stragglers) != 0 || !strings.Contains(strings.Join(r.Notes, "\n"), "imbalance: ranks 4, 5, 6, 7 ") {
		t.Errorf("imbalance: %+v %q", r.Waiting, r.Notes)
	}
}

// TestLateOnce: ranks that were late in one step are not named beside the one that is
// late in every step.
func TestLateOnce(t *testing.T) {
	for seed := range uint64(5) {
		j := trainingJob(func(j *tracetest.Job) {
			j.Ranks, j.Steps, j.Seed, j.Late, j.Once = 4, 16, seed, map[int]int64{2: 10_000_000}, map[int]int64{0: 40_000_000, 1: 40_000_000}
		})
		r := jobOf(t, traced(t, j.Run(), j.Ranks))
		if w := r.Waiting; len(w.Stragglers) != 1 || !slices.Equal(w.Stragglers[0].Ranks, []int{2}) {
			t.Errorf("seed %d: %s, %+v", seed, r.Reason, w.Stragglers)
		}
		if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "the rank that is waited for in the remaining time changes from step to step") || !strings.Contains(notes, "ms shorter besides; look") {
			t.Errorf("seed %d: a straggler is named, and the note says %q", seed, notes)
		}
	}
}

// TestReplayRepeats: in jobs of any shape without a slow rank the replay of the recorded
// times repeats the recorded step.
func TestReplayRepeats(t *testing.T) {
	for seed := range uint64(40) {
		j := trainingJob(func(j *tracetest.Job) {
			j.Seed, j.Ranks, j.Steps = seed, 2+int(seed%5), 3+int(seed%4)
			j.Layers, j.Buckets = 4+int(seed%9), 1+int(seed%4)
			j.ReduceNS = 50_000 + int64(seed%7)*300_000
		})
		r := jobOf(t, traced(t, j.Run(), j.Ranks))
		w := r.Waiting
		if w == nil || w.Unclaimed != "" || math.Abs(float64(w.ReplayedS/w.StepS)-1) > replayError {
			t.Fatalf("seed %d: %+v", seed, w)
		}
	}
}
