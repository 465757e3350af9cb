package stats

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat"
)

// Rule names the estimator of a gate for the change of one metric.
type Rule string

// The estimators of a metric's change, in the order in which a gate tries them.
const (
	// PairedMean is the mean over blocks (see Paired): the most precise for normally distributed processes.
	PairedMean Rule = "paired mean"
	// PairRanks is the signed-rank test of the blocks (see SignedRanks). It suits outliers on a machine whose speed
	// drifts (see drifting).
	PairRanks Rule = "signed ranks"
	// ProcessRanks is the rank test of all processes without pairing (see Ranks). It suits outliers or two modes on a
	// machine that does not drift, where pairs are no less noisy than single processes.
	ProcessRanks Rule = "ranks"
)

const (
	// outlying is the number of robust standard deviations beyond which a value is an outlier. A thousand normal
	// values have none; of processes that are 20 % slow on a machine with 1 % of noise, all are outliers.
	outlying = 5
	// drifting is the ratio of the blocks' scatter to the processes' scatter below which the machine as a whole must
	// have drifted or changed its speed.
	drifting = 0.5
)

// Noise describes the scatter of a program's processes, in logarithms, after the difference between the sides is
// removed.
type Noise struct {
	// Spread is the standard deviation of a process: 1.4826 times the median absolute deviation of the blocks' ratios
	// over sqrt(2), or of the processes. Without outliers it is the sample standard deviation of the ratios over sqrt(2).
	Spread float64
	// Slow is the share of outliers among the processes. With two modes it is the share of outliers at which two
	// processes are both ordinary as often as two processes are of the same mode; Spread is then the spread inside the
	// modes.
	Slow float64
	Rule Rule // the best estimator for such noise
}

// Blocks holds one metric's samples from a comparison of side b with side a. A block is one process of each side.
type Blocks struct {
	// Ratios are the log ratios of the blocks, b over a.
	Ratios []float64

	a, b       [][]float64
	aligned    []bool
	centre     centre
	logA, logB []float64 // log centres of processes
}

// NewBlocks pairs the samples of both sides into blocks: block k has a process with samples a[k] and one with b[k]. If
// aligned[k], the processes alternated, so that sample i of both is from the same time. The block then counts by the
// median over i of log(b[k][i]/a[k][i]), unless its sides differ in length.
//
// NewBlocks also chooses the value by which a process counts, normally the median of its samples. With a coarse clock,
// whose ticks differ by more than slack (of the logarithm), it is the mean, because a median could only be a tick. It
// is the trimmed mean if the samples of at least half of the processes have two levels, or if the ratios of the blocks
// then scatter clearly less (see sharper). If a block is aligned, it is always the median. Which side is faster has no
// influence on the choice.
//
// ok is false with fewer than two blocks, an empty process, or a value that is not positive and finite.
func NewBlocks(a, b [][]float64, aligned []bool, slack float64) (x *Blocks, ok bool) {
	if x, ok = pairByMedian(a, b, aligned); !ok || x.TakesTurns() {
		return x, ok
	}
	for _, c := range []centre{byMean, byTrimmed} {
		other := &Blocks{a: a, b: b, aligned: aligned, centre: c, logA: c.logCentres(a), logB: c.logCentres(b)}
		other.Ratios = other.blockRatios()
		if c == byMean && (hasClockTicks(a, slack) || hasClockTicks(b, slack)) || c == byTrimmed && (meanDistance(other.Ratios) < sharper*meanDistance(x.Ratios) || hasTwoLevels(slices.Concat(a, b), slack)) {
			return other, true
		}
	}
	return x, true
}

// Join returns the blocks of x and y together.
func (x *Blocks) Join(y *Blocks, slack float64) (*Blocks, bool) {
	return NewBlocks(slices.Concat(x.a, y.a), slices.Concat(x.b, y.b), slices.Concat(x.aligned, y.aligned), slack)
}

// pairByMedian pairs the processes, each of which counts by its median.
func pairByMedian(a, b [][]float64, aligned []bool) (*Blocks, bool) {
	x := &Blocks{a: a, b: b, aligned: aligned, logA: LogMedians(a), logB: LogMedians(b)}
	if len(a) != len(b) || len(a) < 2 || x.logA == nil || x.logB == nil {
		return nil, false
	}
	x.Ratios = x.blockRatios()
	return x, true
}

