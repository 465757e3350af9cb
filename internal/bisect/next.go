package bisect

import "math"

const (
	directQuartets = 4 // number of quartets of the found commit against its parent
	buildQuartets  = 2 // number of quartets of a probed commit that needs a build
)

// Step is the next measurement: quartets of a commit against GOOD, or against the commit before it.
type Step struct {
	Commit   int `json:"commit"`
	Against  int `json:"against"`
	Quartets int `json:"quartets"`
}

// Next returns the next step; ok is false if the search has ended.
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
	if m, parent, ok := s.confidentCommit(p); ok {
		have := s.directCount(m, parent)
		return Step{m, parent, directQuartets - have}, have < directQuartets
	}
	return s.probe(p)
}

// confidentCommit returns the commit whose probability, with unmeasurable commits just before it, reaches the required
// confidence. parent is the last measurable commit before them. ok is false if there is no such commit.
func (s *Search) confidentCommit(p Posterior) (commit, parent int, ok bool) {
	for m := s.N(); m > 0; m = s.previousMeasurable(m) {
		if s.hasFailed(m) {
			continue
		}
		if at := s.previousMeasurable(m); p.Of(at, m) >= s.Options.Confidence {
			return m, at, true
		}
	}
	return 0, 0, false
}

// directCount returns the number of quartets, of four processes each, that compared commit m with its parent.
// If m is BAD and its parent is GOOD, the quartets of the initial check count too.
func (s *Search) directCount(m, parent int) int {
	n := 0
	for _, q := range s.Quartet {
		// If the parent is GOOD, every quartet of the commit compares these two.
		if q.Commit == m && q.Against == parent {
			n++
		}
	}
	if parent == 0 && m == s.N() {
		n += len(s.Check)
	}
	return n
}

// probe returns the step with the largest expected gain of information per cost.
func (s *Search) probe(p Posterior) (best Step, ok bool) {
	noise, build := s.estimateModel(), s.buildCost()
	quartets := map[int]int{}
	for _, q := range s.Quartet {
		if q.Against == 0 {
			quartets[q.Commit]++
		}
	}
	most := 0.0
	for _, m := range s.probeCandidates(p, quartets) {
		k, cost := 1, 1.0
		if !s.isBuilt(m) {
			k, cost = buildQuartets, build+buildQuartets
		}
		n := quartets[m]
		gain := entropyOf(p.UpTo(m)) * (noise.informationShare(n+k) - noise.informationShare(n)) / cost
		if gain > most {
			most, best, ok = gain, Step{m, 0, k}, true
		}
	}
	return best, ok
}

// probeCandidates returns the probed commits, and of each interval between them the two nearest to the median.
func (s *Search) probeCandidates(p Posterior, probed map[int]int) []int {
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
	var near []int // candidates of the current interval, below and above the median
	flush := func() {
		out = append(out, near...)
		near = nil
	}
	for m := 1; m < s.N(); m++ {
		switch {
		case probed[m] > 0:
			flush()
			if !s.hasFailed(m) {
				out = append(out, m)
			}
		case s.hasFailed(m):
		default:
			near = keepNearest(near, m, half)
		}
	}
	flush()
	return out
}

// keepNearest adds m and keeps the two commits nearest to place, in order.
func keepNearest(near []int, m, place int) []int {
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

func abs(n int) int { return max(n, -n) }

// isBuilt reports whether a commit can be measured without a new build.
func (s *Search) isBuilt(m int) bool {
	for i := len(s.Builds) - 1; i >= 0; i-- {
		switch b := s.Builds[i].Commit; {
		case b == m:
			return true
		case b > 0 && !s.Options.Keeps:
			return false // the commit's checkout now holds another commit
		}
	}
	return false
}

// buildCost returns the time of a build, in quartets.
func (s *Search) buildCost() float64 {
	builds, n := 0.0, 0
	for _, b := range s.Builds {
		if !b.Cached {
			builds, n = builds+b.Seconds, n+1
		}
	}
	each := s.quartetSeconds()
	if !(each > 0) {
		return 0
	}
	return builds / float64(max(n, 1)) / each
}

// informationShare returns the share of all information about a commit that n quartets give.
func (m model) informationShare(n int) float64 {
	if n == 0 {
		return 0
	}
	d := m.theta * m.theta / (medianError*m.spread*m.spread/float64(n) + 2*m.scatter*m.scatter)
	return 1 - math.Exp(-d/8)
}

// entropyOf returns the entropy of an event with probability p, in bits.
func entropyOf(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
}
