package bisect

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/stats"
)

const (
	gridSize      = 9     // grid points of the change
	gridHalfWidth = 2.2   // half-width of the grid, in standard errors of the change
	leastPart     = 0.3   // smallest grid point, as a share of the change
	tails         = 4     // degrees of freedom of a quartet's noise
	leastS        = 0.004 // lower limit of a quartet's standard deviation

	// medianError is the variance of a median divided by the variance of a mean, for a few quartets with heavy-tailed
	// noise. For normal noise it is pi/2 for many quartets and 1 for two.
	medianError = 1.3

	// LikelyTimes is the prior probability of a likely commit divided by another commit's.
	LikelyTimes = 3
)

// hermite has the nodes and weights of the seven-point Gauss-Hermite quadrature, for the integral of exp(-x^2) f(x)
// (Abramowitz and Stegun 1964, table 25.10).
var hermite = [7][2]float64{
	{0, 0.810264617556807},
	{0.816287882858965, 0.425607252610128}, {-0.816287882858965, 0.425607252610128},
	{1.673551628767471, 0.0545155828191270}, {-1.673551628767471, 0.0545155828191270},
	{2.651961356835233, 0.000971781245099519}, {-2.651961356835233, 0.000971781245099519},
}

// model is the noise and the change that a search assumes; all values are logarithms.
type model struct {
	theta, error float64 // change of BAD against GOOD, and its standard error
	spread       float64 // standard deviation of a quartet
	scatter      float64 // standard deviation between builds of equal code
}

// estimateModel estimates change and noise from the quartets so far.
func (s *Search) estimateModel() model {
	m := model{spread: s.quartetSpread(), scatter: s.Options.Scatter}
	d := s.listEffects(s.Check)
	if len(d) == 0 {
		return m
	}
	m.theta = stats.Median(d)
	m.error = math.Sqrt(medianError*m.spread*m.spread/float64(len(d)) + 2*m.scatter*m.scatter)
	return m
}

func (s *Search) listEffects(quartets []Quartet) (out []float64) {
	for _, q := range quartets {
		out = append(out, s.Effect(q))
	}
	return out
}

// quartetSpread returns 1.4826 times the median absolute deviation of quartets from the median of their pair of
// commits. The factor sqrt(n/(n-1)) corrects for that fitted median.
func (s *Search) quartetSpread() float64 {
	by := map[[2]int][]float64{}
	var keys [][2]int
	for _, q := range slices.Concat(s.Check, s.Quartet) {
		k := [2]int{q.Commit, q.Against}
		if by[k] == nil {
			keys = append(keys, k)
		}
		by[k] = append(by[k], s.Effect(q))
	}
	var off []float64
	for _, k := range keys {
		d := by[k]
		if len(d) < 2 {
			continue
		}
		mid, n := stats.Median(d), float64(len(d))
		for _, x := range d {
			off = append(off, math.Abs(x-mid)*math.Sqrt(n/(n-1)))
		}
	}
	if len(off) == 0 {
		return leastS
	}
	return max(leastS, 1.4826*stats.Median(off))
}

// gridPoints returns possible values of the change, theta, around its estimate, with the logarithms of their weights.
func (m model) gridPoints() (theta, weight [gridSize]float64) {
	sum := 0.0
	for i := range theta {
		z := gridHalfWidth * (2*float64(i)/(gridSize-1) - 1)
		theta[i] = max(m.theta+z*m.error, leastPart*m.theta)
		weight[i] = math.Exp(-z * z / 2)
		sum += weight[i]
	}
	for i := range weight {
		weight[i] = math.Log(weight[i] / sum)
	}
	return theta, weight
}

// logLikelihood returns the log-likelihood of one pair's quartets if the pair's change is mu: Student's t with 4
// degrees of freedom about mu plus a random offset, the scatter between two builds.
func (m model) logLikelihood(d []float64, mu float64) float64 {
	sum := 0.0
	for _, node := range hermite {
		offset := math.Sqrt2 * math.Sqrt2 * m.scatter * node[0]
		log := 0.0
		for _, x := range d {
			t := (x - mu - offset) / m.spread
			log -= (tails + 1) / 2.0 * math.Log1p(t*t/tails)
		}
		sum += node[1] * math.Exp(log)
	}
	if sum == 0 { // underflow: every quartet is far from mu
		return math.Log(math.SmallestNonzeroFloat64)
	}
	return math.Log(sum / math.SqrtPi)
}