// Centre names the value by which a process counts; "" for the median.
func (x *Blocks) Centre() string { return x.centre.name }

func (x *Blocks) blockRatios() []float64 {
	out := make([]float64, len(x.a))
	for i := range out {
		out[i] = x.logB[i] - x.logA[i]
		if logs := x.turnRatios(i); logs != nil {
			out[i] = medianOf(logs)
		}
	}
	return out
}

// turnRatios returns the log ratios of the samples of an aligned block; nil of any other block.
func (x *Blocks) turnRatios(i int) []float64 {
	if i >= len(x.aligned) || !x.aligned[i] || len(x.a[i]) != len(x.b[i]) {
		return nil
	}
	return floats.SubTo(make([]float64, len(x.a[i])), logSamples(x.b[i]), logSamples(x.a[i]))
}

// TakesTurns reports whether the two processes of some block ran at the same time, in turns.
func (x *Blocks) TakesTurns() bool { return slices.Contains(x.aligned, true) }

// Deviations returns the deviations of the processes' log medians from the median of their side.
func (x *Blocks) Deviations() [2][]float64 {
	return [2][]float64{deviations(x.logA), deviations(x.logB)}
}

// Noise estimates the noise of the blocks and chooses the rule for it. It uses only deviations from the medians of
// each side and of the ratios, so that scaling one side has no effect. Deviations up to slack (of the logarithm) are
// never outliers.
func (x *Blocks) Noise(slack float64) Noise {
	ofBlocks := deviations(x.Ratios)
	sided := x.Deviations()
	ofSides := slices.Concat(sided[0], sided[1])
	blocks, sides := robustSD(ofBlocks)/math.Sqrt2, robustSD(ofSides)
	paired := outlierShare(ofBlocks, max(outlying*math.Sqrt2*blocks, slack))
	single := outlierShare(ofSides, max(outlying*sides, slack))
	// Processes of an interleaved block share the machine's state: they do not compare with those of other blocks.
	shared := x.TakesTurns() || blocks < drifting*sides
	modes, together := modeDeviations(x.logA, x.logB, slack)
	switch {
	case together < 1 && !(shared && paired == 0):
		return Noise{robustSD(modes), 1 - math.Sqrt(together), ProcessRanks}
	case shared && paired == 0, !shared && paired+single == 0:
		return Noise{Spread: stat.StdDev(ofBlocks, nil) / math.Sqrt2, Rule: PairedMean}
	case shared:
		// paired is the share of outliers among blocks. A block is an outlier if at least one of its processes is, so for
		// the share slow among processes 1 - paired = (1 - slow)^2.
		return Noise{blocks, 1 - math.Sqrt(1-paired), PairRanks}
	}
	return Noise{sides, max(single, 1-math.Sqrt(1-paired)), ProcessRanks}
}

// Estimate estimates the change of b against a by a rule; a positive change means that b is larger.
func (x *Blocks) Estimate(rule Rule) (Effect, bool) {
	switch rule {
	case PairRanks:
		return SignedRanks(x.Ratios)
	case ProcessRanks:
		return Ranks(x.logA, x.logB)
	}
	return x.pairedMean()
}

// Paired returns the mean over blocks of log(median of b[k] / median of a[k]). Arguments and ok are as for NewBlocks.
//
// With s the standard deviation of the K blocks' ratios, and v the variances of the processes' medians,
//
//	SE^2 = s^2/K + sum v / (K (K-1))
//
// which is the limit of a hierarchical bootstrap over blocks and samples (Davison and Hinkley, Bootstrap Methods, 1997,
// section 3.8) with Bessel's correction. Student's t has K-1 degrees of freedom. s contains the errors of the medians
// already; the second term keeps a few blocks that agree by chance from deciding. Swapping a and b negates Theta.
func Paired(a, b [][]float64) (e Effect, ok bool) {
	x, ok := pairByMedian(a, b, nil)
	if !ok {
		return Effect{}, false
	}
	return x.pairedMean()
}

