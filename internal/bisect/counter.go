package bisect

// A counter has no noise, so one process of a commit tells on which side of the change
// it lies.

// between are the last commit known to be as GOOD and the first known to be worse.
func (s *Search) between() (good, bad int) {
	bad = s.N()
	for _, q := range s.Quartet {
		if s.worse(q) {
			bad = min(bad, q.Commit)
		}
	}
	for _, q := range s.Quartet {
		if !s.worse(q) && q.Commit < bad {
			good = max(good, q.Commit)
		}
	}
	return good, bad
}

// worse says that a counter was worse than GOOD's.
func (s *Search) worse(q Quartet) bool {
	return s.sign()*(float64(q.Values[1])-float64(q.Values[0])) > 0
}

// halve is the commit to count in next: the one nearest to the middle.
func (s *Search) halve() (Step, bool) {
	good, bad := s.between()
	best, place := 0, (good+bad)/2
	for m := good + 1; m < bad; m++ {
		if !s.failed(m) && (best == 0 || abs(m-place) < abs(best-place)) {
			best = m
		}
	}
	return Step{best, 0, 1}, best > 0
}