// pair has the effects (Search.Effect) of the quartets of one commit against another.
type pair struct {
	commit, against int
	d               []float64
}

func (s *Search) measuredPairs() []pair {
	var out []pair
	for _, q := range s.Quartet {
		i := slices.IndexFunc(out, func(p pair) bool { return p.commit == q.Commit && p.against == q.Against })
		if i < 0 {
			i = len(out)
			out = append(out, pair{commit: q.Commit, against: q.Against})
		}
		out[i].d = append(out[i].d, s.Effect(q))
	}
	return out
}

// Posterior is the distribution of the change over the commits. It is uniform within a part; parts end at measured
// commits and where the prior changes. Part i ends at commit ends[i].
type Posterior struct {
	ends []int
	mass []float64 // probability of the part
	upTo []float64 // probability of all parts before
}

// Posterior returns the posterior after all quartets. Its cost is independent of the number of commits.
func (s *Search) Posterior() Posterior {
	m, pairs := s.estimateModel(), s.measuredPairs()
	theta, weight := m.gridPoints()
	p := Posterior{ends: []int{s.N()}}
	for _, pr := range pairs {
		p.ends = append(p.ends, pr.commit)
		if pr.against > 0 {
			p.ends = append(p.ends, pr.against)
		}
	}
	for m := 1; m < s.N(); m++ {
		if s.At(m).Likely != s.At(m+1).Likely {
			p.ends = append(p.ends, m)
		}
	}
	slices.Sort(p.ends)
	p.ends = slices.Compact(p.ends)
	same, slower := make([]float64, len(pairs)), make([][gridSize]float64, len(pairs))
	for i, pr := range pairs {
		same[i] = m.logLikelihood(pr.d, 0)
		for k := range theta {
			slower[i][k] = m.logLikelihood(pr.d, theta[k])
		}
	}
	logs := make([][gridSize]float64, len(p.ends))
	top, last := math.Inf(-1), 0
	for i, end := range p.ends {
		prior := math.Log(float64(end - last))
		if s.At(end).Likely {
			prior += math.Log(LikelyTimes)
		}
		for k := range theta {
			log := weight[k] + prior
			for j, pr := range pairs {
				// The change is between the two commits, or outside of them.
				if end <= pr.commit && end > pr.against {
					log += slower[j][k]
				} else {
					log += same[j]
				}
			}
			logs[i][k] = log
			top = max(top, log)
		}
		last = end
	}
	sum := 0.0
	p.mass = make([]float64, len(p.ends))
	for i := range logs {
		for _, log := range logs[i] {
			p.mass[i] += math.Exp(log - top)
		}
		sum += p.mass[i]
	}
	upTo := 0.0
	for i := range p.mass {
		p.mass[i] /= sum
		p.upTo = append(p.upTo, upTo)
		upTo += p.mass[i]
	}
	return p
}

// UpTo returns the probability that the change is at or before commit m.
func (p Posterior) UpTo(m int) float64 {
	i, _ := slices.BinarySearch(p.ends, m)
	last := 0
	if i > 0 {
		last = p.ends[i-1]
	}
	return min(p.upTo[i]+p.mass[i]*float64(m-last)/float64(p.ends[i]-last), 1)
}

// Of returns the probability that the change is later than commit after, and at or before commit upTo.
func (p Posterior) Of(after, upTo int) float64 { return p.UpTo(upTo) - p.UpTo(after) }

// Smallest returns the smallest set of whole parts with at least a probability of share, in order.
func (p Posterior) Smallest(share float64) []Span {
	type part struct {
		Span
		mass float64
	}
	var parts []part
	last := 0
	for i, end := range p.ends {
		parts = append(parts, part{Span{last + 1, end}, p.mass[i]})
		last = end
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		return cmp.Compare(b.mass/float64(b.To-b.From+1), a.mass/float64(a.To-a.From+1))
	})
	var out []Span
	sum := 0.0
	for _, part := range parts {
		if sum >= share {
			break
		}
		out = append(out, part.Span)
		sum += part.mass
	}
	slices.SortFunc(out, func(a, b Span) int { return a.From - b.From })
	joined := out[:0]
	for _, s := range out {
		if n := len(joined); n > 0 && joined[n-1].To+1 == s.From {
			joined[n-1].To = s.To
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// Span is a part of the range, both ends included.
type Span struct {
	From int `json:"from"`
	To   int `json:"to"`
}
