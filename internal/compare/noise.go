package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// MachineNoise holds the results of blocks of one program against itself (A/A) on a machine: the scatter of its
// processes, and so the slowdowns that a gate can find.
type MachineNoise struct {
	gpuprof.Head
	Machine      string        `json:"machine"` // filled by the caller
	Command      string        `json:"command"` // of one process
	MeasuredAt   string        `json:"measured_at"`
	Blocks       int           `json:"blocks"`        // one process of either side each
	BlockSeconds float64       `json:"block_seconds"` // how long one took in the mean
	Metrics      []MetricNoise `json:"metrics"`       // those that a gate judges
}

// NoisePlan is the noise of a machine with what it means for gates: what gate --aa and
// gate --plan print.
type NoisePlan struct {
	MachineNoise
	BudgetS  float64        `json:"budget_s"`
	Smallest gpuprof.Number `json:"smallest"` // the least slowdown, a share, that a gate finds within the budget
	Plans    []PlannedGate  `json:"plans"`
}

// plannedFor are the slowdowns of a plan, in addition to the requested threshold.
var plannedFor = [...]float64{0.02, 0.05, 0.10}

// Planned is the plan for a budget, and for a threshold besides; 0 asks for none.
func (m *MachineNoise) Planned(budgetS, threshold float64) *NoisePlan {
	p := &NoisePlan{MachineNoise: *m, BudgetS: budgetS, Smallest: gpuprof.Number(m.Smallest(budgetS))}
	thresholds := plannedFor[:]
	if threshold != 0 && !slices.Contains(thresholds, threshold) {
		thresholds = slices.Sorted(slices.Values(append(slices.Clone(thresholds), threshold)))
	}
	for _, t := range thresholds {
		p.Plans = append(p.Plans, m.Plan(t))
	}
	return p
}

// MetricNoise is the noise of one metric.
type MetricNoise struct {
	Name   string         `json:"name"`
	Unit   string         `json:"unit"`
	Median gpuprof.Number `json:"median"` // of the run medians of both sides
	// Spread is the standard deviation between processes as a logarithm (0.01 is
	// about 1 %): robust where there are outliers, and then of the others.
	Spread float64 `json:"spread"`
	// SlowShare is the share of processes that are outliers, 0 to 1.
	SlowShare float64 `json:"slow_share"`
	// Estimator is by what rule a gate judges under such noise.
	Estimator stats.Rule `json:"estimator"`
}

// MeasureNoise finds the noise of a machine from at least MinRuns blocks of one program against itself. The options
// choose metrics as for a gate. ErrInput if a gate would test no metric.
func MeasureNoise(blocks []Block, o Options) (*MachineNoise, error) {
	g := NewGate(o)
	b, err := g.layBlocks(blocks, g.o, func(*entry) bool { return true })
	if err != nil {
		return nil, err
	}
	out := &MachineNoise{Head: document.NewHead(document.Noise, o.Tool), Blocks: len(blocks), BlockSeconds: o.BlockSeconds}
	why := ""
	for _, e := range b.testableEntries() {
		if e.ok {
			out.Metrics = append(out.Metrics, MetricNoise{
				Name: e.Name, Unit: e.Unit, Median: gpuprof.Number(stats.MedianOfRuns(slices.Concat(e.old, e.new))),
				Spread: e.noise.Spread, SlowShare: e.noise.Slow, Estimator: e.noise.Rule,
			})
		}
	}
	for _, e := range b.entries {
		why = cmp.Or(why, e.blocked)
	}
	if len(out.Metrics) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "measuring the noise of this machine: no metric can be judged (%s)", cmp.Or(why, "there are only exact counters")).WithFix("give a larger --budget, or a command that prints times")
	}
	return out, nil
}

// PlannedGate holds the cost of finding a slowdown on a machine.
type PlannedGate struct {
	Threshold float64        `json:"threshold"` // the slowdown, a share: what --threshold is to be
	Metric    string         `json:"metric"`    // the one that takes the most
	Blocks    gpuprof.Number `json:"blocks"`    // of all stages together; null where no number does
	Seconds   gpuprof.Number `json:"seconds"`
}

// Plan returns the blocks, and so the time, in which a gate with the threshold finds a slowdown of it with nine
// tenths' probability in the metric with the most noise: stage 1, the blocks of Gate.Useful, and those once more if a
// finding is confirmed. Most unchanged programs take stage 1 alone.
func (m *MachineNoise) Plan(threshold float64) PlannedGate {
	limits := Margins{Threshold: threshold}.fillDefaults()
	out := PlannedGate{Threshold: threshold}
	for _, n := range m.Metrics {
		need := n.blocks(limits, len(m.Metrics))
		if need > float64(out.Blocks) || out.Metric == "" {
			out.Metric, out.Blocks = n.Name, gpuprof.Number(need)
		}
	}
	out.Seconds = out.Blocks * gpuprof.Number(m.BlockSeconds)
	return out
}

func (n MetricNoise) blocks(limits Margins, family int) float64 {
	noise := stats.Noise{Spread: n.Spread, Slow: n.SlowShare, Rule: n.Estimator}
	delta, limit := math.Log1p(limits.Equivalence), math.Log1p(limits.Threshold)
	stage := usefulBlocks(noise, delta, limit, family)
	if noise.Spread > limit {
		stage *= 2
	}
	return Stage1Blocks + stage
}

// Smallest is the least threshold, a share, whose Plan fits into the time in
// seconds; NaN where not even one of 1,000 % does.
func (m *MachineNoise) Smallest(seconds float64) float64 {
	fits := func(t float64) bool { return float64(m.Plan(t).Seconds) <= seconds }
	lo, hi := 0.0, 10.0
	if !fits(hi) {
		return math.NaN()
	}
	for range 50 {
		if mid := (lo + hi) / 2; fits(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// usefulBlocks returns the number of blocks of one stage that find a slowdown of the threshold under a noise, in a
// family of that many tests: an even number from Stage2Blocks, and half more than computed, because the noise is
// itself an estimate; +Inf if no number suffices.
func usefulBlocks(noise stats.Noise, delta, limit float64, family int) float64 {
	need := 1.5 * noise.Blocks(limit, delta, alpha/float64(max(family, 1)), power)
	return 2 * math.Ceil(max(need, Stage2Blocks)/2)
}

// Answer is the smallest slowdown that a gate finds on this machine within the budget.
func (p *NoisePlan) Answer() gpuprof.Answer {
	budget := Lasting(p.BudgetS)
	worst := 0.0
	for _, m := range p.Metrics {
		worst = max(worst, m.Spread)
	}
	scatter := fmt.Sprintf("its processes differ by %s", gpuprof.FormatPercent(math.Expm1(worst), 2))
	switch {
	case len(p.Metrics) == 0:
		return gpuprof.Answer{Verdict: "nothing measured", Tone: gpuprof.ToneUnsure, Sentence: "No metric of this program was measured, so the noise is unknown."}
	case !(p.Smallest > 0) || math.IsInf(float64(p.Smallest), 0):
		return gpuprof.Answer{Verdict: "too noisy", Tone: gpuprof.ToneUnsure, Sentence: fmt.Sprintf("No slowdown is found here within %s: %s.", budget, scatter),
			Action: &gpuprof.Action{Text: "Give the gate more time with --budget, or measure on an idle machine."}}
	}
	least := gpuprof.FormatPercent(float64(p.Smallest), 2)
	return gpuprof.Answer{Verdict: "finds " + least, Tone: gpuprof.TonePlain, Sentence: fmt.Sprintf("A gate of %s finds slowdowns of %s and more on this machine; %s.", budget, least, scatter)}
}