// pairedMean is Paired for any centre of a process. If the centre is not the median, the error has only its first term.
func (x *Blocks) pairedMean() (Effect, bool) {
	n := float64(len(x.Ratios))
	mean, variance := stat.MeanVariance(x.Ratios, nil)
	e := Effect{Theta: mean, Nu: n - 1}
	within := 0.0
	for i := 0; i < len(x.Ratios) && x.centre.name == ""; i++ {
		if logs := x.turnRatios(i); logs != nil {
			within += medianVariance(logs)
		} else {
			within += medianVariance(logSamples(x.a[i])) + medianVariance(logSamples(x.b[i]))
		}
	}
	e.SE = math.Sqrt(variance/n + within/(n*(n-1)))
	return e, e.OK()
}

// middleWeights caches, by number of samples, the probability of each rank to be the middle of a resample.
var middleWeights sync.Map

// medianVariance returns the variance of the median of a resample of xs, the limit of a bootstrap with many draws
// (Maritz and Jarrett, JASA 73, 1978). The i-th of n sorted values is the middle with the probability I(i/n) -
// I((i-1)/n), where I is the distribution function of Beta((n+1)/2, (n+1)/2) if n is odd. Ranks six standard deviations
// from the middle are left out.
func medianVariance(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	n, half := float64(len(s)), int(3*math.Sqrt(float64(len(s))))+1
	from, to := max(0, len(s)/2-half), min(len(s), len(s)/2+half+1)
	kept, ok := middleWeights.Load(len(s))
	if !ok {
		a := (n + 1) / 2
		if len(s)%2 == 0 {
			a = n/2 + 1 + 1/n // the mean of the middle two has the variance of this distribution
		}
		weights, below := make([]float64, to-from), mathext.RegIncBeta(a, a, float64(from)/n)
		for i := range weights {
			upTo := mathext.RegIncBeta(a, a, float64(from+i+1)/n)
			weights[i], below = upTo-below, upTo
		}
		kept, _ = middleWeights.LoadOrStore(len(s), weights)
	}
	_, variance := stat.PopMeanVariance(s[from:to], kept.([]float64))
	return variance
}

func deviations(xs []float64) []float64 {
	m := Median(xs)
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = x - m
	}
	return out
}

// robustSD returns the normal standard deviation for the median absolute deviation (Hampel, JASA 69, 1974).
func robustSD(deviations []float64) float64 {
	abs := make([]float64, len(deviations))
	for i, x := range deviations {
		abs[i] = math.Abs(x)
	}
	return 1.4826 * medianOf(abs)
}

func outlierShare(deviations []float64, limit float64) float64 {
	n := 0
	for _, x := range deviations {
		if math.Abs(x) > limit {
			n++
		}
	}
	return float64(n) / float64(len(deviations))
}

// Blocks returns the number of blocks with which a gate detects a true change effect above bound, both logarithms,
// with the given power at one-sided level alpha under this noise; +Inf if no number suffices. For the mean it is
// the normal formula
//
//	2 Spread^2 (z(1-alpha) + z(power))^2 / (effect-bound)^2
//
// and for ranks Noether's (JASA 82, 1987),
//
//	(z(1-alpha) + z(power))^2 / (6 (P - 1/2)^2)
//
// where P is the probability that a process of the slower side takes longer than a process of the other side.
// Signed ranks have 3 instead of 6 (the same source), and P for a sum of two blocks.
func (n Noise) Blocks(effect, bound, alpha, power float64) float64 {
	z := TQuantile(math.Inf(1), 1-alpha) + TQuantile(math.Inf(1), power)
	gap := effect - bound
	switch {
	case gap <= 0:
		return math.Inf(1)
	case n.Rule == PairedMean || n.Rule == "":
		return 2 * n.Spread * n.Spread * z * z / (gap * gap)
	}
	// Ranks use the order alone. Two ordinary processes are informative; an outlier of either side and an ordinary
	// one are not, nor are two outliers.
	apart, ordinary, by := gap/(math.Sqrt2*max(n.Spread, 1e-9)), (1-n.Slow)*(1-n.Slow), 6.0
	if n.Rule == PairRanks {
		apart, ordinary, by = apart*math.Sqrt2, ordinary*ordinary, 3
	}
	p := ordinary * (0.5 - tSurvival(math.Inf(1), apart))
	return z * z / (by * p * p)
}
