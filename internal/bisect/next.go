package bisect

import "math"

const (
	directQuartets = 4 // of a commit's parent against it
	afresh         = 2 // of a commit that has to be built
)

// Step is what to measure next: quartets of a commit against GOOD, or directly
// against the commit before it.
type Step struct {
	Commit   int `json:"commit"`
	Against  int `json:"against"`
	Quartets int `json:"quartets"`
}

// Next is the next step; ok is false at the end of the search.
func (s *Search) Next() (step Step, ok bool) {
	if s.Pending != nil && s.Pending.Quartets > 0 {
		return *s.Pending, true
	}
	if s.Spent() >= s.Options.BudgetS {
		return Step{}, false
	}
	if s.Exact {
		return s.halve()
	}
	p := s.Posterior()
	if m, parent, ok := s.named(p); ok {
		have := s.direct(m, parent)
		return Step{m, parent, directQuartets - have}, have < directQuartets
	}
	return s.probe(p)
}

// named is the commit that has the confidence, together with those before it that
// cannot be measured, and the last one before them.
func (s *Search) named(p Posterior) (commit, parent int, ok bool) {
	for m := s.N(); m > 0; m = s.before(m) {
		if s.failed(m) {
			continue
		}
		if at := s.before(m); p.Of(at, m) >= s.Options.Confidence {
			return m, at, true
		}
	}
	return 0, 0, false
}

// direct counts the quartets of a commit against its parent.
func (s *Search) direct(m, parent int) int {
	n := 0
	for _, q := range s.Quartet {
		// GOOD as the parent is what every probe of the commit is measured against.
		if q.Commit == m && q.Against == parent {
			n++
		}
	}
	if parent == 0 && m == s.N() {
		n += len(s.Check)
	}
	return n
}

// probe is the step with the largest expected gain of information for its cost.
func (s *Search) probe(p Posterior) (best Step, ok bool) {
	noise, build := s.model(), s.buildCost()
	quartets := map[int]int{}
	for _, q := range s.Quartet {
		if q.Against == 0 {
			quartets[q.Commit]++
		}
	}
	most := 0.0
	for _, m := range s.candidates(p, quartets) {
		k, cost := 1, 1.0
		if !s.built(m) {
			k, cost = afresh, build+afresh
		}
		n := quartets[m]
		gain := entropy(p.UpTo(m)) * (noise.told(n+k) - noise.told(n)) / cost
		if gain > most {
			most, best, ok = gain, Step{m, 0, k}, true
		}
	}
	return best, ok
}

// candidates are the commits that were probed and, in each interval between them, the
// two that may be measured nearest to where the probability reaches a half.
func (s *Search) candidates(p Posterior, probed map[int]int) []int {
	half := 1
	for lo, hi := 1, s.N(); lo <= hi; {
		mid := (lo + hi) / 2
		if p.UpTo(mid) >= 0.5 {
			half, hi = mid, mid-1
		} else {
			lo = mid + 1
		}
	}
	var out []int
	var near []int // of the interval that ends next, below and above the half
	flush := func() {
		out = append(out, near...)
		near = nil
	}
	for m := 1; m < s.N(); m++ {
		switch {
		case probed[m] > 0:
			flush()
			if !s.failed(m) {
				out = append(out, m)
			}
		case s.failed(m):
		default:
			near = nearest(near, m, half)
		}
	}
	flush()
	return out
}

// nearest keeps the two commits nearest to a place, in order.
func nearest(near []int, m, place int) []int {
	near = append(near, m)
	if len(near) < 3 {
		return near
	}
	far := 0
	if abs(near[2]-place) >= abs(near[0]-place) {
		far = 2
	}
	return append(near[:far], near[far+1:]...)
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

// built says that a commit can be measured without being built.
func (s *Search) built(m int) bool {
	for i := len(s.Builds) - 1; i >= 0; i-- {
		switch b := s.Builds[i].Commit; {
		case b == m:
			return true
		case b > 0 && !s.Options.Keeps:
			return false // its checkout has become that of another
		}
	}
	return false
}

// buildCost is how many quartets a build takes.
func (s *Search) buildCost() float64 {
	builds, each := 0.0, 0.0
	n := 0
	for _, b := range s.Builds {
		if !b.Cached {
			builds += b.Seconds
			n++
		}
	}
	builds /= float64(max(n, 1))
	n = 0
	for _, list := range [][]Quartet{s.Check, s.Quartet} {
		for _, q := range list {
			each += q.Seconds
			n++
		}
	}
	each /= float64(max(n, 1))
	if !(each > 0) {
		return 0
	}
	return builds / each
}

// told is the share of what a commit can tell that n quartets have told.
func (m model) told(n int) float64 {
	if n == 0 {
		return 0
	}
	d := m.theta * m.theta / (medianError*m.spread*m.spread/float64(n) + 2*m.scatter*m.scatter)
	return 1 - math.Exp(-d/8)
}

// entropy is that of a yes with probability p, in bits.
func entropy(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
}
