package pprof

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// division has a run's figures by stage and row. Each row has the figures of one process. With several processes, a
// further row has the counts, which are equal in all processes.
type division struct {
	processes int
	counted   int // index of the row with the counts
	duration  int64
	step      []values   // of the step's own frame, by row
	stages    [][]values // by stage of view.Stages, then row
}

func (d *division) countRows() int { return max(d.processes, d.counted+1) }

// rowProcess returns the process of a row; -1 for the row of counts.
func (d *division) rowProcess(row int) int {
	if row >= d.processes {
		return -1
	}
	return row
}

func divideRun(r *gpuprof.Run) *division {
	stages := view.Stages(r)
	d := &division{processes: countProcesses(r, stages)}
	if d.processes > 1 {
		d.counted = d.processes
	}
	d.step = make([]values, d.countRows())
	period := view.Usable(r.ProbedStep)
	if period == nil {
		period = view.Usable(r.Step)
	}
	d.duration = secondsToNS(typicalOf(period))
	shares, before := 0.0, int64(0)
	for _, s := range stages {
		v := make([]values, d.countRows())
		d.fillKind(v, deviceTime, secondsToNS(typicalOf(s.Device)), s.Device)
		d.fillKind(v, hostTime, secondsToNS(typicalOf(s.Host)), s.Host)
		shares += s.Share
		until := min(secondsToNS(shares*typicalOf(period)), d.duration)
		if shares > 1-1e-9 { // the last stage: rounding must leave nothing
			until = d.duration
		}
		d.fillKind(v, stepTime, until-before, s.Exposed)
		before = until
		c := &v[d.counted]
		c[bytesMoved] = roundCount(positiveOrZero(s.Counters["bytes_read"] + s.Counters["bytes_written"]))
		c[flops], c[launches] = roundCount(s.Counters["flops"]), roundCount(s.Counters["launches"])
		d.stages = append(d.stages, v)
	}
	d.fillKind(d.step, stepTime, d.duration-before, period) // the whole duration if no stage has a share
	e := view.Usable(r.EnergyStep)
	d.fillKind(d.step, energy, roundCount(typicalOf(e)*1e6), e)
	return d
}

func (d *division) fillKind(rows []values, kind int, total int64, s *gpuprof.Series) {
	for p, v := range d.splitTotal(total, s) {
		rows[p][kind] = v
	}
}

// splitTotal divides a figure among the processes in proportion to the means of their samples. The parts add up
// exactly.
func (d *division) splitTotal(total int64, s *gpuprof.Series) []int64 {
	out := make([]int64, d.processes)
	sums, all := make([]float64, d.processes), 0.0
	for p := range out {
		sums[p] = meanOf(s, p)
		all += sums[p]
	}
	if all == 0 { // a series without samples
		out[0] = total
		return out
	}
	before, upTo := int64(0), 0.0
	for p := range out {
		upTo += sums[p]
		until := min(roundCount(float64(total)*(upTo/all)), total)
		if p == len(out)-1 {
			until = total
		}
		out[p], before = until-before, until
	}
	return out
}

// countProcesses returns the number of processes with samples of the step or a stage, at least one.
func countProcesses(r *gpuprof.Run, stages []view.Stage) int {
	n := 1
	for _, s := range []*gpuprof.Series{r.Step, r.ProbedStep, r.EnergyStep} {
		n = max(n, countRuns(s))
	}
	for _, s := range stages {
		n = max(n, countRuns(s.Device), countRuns(s.Host), countRuns(s.Exposed))
	}
	return n
}

func countRuns(s *gpuprof.Series) int {
	if s == nil {
		return 0
	}
	return len(s.Runs)
}

// typicalOf returns a series' median, or its mean if the median is 0, so that rare events are not lost.
func typicalOf(s *gpuprof.Series) float64 {
	switch {
	case s == nil:
		return 0
	case s.Median > 0:
		return positiveOrZero(s.Median)
	}
	sum, n := 0.0, 0
	for p := range s.Runs {
		sum += meanOf(s, p) * float64(len(s.Runs[p]))
		n += len(s.Runs[p])
	}
	return sum / float64(max(n, 1))
}

// meanOf returns the mean of process p's samples; values that are not positive numbers count as 0.
func meanOf(s *gpuprof.Series, p int) float64 {
	if countRuns(s) <= p || len(s.Runs[p]) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range s.Runs[p] {
		sum += positiveOrZero(v)
	}
	return sum / float64(len(s.Runs[p]))
}
