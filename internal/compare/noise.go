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

// MachineNoise is the spread between the processes of a program that is compared with itself (A/A) on a machine. It
// limits the slowdowns that a gate can find there.
type MachineNoise struct {
	gpuprof.Head
	Machine      string        `json:"machine"` // filled by the caller
	Command      string        `json:"command"` // of one process
	MeasuredAt   string        `json:"measured_at"`
	Blocks       int           `json:"blocks"`        // one process of each side per block
	BlockSeconds float64       `json:"block_seconds"` // mean duration of a block
	Metrics      []MetricNoise `json:"metrics"`       // those that a gate judges
}

// NoisePlan adds the costs of gates to a machine's noise. gate --aa and gate --plan print it.
type NoisePlan struct {
	MachineNoise
	BudgetS  float64        `json:"budget_s"`
	Smallest gpuprof.Number `json:"smallest"` // the smallest slowdown, as a share, that a gate finds within the budget
	Plans    []PlannedGate  `json:"plans"`
}

// plannedFor lists the slowdowns of every plan; Planned adds the requested threshold.
var plannedFor = [...]float64{0.02, 0.05, 0.10}

// Planned returns the plan for a budget in seconds and, unless threshold is 0, for that threshold too.
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
	// Spread is the standard deviation between processes, a logarithm; with outliers a robust estimate without them.
	Spread float64 `json:"spread"`
	// SlowShare is the share of processes that are outliers, 0 to 1.
	SlowShare float64 `json:"slow_share"`
	// Estimator is the rule by which a gate judges under this noise.
	Estimator stats.Rule `json:"estimator"`
}

// MeasureNoise measures the noise of a machine from at least MinRuns blocks of a program against itself. The
// options choose metrics as for a gate. ErrInput if a gate would test no metric.
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

// PlannedGate is the cost of finding a slowdown on a machine.
type PlannedGate struct {
	Threshold float64        `json:"threshold"` // the slowdown, a share, for --threshold
	Metric    string         `json:"metric"`    // the metric that needs the most blocks
	Blocks    gpuprof.Number `json:"blocks"`    // of all stages; null if no number suffices
	Seconds   gpuprof.Number `json:"seconds"`
}

// Plan returns the blocks and the time in which a gate finds a slowdown of the threshold with a probability of 0.9 in
// the noisiest metric. It counts stage 1 and as many blocks as Gate.Useful returns. Most unchanged programs need stage
// 1 alone.
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
	return Stage1Blocks + usefulBlocks(noise, delta, limit, family)
}

// Smallest returns the least threshold, a share, whose Plan fits into a time in seconds; NaN if not even 1,000 % fits.
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

// usefulBlocks returns the number of blocks of one stage that find a slowdown of the threshold under a noise, if family
// metrics are tested together. It is even, at least Stage2Blocks, and 1.5 times the computed number, because the noise
// is itself an estimate; +Inf if no number suffices.
func usefulBlocks(noise stats.Noise, delta, limit float64, family int) float64 {
	need := 1.5 * noise.Blocks(limit, delta, alpha/float64(max(family, 1)), power)
	return 2 * math.Ceil(max(need, Stage2Blocks)/2)
}

// Answer states the smallest slowdown that a gate finds on this machine within the budget.
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
