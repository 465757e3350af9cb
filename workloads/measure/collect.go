package measure

import (
	"gonum.org/v1/gonum/floats"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
)

// samples collects a run's samples.
type samples struct {
	stages []gpuprof.Stage
	step   []float64
	bare   []float64
	probed []float64 // periods of the separate pass with stage events
	// Seconds, indexed [column][sample]: a column per stage, then one for launch and one for gap.
	device, host, exposed [][]float64
	rates                 []float64 // steps per second, one per block of the step
	order                 []gpuprof.Order
	flags                 [][]string
	causes                map[string]int // number of samples by disturbance
	blocks                int
	probedPairs           [][]float64 // one list per pair of neighbouring blocks, for the overhead
	barePairs             [][]float64
	mismatches            []float64 // block.mismatch of each block
}

func newSamples(stages []gpuprof.Stage) *samples {
	n := len(stages) + 2
	return &samples{stages: stages, causes: map[string]int{}, device: make([][]float64, n), host: make([][]float64, n), exposed: make([][]float64, n)}
}

// add appends a block's samples. If stage events are excluded from the timed steps (apart), bare blocks give samples
// of the step and probed blocks samples of the stages; otherwise probed blocks give both.
func (s *samples) add(b *block, mode gpuprof.Mode, limit int, apart bool) {
	if b.rec == nil {
		return
	}
	s.mismatches = append(s.mismatches, b.mismatch)
	p := b.periods(mode)
	p = p[:min(len(p), limit)]
	side := gpuprof.SideProbed
	switch {
	case b.pass == events.Bare && !apart:
		side = gpuprof.SideBare
		s.bare = append(s.bare, p...)
	case b.pass == events.Bare:
		s.addStep(p)
	case apart:
		s.probed = append(s.probed, p...)
		s.addStages(b, mode, len(p))
		return // no samples of the step
	default:
		s.addStep(p)
		s.addStages(b, mode, len(p))
	}
	edges, stride := b.stepEdges(mode)
	for i := range p {
		s.order = append(s.order, gpuprof.Order{Block: s.blocks, Side: side, StartS: gpuprof.Seconds(edges[(b.first+i)*stride])})
		s.flags = append(s.flags, flagsOf(b.causes))
	}
	for _, cause := range b.causes {
		s.causes[cause] += len(p)
	}
	s.blocks++
}

// addStep appends periods of the step and the block's step rate.
func (s *samples) addStep(p []float64) {
	s.step = append(s.step, p...)
	if sum := floats.Sum(p); sum > 0 {
		s.rates = append(s.rates, float64(len(p))/sum)
	}
}

func (s *samples) addStages(b *block, mode gpuprof.Mode, n int) {
	intervals := intervalsOf(b.rec, s.stages)
	edges, stride := b.stepEdges(mode)
	rows := splitExposed(edges, intervals, len(s.stages))
	dev, host := stageSums(b.rec, len(s.stages))
	for k := range n {
		i := b.first + k
		for c := range rows[i*stride] {
			s.exposed[c] = append(s.exposed[c], gpuprof.Seconds(rows[i*stride][c]))
			s.device[c] = append(s.device[c], gpuprof.Seconds(dev[i][c]))
			s.host[c] = append(s.host[c], gpuprof.Seconds(host[i][c]))
		}
	}
}

// intervalsOf lists the recorded intervals with their owners (see ownerOf). Every span gives an interval by the
// caller's clock; a device span also gives one by its event times.
func intervalsOf(b *events.Block, stages []gpuprof.Stage) []interval {
	out := make([]interval, 0, 2*len(b.Spans))
	for _, sp := range b.Spans {
		if sp.OnDevice {
			out = append(out, interval{sp.DevStart, sp.DevEnd, ownerOf(stages, sp.Stage, true)})
		}
		out = append(out, interval{sp.HostStart, sp.HostEnd, ownerOf(stages, sp.Stage, false)})
	}
	return out
}

// stageSums sums device and host time in nanoseconds per step and column (see samples). Host time in device stages
// also counts as launch.
func stageSums(b *events.Block, nStages int) (dev, host [][]int64) {
	steps := len(b.Begin) - 1
	dev, host = make([][]int64, steps), make([][]int64, steps)
	for i := range steps {
		dev[i], host[i] = make([]int64, nStages+2), make([]int64, nStages+2)
	}
	for _, sp := range b.Spans {
		h := sp.HostEnd - sp.HostStart
		host[sp.Step][sp.Stage] += h
		if sp.OnDevice {
			dev[sp.Step][sp.Stage] += sp.DevEnd - sp.DevStart
			host[sp.Step][nStages] += h
		}
	}
	return dev, host
}

// addPair adds a pair of neighbouring blocks, one probed and one bare.
func (s *samples) addPair(probed, bare *block, mode gpuprof.Mode) {
	s.probedPairs, s.barePairs = append(s.probedPairs, probed.periods(mode)), append(s.barePairs, bare.periods(mode))
}

// stageResults turns the columns of the samples into the stages of the result, without kernels.
func (s *samples) stageResults() []gpuprof.StageResult {
	if len(s.exposed[0]) == 0 {
		return []gpuprof.StageResult{}
	}
	series := func(x []float64) *gpuprof.Series { return stats.Summarise("s", x) }
	var out []gpuprof.StageResult
	for c, st := range s.stages {
		r := gpuprof.StageResult{Name: st.Name, Parent: "step", Role: st.Role.String(), Host: series(s.host[c]), Exposed: series(s.exposed[c]), Counters: map[string]float64{}}
		if st.Kind == gpuprof.DeviceStage {
			r.Device = series(s.device[c])
		}
		out = append(out, r)
	}
	n := len(s.stages)
	return append(out,
		gpuprof.StageResult{Name: gpuprof.StageLaunch, Parent: gpuprof.StageStep, Host: series(s.host[n]), Exposed: series(s.exposed[n]), Counters: map[string]float64{}},
		gpuprof.StageResult{Name: gpuprof.StageGap, Parent: gpuprof.StageStep, Exposed: series(s.exposed[n+1]), Counters: map[string]float64{}},
	)
}
