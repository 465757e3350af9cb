package results

import "strings"

// direction is the better direction of a figure: more or less.
type direction int

const (
	undirected direction = iota // unknown: the figure is shown and not judged
	lowerBetter
	higherBetter
)

// guessDirection guesses from a quantity's name whether more is better, as for a rate; else less is better.
func guessDirection(name string) direction {
	name = strings.ToLower(name)
	has := func(in func(string, string) bool, words ...string) bool {
		for _, w := range words {
			if in(name, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has(strings.HasSuffix, "/s", "/sec", "_per_second", "_per_sec", "_per_s", "persec", "per-second"):
		return higherBetter
	case has(strings.Contains, "miss", "error", "fail", "drop", "stall", "conflict"): // a rate of failures
		return lowerBetter
	case has(strings.HasSuffix, "throughput", "bandwidth", "flops", "rate", "speedup", "efficiency", "occupancy", "utilization"):
		return higherBetter
	}
	return lowerBetter
}

// convertQuantity converts a figure to base units. Less is better for times, more for rates; other units have no
// direction.
func convertQuantity(value float64, unit string) (float64, string, direction) {
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

// cutRate recognizes a rate per second and writes it as x/s.
func cutRate(unit string) (string, bool) {
	for _, end := range []string{"/s", "/sec", "/second", " / second", " per second"} {
		if what, ok := strings.CutSuffix(unit, end); ok && what != "" {
			return what + "/s", true
		}
	}
	return "", false
}
