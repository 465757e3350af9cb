package loop

// MostPoints is the maximum length of a series. A full series drops every other point and then records half as often.
const MostPoints = 2048

// Points records values of a session's steps over time, without allocating.
type Points[P any] struct {
	kept  [MostPoints]P
	used  int
	every int // steps between points
	seen  int // steps so far
}

// Due counts a step and reports whether its point must be recorded.
func (p *Points[P]) Due() bool {
	p.every = max(p.every, 1)
	if p.seen++; p.seen%p.every != 0 {
		return false
	}
	if p.used < MostPoints {
		return true
	}
	for i := range MostPoints / 2 {
		p.kept[i] = p.kept[2*i+1]
	}
	p.used, p.every = MostPoints/2, 2*p.every
	return p.seen%p.every == 0
}

// Keep records the point of a step for which Due returned true.
func (p *Points[P]) Keep(point P) {
	p.kept[p.used] = point
	p.used++
}

// All returns the recorded points and the steps between them.
func (p *Points[P]) All() (points []P, every int) { return p.kept[:p.used], max(p.every, 1) }
