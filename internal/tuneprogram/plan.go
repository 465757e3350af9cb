package tuneprogram

import (
	"math"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// shortenPlan chooses the numbers of warmup and measured steps from a run, and reports whether the plan changed.
func (e *engine) shortenPlan(r tune.ProgramRun) bool {
	was := e.plan
	h := r.Hook
	probed := was == Plan{probeWarm, probeSteps}
	if h.Ended && h.Steps > 0 && h.Steps <= was.Steps { // the program has no more steps
		if e.Steps == 0 || h.Steps < e.Steps {
			e.plan = Plan{was.Warm, h.Steps}
		}
		return e.plan != was
	}
	if probed {
		steps := e.Steps
		if steps == 0 {
			steps = min(max(int(math.Ceil(window.Seconds()/r.Cost)), leastSteps), mostSteps)
		}
		e.plan = Plan{min(max(int(math.Ceil(1/r.Cost)), leastWarm), mostWarm), steps}
	}
	if epoch := epochOf(&h.Seen); e.Steps == 0 && epoch > 1 && epoch <= mostEpoch && (probed || e.p.Epoch == 0) {
		// Measure whole epochs: in a part, the start of a loader's workers would be missing, or counted twice.
		e.p.Epoch = epoch
		up := func(n int) int { return (n + epoch - 1) / epoch * epoch }
		e.plan = Plan{up(e.plan.Warm), up(e.plan.Steps)}
	}
	return e.plan != was
}

// epochOf returns the number of steps between the last two starts of the loader with the longest epoch; 0 if unknown.
func epochOf(seen *tune.Observed) int {
	starts := map[int][]int{}
	for _, at := range seen.Epochs {
		starts[at[0]] = append(starts[at[0]], at[1])
	}
	steps := 0
	for _, at := range starts {
		if n := len(at); n >= 2 {
			steps = max(steps, at[n-1]-at[n-2])
		}
	}
	return steps
}
