package bisect

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/stats"
)

const (
	thetas    = 9     // points that the change is believed to lie at
	reach     = 2.2   // how far they reach, in errors of the change
	leastPart = 0.3   // of the change: no point lies below
	tails     = 4     // degrees of freedom of a quartet's noise
	leastS    = 0.004 // least spread of quartets that is believed

	// medianError is the variance of a median over that of a mean, for the few quartets
	// with heavy tails that there are (normal: pi/2 for many, 1 for two).
	medianError = 1.3

	// LikelyTimes is how much more probable a likely commit is than another, before anything
	// is measured.
	LikelyTimes = 3
)

// nodes and weights of Gauss and Hermite with seven points, for the integral of
// exp(-x^2) f(x) (Abramowitz and Stegun 1964, table 25.10).
var hermite = [7][2]float64{
	{0, 0.810264617556807},
	{0.816287882858965, 0.425607252610128}, {-0.816287882858965, 0.425607252610128},
	{1.673551628767471, 0.0545155828191270}, {-1.673551628767471, 0.0545155828191270},
	{2.651961356835233, 0.000971781245099519}, {-2.651961356835233, 0.000971781245099519},
}

// model is the noise and the change that a search assumes.
type model struct {
	theta, error float64 // of BAD against GOOD, as a logarithm
	spread       float64 // of a quartet
	scatter      float64 // of builds of equal code
}

// model reads both off the quartets so far.
func (s *Search) model() model {
	m := model{spread: s.spread(), scatter: s.Options.Scatter}
	d := s.effects(s.Check, func(Quartet) bool { return true })
	if len(d) == 0 {
		return m
	}
	m.theta = stats.Median(d)
	m.error = math.Sqrt(medianError*m.spread*m.spread/float64(len(d)) + 2*m.scatter*m.scatter)
	return m
}

func (s *Search) effects(quartets []Quartet, keep func(Quartet) bool) []float64 {
	var out []float64
	for _, q := range quartets {
		if keep(q) {
			out = append(out, s.Effect(q))
		}
	}
	return out
}

// spread is the scaled median absolute deviation of quartets about the median of their
// pair of commits. A median of n has taken part of the deviations away.
func (s *Search) spread() float64 {
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

// points are the places of the change and the logarithms of their weights.
func (m model) points() (theta, weight [thetas]float64) {
	sum := 0.0
	for i := range theta {
		z := reach * (2*float64(i)/(thetas-1) - 1)
		theta[i] = max(m.theta+z*m.error, leastPart*m.theta)
		weight[i] = math.Exp(-z * z / 2)
		sum += weight[i]
	}
	for i := range weight {
		weight[i] = math.Log(weight[i] / sum)
	}
	return theta, weight
}

// likelihood is the logarithm of that of quartets of one pair of commits whose change
// is mu: Student's t with 4 degrees of freedom about mu and an offset that the pair has for no reason.
func (m model) likelihood(d []float64, mu float64) float64 {
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
	if sum == 0 { // all quartets lie far out: their centre decides
		return math.Log(math.SmallestNonzeroFloat64)
	}
	return math.Log(sum / math.SqrtPi)
}

// pair is what was measured of one commit against another.
type pair struct {
	commit, against int
	d               []float64
}

func (s *Search) pairs() []pair {
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

// Posterior is the probability that the change came with a commit. It is constant
// between the commits that were measured or are as likely as each other beforehand: part
// i ends at commit ends[i].
type Posterior struct {
	ends []int
	mass []float64 // of the part
	upTo []float64 // of all parts before it
}

// Posterior is believed after all quartets; the cost does not grow with the commits.
func (s *Search) Posterior() Posterior {
	m, pairs := s.model(), s.pairs()
	theta, weight := m.points()
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
	same, slower := make([]float64, len(pairs)), make([][thetas]float64, len(pairs))
	for i, pr := range pairs {
		same[i] = m.likelihood(pr.d, 0)
		for k := range theta {
			slower[i][k] = m.likelihood(pr.d, theta[k])
		}
	}
	logs := make([][thetas]float64, len(p.ends))
	top, last := math.Inf(-1), 0
	for i, end := range p.ends {
		prior := math.Log(float64(end - last))
		if s.At(end).Likely {
			prior += math.Log(LikelyTimes)
		}
		for k := range theta {
			log := weight[k] + prior
			for j, pr := range pairs {
				// Both commits lie on one side of the change, or it lies between them.
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

// UpTo is the probability that the change came with commit m or before.
func (p Posterior) UpTo(m int) float64 {
	i, _ := slices.BinarySearch(p.ends, m)
	last := 0
	if i > 0 {
		last = p.ends[i-1]
	}
	return min(p.upTo[i]+p.mass[i]*float64(m-last)/float64(p.ends[i]-last), 1)
}

// Of is the probability of the commits after one and up to another.
func (p Posterior) Of(after, upTo int) float64 { return p.UpTo(upTo) - p.UpTo(after) }

// Smallest is the smallest set of parts that holds so much, in the order of commits:
// within a part nothing tells the commits apart.
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
		x, y := a.mass/float64(a.To-a.From+1), b.mass/float64(b.To-b.From+1)
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
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

// Span is a part of the range, both ends in it.
type Span struct {
	From int `json:"from"`
	To   int `json:"to"`
}
