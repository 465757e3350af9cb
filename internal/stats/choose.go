package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Rule is how a gate estimates the change of one metric.
type Rule string

// The rules, in the order in which they are tried.
const (
	// PairedMean is the mean over blocks (Bootstrap.PairedBlocks): the sharpest
	// where processes scatter like a normal distribution.
	PairedMean Rule = "paired mean"
	// PairRanks are the signed ranks of the blocks (SignedRanks): for outliers on
	// a machine that drifts by more than its processes differ.
	PairRanks Rule = "signed ranks"
	// ProcessRanks are the ranks of all processes (Ranks): for outliers otherwise.
	ProcessRanks Rule = "ranks"
)

const (
	// outlying is how many robust standard deviations make an outlier: of a
	// thousand normal values none, of processes 20 % slow on a machine with 1 %
	// of noise all.
	outlying = 5
	// drifting: blocks agree this much better than processes do where the whole
	// machine drifts or changes its speed.
	drifting = 0.5
)

// Noise is how the processes of an unchanged program scatter on a machine, in
// logarithms. Nothing in it depends on how far the two sides lie apart.
type Noise struct {
	// Spread is the standard deviation of a process against its partner of the
	// other side, over sqrt(2): 1.4826 times the median absolute deviation.
	Spread float64
	// Slow is the share of processes that are outliers.
	Slow float64
	Rule Rule // what estimates best under such noise
}

// Blocks are the processes of a gate by blocks, one metric of them.
type Blocks struct {
	// Ratios are the log ratios by which the blocks count, b over a.
	Ratios []float64

	a, b       [][]float64
	aligned    []bool
	centre     centre
	logA, logB []float64 // log centres of processes
}

// NewBlocks takes the samples of both sides; arguments and ok as for
// Bootstrap.PairedBlocks. A process counts by the median of its samples; by their mean where the
// clock ticks by more than slack, a logarithm, so that the median is a tick; by their trimmed
// mean where the samples of most processes lie at two levels, or where the blocks' ratios then
// scatter less (sharper). What is looked at is how figures scatter, and not where they lie.
func NewBlocks(a, b [][]float64, aligned []bool, slack float64) (x *Blocks, ok bool) {
	if len(a) != len(b) || len(a) < 2 {
		return nil, false
	}
	x = &Blocks{a: a, b: b, aligned: aligned, logA: LogMedians(a), logB: LogMedians(b)}
	if x.logA == nil || x.logB == nil {
		return nil, false
	}
	x.Ratios = x.ratios()
	if x.TakesTurns() {
		return x, true
	}
	for _, c := range []centre{byMean, byTrimmed} {
		other := &Blocks{a: a, b: b, centre: c, logA: c.logs(a), logB: c.logs(b)}
		other.Ratios = other.ratios()
		if c.name == byMean.name && (ticks(a, slack) || ticks(b, slack)) || c.name == byTrimmed.name && (meanDistance(other.Ratios) < sharper*meanDistance(x.Ratios) || levels(slices.Concat(a, b), slack)) {
			return other, true
		}
	}
	return x, true
}

// Centre is what a process counts by where that is not the median of its samples.
func (x *Blocks) Centre() string { return x.centre.name }

// ratios are the log ratios of the blocks.
func (x *Blocks) ratios() []float64 {
	out := make([]float64, len(x.a))
	for i := range out {
		out[i] = x.logB[i] - x.logA[i]
		if i < len(x.aligned) && x.aligned[i] && len(x.a[i]) == len(x.b[i]) {
			out[i] = turnsOf(x.a[i], x.b[i]).median
		}
	}
	return out
}

// TakesTurns reports whether processes of a block ran at the same time.
func (x *Blocks) TakesTurns() bool { return slices.Contains(x.aligned, true) }

// Deviations are those of the processes' log medians from the median of their side.
func (x *Blocks) Deviations() [2][]float64 {
	return [2][]float64{deviations(x.logA), deviations(x.logB)}
}

