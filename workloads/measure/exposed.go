package measure

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// interval is a recorded interval in nanoseconds with its owner, a rank (see ownerOf). When several intervals cover
// an instant, the one with the smallest rank owns it.
type interval struct {
	start, end int64
	owner      int
}

// ownerOf ranks owners: device stages that compute, in step order; device stages that copy, so that a copy during a
// kernel is hidden; host stages, in step order; the caller's enqueueing of device stages, "launch". Other time is gap.
func ownerOf(stages []gpuprof.Stage, stage int, onDevice bool) int {
	switch {
	case onDevice && stages[stage].Role.Copies():
		return len(stages) + stage
	case onDevice:
		return stage
	case stages[stage].Kind != gpuprof.DeviceStage:
		return 2*len(stages) + stage
	}
	return 3 * len(stages)
}

// splitExposed splits every period [begin[i], begin[i+1]) among the owners of its instants. Row i has a value per
// stage, then launch, then gap. The row's sum equals the period exactly, because all times are whole nanoseconds.
func splitExposed(begin []int64, spans []interval, nStages int) [][]int64 {
	type edge struct {
		at    int64
		owner int
		delta int
	}
	var edges []edge
	for _, s := range spans {
		if s.end > s.start {
			edges = append(edges, edge{s.start, s.owner, 1}, edge{s.end, s.owner, -1})
		}
	}
	for _, b := range begin {
		edges = append(edges, edge{b, -1, 0}) // cuts intervals at period borders
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })

	rows := make([][]int64, len(begin)-1)
	for i := range rows {
		rows[i] = make([]int64, nStages+2)
	}
	active := make([]int, 3*nStages+1)
	period := -1
	for k, e := range edges {
		if e.owner >= 0 {
			active[e.owner] += e.delta
		}
		if k+1 == len(edges) {
			break
		}
		for period+1 < len(begin) && begin[period+1] <= e.at {
			period++
		}
		if d := edges[k+1].at - e.at; d > 0 && period >= 0 && period < len(rows) {
			rows[period][columnOf(active, nStages)] += d
		}
	}
	return rows
}

// columnOf returns the column of the active owner with the smallest rank (see ownerOf): a stage, launch or gap.
func columnOf(active []int, nStages int) int {
	for owner, n := range active {
		if n > 0 {
			if owner == 3*nStages {
				return nStages
			}
			return owner % nStages
		}
	}
	return nStages + 1
}
