package stats

import (
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gpuprof/gpuprof"
)

// PreferBareStep returns the run as if the step had been timed without stage events. The step measured without them
// (BareStep) becomes Step, and the step measured with them becomes ProbedStep, to which the exposed times add up.
// Throughput and Order then cover only the blocks without stage events. ok is false if the run is already so, or lacks
// bare samples or a throughput, or if its samples do not match its Order.
func PreferBareStep(run *gpuprof.Run) (out *gpuprof.Run, ok bool) {
	if run.ProbedStep != nil || run.Step == nil || run.BareStep == nil || run.Throughput == nil {
		return nil, false
	}
	steps, work := blockRates(run, gpuprof.SideProbed, run.Step)
	bare, _ := blockRates(run, gpuprof.SideBare, run.BareStep)
	if steps == nil || bare == nil || work <= 0 {
		return nil, false
	}
	for _, rates := range bare {
		floats.Scale(work, rates)
	}
	kept := *run
	kept.Step, kept.ProbedStep, kept.BareStep = run.BareStep, run.Step, nil
	kept.Throughput = &gpuprof.Throughput{Unit: run.Throughput.Unit, Series: Summarise(run.Throughput.Unit, bare...)}
	kept.Order, kept.Flags = nil, nil
	for i, o := range run.Order {
		if o.Side == gpuprof.SideBare {
			o.Side = gpuprof.SideProbed
			kept.Order, kept.Flags = append(kept.Order, o), append(kept.Flags, run.Flags[i])
		}
	}
	return &kept, true
}

// blockRates returns the steps per second of each block of a side, one list per process. work is the work per step,
// derived from the throughput of the first block. rates is nil if the samples do not match the order.
func blockRates(run *gpuprof.Run, side int, s *gpuprof.Series) (rates [][]float64, work float64) {
	var blocks []int
	for _, o := range run.Order {
		if o.Side == side {
			blocks = append(blocks, o.Block)
		}
	}
	if len(blocks) != s.N() || len(run.Flags) != len(run.Order) {
		return nil, 0
	}
	for _, samples := range s.Runs {
		var list []float64
		for from := 0; from < len(samples); {
			to := from + 1
			for to < len(samples) && blocks[to] == blocks[from] {
				to++
			}
			if sum := floats.Sum(samples[from:to]); sum > 0 {
				list = append(list, float64(to-from)/sum)
			}
			from = to
		}
		blocks, rates = blocks[len(samples):], append(rates, list)
	}
	if t := slices.Concat(run.Throughput.Series.Runs...); len(t) > 0 && len(rates) > 0 && len(rates[0]) > 0 {
		work = t[0] / rates[0][0]
	}
	return rates, work
}
