package bisect

// A counter has no noise: one process per commit shows on which side of the change the commit is.

// knownBounds returns the last commit measured as good as GOOD, and the first measured as worse.
func (s *Search) knownBounds() (good, bad int) {
	bad = s.N()
	for _, q := range s.Quartet {
		if s.isWorse(q) {
			bad = min(bad, q.Commit)
		}
	}
	for _, q := range s.Quartet {
		if !s.isWorse(q) && q.Commit < bad {
			good = max(good, q.Commit)
		}
	}
	return good, bad
}

// isWorse reports whether the quartet's counter is worse than GOOD's.
func (s *Search) isWorse(q Quartet) bool {
	return s.sign()*(float64(q.Values[1])-float64(q.Values[0])) > 0
}

// halve returns the next commit whose counter is measured: the one nearest to the middle of the remaining range.
func (s *Search) halve() (Step, bool) {
	good, bad := s.knownBounds()
	best, place := 0, (good+bad)/2
	for m := good + 1; m < bad; m++ {
		if !s.hasFailed(m) && (best == 0 || abs(m-place) < abs(best-place)) {
			best = m
		}
	}
	return Step{best, 0, 1}, best > 0
}
