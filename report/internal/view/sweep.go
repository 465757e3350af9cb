package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// Point is one row of a sweep table.
type Point struct {
	Setting    []string // one value for each name of Vary
	Step       *gpuprof.Series
	Throughput *gpuprof.Throughput
	Ratio      float64 // step median over the first run's; 0 when unknown
	Checks     string
	Status     string
}

// Points are the rows of a sweep and the names of what differs. Repeats of
// one setting are told apart by their number.
func Points(runs []*gpuprof.Run) (names []string, points []Point) {
	names = Vary(runs)
	for i, r := range runs {
		p := Point{Checks: checkCell(r), Status: Status(r)}
		for _, n := range names {
			p.Setting = append(p.Setting, Cut(Setting(r, n), 32))
		}
		if len(names) == 0 {
			p.Setting = []string{fmt.Sprint(i + 1)}
		}
		if HasTimes(r) {
			p.Step = Usable(r.Step)
			if r.Throughput != nil && Usable(r.Throughput.Series) != nil {
				p.Throughput = r.Throughput
			}
		}
		if first := Usable(runs[0].Step); first != nil && p.Step != nil && first.Median > 0 && HasTimes(runs[0]) {
			p.Ratio = p.Step.Median / first.Median
		}
		points = append(points, p)
	}
	if len(names) == 0 {
		names = []string{"run"}
	}
	return names, points
}

func checkCell(r *gpuprof.Run) string {
	switch failed := len(r.Failed()); {
	case len(r.Checks) == 0:
		return None
	case failed > 0:
		return fmt.Sprintf("%d of %d failed", failed, len(r.Checks))
	}
	return fmt.Sprintf("%d passed", len(r.Checks))
}

// Cells are a point's figures after its setting: step, interval, throughput,
// ratio to the first, checks and status.
func (p Point) Cells() []string {
	rate, ratio := None, None
	if p.Throughput != nil {
		rate = RateText(p.Throughput.Series, Cut(p.Throughput.Unit, 24))
	}
	if p.Ratio > 0 {
		ratio = Times(p.Ratio)
	}
	return []string{Median(p.Step), SeriesInterval(p.Step), rate, ratio, p.Checks, p.Status}
}

// CellTitles name Cells.
func CellTitles() []string {
	return []string{"step", "95 % interval", "throughput", "x first", "checks", "status"}
}

// What the table of a sweep's stages shows: at most so many, and none that is
// below the share in every run.
const (
	mostShares = 7
	leastShare = 0.01
)

// SharesText says what Shares are.
const SharesText = "Exposed share of each stage: the part of the step that is its alone"

// Shares say why one setting of a sweep is faster than another: for every run
// the exposed share of each stage that matters in one of them, the largest
// first. Both are empty where no run has stages.
func Shares(runs []*gpuprof.Run) (stages []string, rows [][]string) {
	most := map[string]float64{}
	byRun := make([]map[string]Stage, len(runs))
	for i, r := range runs {
		byRun[i] = map[string]Stage{}
		if !HasTimes(r) {
			continue
		}
		for _, s := range Stages(r) {
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
			row = append(row, ShareCell(byRun[i][name]))
		}
		rows = append(rows, row)
	}
	return stages, rows
}
