package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/sweep"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// point is a row of a sweep table.
type point struct {
	Setting    []string // value of each setting that differs between the runs (sweep.Vary)
	Step       *gpuprof.Series
	Throughput *gpuprof.Throughput
	Ratio      float64 // step median divided by the first run's; 0 if unknown
	Checks     string
	Status     string
}

// pointsOf returns a row per run, and the names of the differing settings. Runs with equal settings are numbered.
func pointsOf(runs []*gpuprof.Run) (names []string, list []point) {
	names = sweep.Vary(runs)
	for i, r := range runs {
		p := point{Checks: checkCell(r), Status: view.Status(r)}
		for _, n := range names {
			p.Setting = append(p.Setting, view.Cut(sweep.Setting(r, n), 32))
		}
		if len(names) == 0 {
			p.Setting = []string{fmt.Sprint(i + 1)}
		}
		if view.HasTimes(r) {
			p.Step = view.Usable(r.Step)
			if r.Throughput != nil && r.Throughput.Series.Usable() {
				p.Throughput = r.Throughput
			}
		}
		if first := view.Usable(runs[0].Step); first != nil && p.Step != nil && first.Median > 0 && view.HasTimes(runs[0]) {
			p.Ratio = p.Step.Median / first.Median
		}
		list = append(list, p)
	}
	if len(names) == 0 {
		names = []string{"run"}
	}
	return names, list
}

func checkCell(r *gpuprof.Run) string {
	switch failed := len(r.Failed()); {
	case len(r.Checks) == 0:
		return view.None
	case failed > 0:
		return fmt.Sprintf("%d of %d failed", failed, len(r.Checks))
	}
	return fmt.Sprintf("%d passed", len(r.Checks))
}

// sweepIntervals describes what the intervals of the steps cover.
func sweepIntervals(runs []*gpuprof.Run) string {
	step := runs[0].Step
	kind := view.IntervalName(step) + ", " + view.IntervalScope(step)
	if view.Processes(step) == 1 {
		kind += "; " + anotherProcess(runs...)
	}
	return kind
}

// The table of stages of a sweep has at most mostShares stages, each with at least leastShare in some run.
const (
	mostShares = 7
	leastShare = 0.01
)

const sharesText = "Exposed share of each stage: the part of the step that is its alone"

// sharesOfRuns returns each run's exposed share of each large stage, the largest stage first: it explains why one
// setting is faster. Both results are nil if no run has stages.
func sharesOfRuns(runs []*gpuprof.Run) (stages []string, rows [][]string) {
	most := map[string]float64{}
	byRun := make([]map[string]view.Stage, len(runs))
	for i, r := range runs {
		byRun[i] = map[string]view.Stage{}
		if !view.HasTimes(r) {
			continue
		}
		for _, s := range view.Stages(r) {
			byRun[i][s.Name] = s
			if s.Share >= leastShare {
				most[s.Name] = max(most[s.Name], s.Share)
			}
		}
	}
	stages = slices.SortedFunc(maps.Keys(most), func(a, b string) int {
		return cmp.Or(cmp.Compare(most[b], most[a]), cmp.Compare(a, b))
	})
	if len(stages) == 0 {
		return nil, nil
	}
	stages = stages[:min(len(stages), mostShares)]
	for i := range runs {
		var row []string
		for _, name := range stages {
			row = append(row, view.ShareCell(byRun[i][name]))
		}
		rows = append(rows, row)
	}
	return stages, rows
}
