package pprof

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// division is a run's figures by stage and process. With several processes
// counts have a row of their own, the last one.
type division struct {
	processes int
	counted   int // the row that holds the counts
	duration  int64
	step      []values   // of the step's own frame, by row
	stages    [][]values // by stage of view.Stages and row
}

func (d *division) rows() int { return max(d.processes, d.counted+1) }

// process is the process of a row, -1 for the counts of all of them.
func (d *division) process(row int) int {
	if row >= d.processes {
		return -1
	}
	return row
}

func divide(r *gpuprof.Run) *division {
	stages := view.Stages(r)
	d := &division{processes: processes(r, stages)}
	if d.processes > 1 {
		d.counted = d.processes
	}
	d.step = make([]values, d.rows())
	period := view.Usable(r.ProbedStep)
	if period == nil {
		period = view.Usable(r.Step)
	}
	d.duration = nanos(typical(period))
	shares, before := 0.0, int64(0)
	for _, s := range stages {
		v := make([]values, d.rows())
		d.fill(v, deviceTime, nanos(typical(s.Device)), s.Device)
		d.fill(v, hostTime, nanos(typical(s.Host)), s.Host)
		shares += s.Share
		until := min(nanos(shares*typical(period)), d.duration)
		if shares > 1-1e-9 { // the last one; rounding leaves the step nothing
			until = d.duration
		}
		d.fill(v, stepTime, until-before, s.Exposed)
		before = until
		c := &v[d.counted]
		c[bytesMoved] = whole(positive(s.Counters["bytes_read"] + s.Counters["bytes_written"]))
		c[flops], c[launches] = whole(s.Counters["flops"]), whole(s.Counters["launches"])
		d.stages = append(d.stages, v)
	}
	d.fill(d.step, stepTime, d.duration-before, period) // all of it where no stage has a share
	e := view.Usable(r.EnergyStep)
	d.fill(d.step, energy, whole(typical(e)*1e6), e)
	return d
}

func (d *division) fill(rows []values, kind int, total int64, s *gpuprof.Series) {
	for p, v := range d.parts(total, s) {
		rows[p][kind] = v
	}
}

// parts divides a figure among the processes in the ratio of their sums over
// samples; together they are the figure, to the last unit.
func (d *division) parts(total int64, s *gpuprof.Series) []int64 {
	out := make([]int64, d.processes)
	sums, all := make([]float64, d.processes), 0.0
	for p := range out {
		sums[p] = mean(s, p)
		all += sums[p]
	}
	if all == 0 { // a series without samples
		out[0] = total
		return out
	}
	before, upTo := int64(0), 0.0
	for p := range out {
		upTo += sums[p]
		until := min(whole(float64(total)*(upTo/all)), total)
		if p == len(out)-1 {
			until = total
		}
		out[p], before = until-before, until
	}
	return out
}

// processes is how many processes gave samples of the step or a stage, at least one.
func processes(r *gpuprof.Run, stages []view.Stage) int {
	n := 1
	for _, s := range []*gpuprof.Series{r.Step, r.ProbedStep, r.EnergyStep} {
		n = max(n, lists(s))
	}
	for _, s := range stages {
		n = max(n, lists(s.Device), lists(s.Host), lists(s.Exposed))
	}
	return n
}

func lists(s *gpuprof.Series) int {
	if s == nil {
		return 0
	}
	return len(s.Runs)
}

// typical is a series' median; where that is zero but not every sample is, it
// is the mean, so that what is rare is not lost.
func typical(s *gpuprof.Series) float64 {
	switch {
	case s == nil:
		return 0
	case s.Median > 0:
		return positive(s.Median)
	}
	sum, n := 0.0, 0
	for p := range s.Runs {
		sum += mean(s, p) * float64(len(s.Runs[p]))
		n += len(s.Runs[p])
	}
	return sum / float64(max(n, 1))
}

// mean is of process p's samples; what is no positive number counts as zero.
func mean(s *gpuprof.Series, p int) float64 {
	if lists(s) <= p || len(s.Runs[p]) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range s.Runs[p] {
		sum += positive(v)
	}
	return sum / float64(len(s.Runs[p]))
}
