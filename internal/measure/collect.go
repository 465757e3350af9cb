package measure

import (
	"gonum.org/v1/gonum/floats"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
)

// The columns that exist beside a session's own stages.
const (
	launchStage = "launch" // the caller enqueueing while nothing else runs
	gapStage    = "gap"    // what belongs to no stage
)

// samples collects, per sample, what series are made of.
type samples struct {
	stages []gpuprof.Stage
	step   []float64
	bare   []float64
	// One column a stage plus launch and gap; one row a sample.
	device, host, exposed [][]float64
	rates                 []float64 // steps a second, one a probed block
	order                 []gpuprof.Order
	flags                 [][]string
	blocks                int
	probedPairs           [][]float64 // by pair of neighbouring blocks, for the overhead
	barePairs             [][]float64
	worstMismatch         float64
}

func newSamples(stages []gpuprof.Stage) *samples {
	n := len(stages) + 2
	return &samples{stages: stages, device: make([][]float64, n), host: make([][]float64, n), exposed: make([][]float64, n)}
}

// add takes a block's samples in.
func (s *samples) add(b *block, mode gpuprof.Mode, limit int) {
	if b.rec == nil {
		return
	}
	s.worstMismatch = max(s.worstMismatch, b.mismatch)
	p := b.periods(mode)
	p = p[:min(len(p), limit)]
	side := gpuprof.SideProbed
	if b.pass == events.Bare {
		side = gpuprof.SideBare
		s.bare = append(s.bare, p...)
	} else {
		s.step = append(s.step, p...)
		s.addStages(b, mode, len(p))
		if sum := floats.Sum(p); sum > 0 {
			s.rates = append(s.rates, float64(len(p))/sum)
		}
	}
	edges := b.edges(mode)
	for i := range p {
		s.order = append(s.order, gpuprof.Order{Block: s.blocks, Side: side, StartS: float64(edges[b.first+i]) * 1e-9})
		f := []string{}
		if b.throttled {
			f = append(f, "throttled")
		}
		s.flags = append(s.flags, f)
	}
	s.blocks++
}

// addStages takes the stage times of the first n samples of a probed block.
func (s *samples) addStages(b *block, mode gpuprof.Mode, n int) {
	intervals := intervalsOf(b.rec, s.stages)
	rows := exposed(b.edges(mode), intervals, len(s.stages))
	dev, host := stageSums(b.rec, len(s.stages))
	for k := range n {
		i := b.first + k
		for c := range rows[i] {
			s.exposed[c] = append(s.exposed[c], float64(rows[i][c])*1e-9)
			s.device[c] = append(s.device[c], float64(dev[i][c])*1e-9)
			s.host[c] = append(s.host[c], float64(host[i][c])*1e-9)
		}
	}
}

// intervalsOf lists who could own which time: device spans by their events,
// the caller's spans by its clock.
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

// stageSums adds up, per step, the device and host time of every column. The
// caller's time in device stages is theirs and, once more, launch's.
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

// pair notes a finished pair of neighbouring blocks, one of each side.
func (s *samples) pair(probed, bare *block, mode gpuprof.Mode) {
	s.probedPairs, s.barePairs = append(s.probedPairs, probed.periods(mode)), append(s.barePairs, bare.periods(mode))
}

// results turns the columns into stage results, without kernels.
func (s *samples) results() []gpuprof.StageResult {
	if len(s.step) == 0 {
		return nil
	}
	series := func(x []float64) *gpuprof.Series { return stats.Summarise("s", x) }
	var out []gpuprof.StageResult
	for c, st := range s.stages {
		r := gpuprof.StageResult{Name: st.Name, Parent: "step", Host: series(s.host[c]), Exposed: series(s.exposed[c]), Counters: map[string]float64{}}
		if st.Kind == gpuprof.DeviceStage {
			r.Device = series(s.device[c])
		}
		out = append(out, r)
	}
	n := len(s.stages)
	return append(out,
		gpuprof.StageResult{Name: launchStage, Parent: "step", Host: series(s.host[n]), Exposed: series(s.exposed[n]), Counters: map[string]float64{}},
		gpuprof.StageResult{Name: gapStage, Parent: "step", Exposed: series(s.exposed[n+1]), Counters: map[string]float64{}},
	)
}
