package results

import "strings"

// direction is which way is better, as far as a format has it.
type direction int

const (
	undirected direction = iota // nothing tells: the figure is shown and not judged
	lowerBetter
	higherBetter
)

// better sets which way of a series is better.
func (s *series) better(d direction) { s.higher, s.undirected = d == higherBetter, d == undirected }

// quantity is a figure in base units, with the direction that its unit has: a time is better when it is shorter and
// a rate when it is higher. Other units have none.
func quantity(value float64, unit string) (float64, string, direction) {
	per, rate := cutRate(unit)
	if rate {
		return value, per, higherBetter
	}
	what, of, _ := strings.Cut(unit, "/")
	if scale, base, ok := plainUnit(strings.TrimSpace(what)); ok && base == "s" && !strings.Contains(of, "/") {
		return value * scale, "s", lowerBetter
	}
	if scale, base, ok := plainUnit(unit); ok && base == "B" {
		return value * scale, "B", undirected
	}
	return value, unit, undirected
}

// cutRate tells a rate per second, and writes it as x/s.
func cutRate(unit string) (string, bool) {
	for _, end := range []string{"/s", "/sec", "/second", " / second", " per second"} {
		if what, ok := strings.CutSuffix(unit, end); ok && what != "" {
			return what + "/s", true
		}
	}
	return "", false
}