// Noise finds the noise of the blocks and the rule that suits it, from deviations
// from the median of each side and of the ratios only: moving one side by any
// factor changes nothing. Deviations up to slack, a logarithm, are never outliers.
func (x *Blocks) Noise(slack float64) Noise {
	ofBlocks := deviations(x.Ratios)
	sided := x.Deviations()
	ofSides := slices.Concat(sided[0], sided[1])
	blocks, sides := robustSD(ofBlocks)/math.Sqrt2, robustSD(ofSides)
	paired := outliers(ofBlocks, max(outlying*math.Sqrt2*blocks, slack))
	single := outliers(ofSides, max(outlying*sides, slack))
	// Turns of one block share the machine's state, so processes of different
	// blocks say nothing of each other.
	shared := x.TakesTurns() || blocks < drifting*sides
	switch {
	case shared && paired == 0, !shared && paired+single == 0:
		return Noise{Spread: stat.StdDev(ofBlocks, nil) / math.Sqrt2, Rule: PairedMean}
	case shared:
		// A block is an outlier where either of its processes is.
		return Noise{blocks, 1 - math.Sqrt(1-paired), PairRanks}
	}
	return Noise{sides, max(single, 1-math.Sqrt(1-paired)), ProcessRanks}
}

// Estimate is the change of b against a by a rule: the mean with a bootstrap's error, and that of
// other centres than medians with Student's, which has the scatter of samples in it.
func (x *Blocks) Estimate(rule Rule, boot *Bootstrap) (Effect, bool) {
	switch rule {
	case PairRanks:
		return SignedRanks(x.Ratios)
	case ProcessRanks:
		return Ranks(x.logA, x.logB)
	}
	if x.centre.name != "" {
		n := float64(len(x.Ratios))
		mean, sd := stat.MeanStdDev(x.Ratios, nil)
		e := Effect{Theta: mean, SE: sd / math.Sqrt(n), Nu: n - 1}
		return e, e.OK()
	}
	return boot.PairedBlocks(x.a, x.b, x.aligned)
}

// deviations are those from the median.
func deviations(xs []float64) []float64 {
	m := Median(xs)
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = x - m
	}
	return out
}

// robustSD is the standard deviation of a normal distribution with the median
// absolute deviation of these deviations (Hampel, JASA 69, 1974).
func robustSD(deviations []float64) float64 {
	abs := make([]float64, len(deviations))
	for i, x := range deviations {
		abs[i] = math.Abs(x)
	}
	return 1.4826 * medianOf(abs)
}

// outliers is the share of deviations beyond a limit.
func outliers(deviations []float64, limit float64) float64 {
	n := 0
	for _, x := range deviations {
		if math.Abs(x) > limit {
			n++
		}
	}
	return float64(n) / float64(len(deviations))
}

// Blocks is how many blocks under this noise find a true change effect to lie
// above bound, both logarithms, with the given power at one-sided level alpha;
// +Inf where none do. For the mean it is the normal formula
//
//	2 Spread^2 (z(1-alpha) + z(power))^2 / (effect-bound)^2
//
// and for ranks Noether's (JASA 82, 1987),
//
//	(z(1-alpha) + z(power))^2 / (6 (P - 1/2)^2)
//
// with P the probability that a process of the slower side takes longer than one
// of the other: both ordinary, or one of them slow for reasons of its own. Signed
// ranks have 3 instead of 6 (the same source) and P that of a sum of two blocks.
func (n Noise) Blocks(effect, bound, alpha, power float64) float64 {
	z := TQuantile(math.Inf(1), 1-alpha) + TQuantile(math.Inf(1), power)
	gap := effect - bound
	switch {
	case gap <= 0:
		return math.Inf(1)
	case n.Rule == PairedMean || n.Rule == "":
		return 2 * n.Spread * n.Spread * z * z / (gap * gap)
	}
	// By order alone: both ordinary, or a slow one against an ordinary one of
	// either side, which says nothing, as do two slow ones.
	apart, ordinary, by := gap/(math.Sqrt2*max(n.Spread, 1e-9)), (1-n.Slow)*(1-n.Slow), 6.0
	if n.Rule == PairRanks {
		apart, ordinary, by = apart*math.Sqrt2, ordinary*ordinary, 3
	}
	p := ordinary * (0.5 - survival(math.Inf(1), apart))
	return z * z / (by * p * p)
}
