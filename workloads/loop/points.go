package loop

// MostPoints is how many points of a series are kept: when they are full, every other one
// goes and the rest come half as often.
const MostPoints = 2048

// Points is what a session saw at the end of its steps, over time. Keeping one allocates
// nothing.
type Points[P any] struct {
	kept  [MostPoints]P
	used  int
	every int // steps between points
	seen  int // steps seen
}

// Due counts a step and says whether its point is to be kept.
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

// Keep keeps the point of a step that is due.
func (p *Points[P]) Keep(point P) {
	p.kept[p.used] = point
	p.used++
}

// All are the points that are kept, so many steps apart.
func (p *Points[P]) All() (points []P, every int) { return p.kept[:p.used], max(p.every, 1) }
