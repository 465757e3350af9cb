package compare

import "github.com/gpuprof/gpuprof"

// Learned is the spread between sessions as estimated from a history; it replaces the assumed spread.
type Learned struct {
	From string // "41 sessions of s3://perf/gpuprof"
	// Spread holds a standard deviation per metric, as a share; a metric without an entry gets the assumed spread.
	Spread map[string]float64
	// Scatter is the part of Spread that occurs between builds of equal code, by metric, where it was measured.
	Scatter map[string]float64
}

// spreadOf returns a metric's spread between sessions, and whether it is assumed. Options.SessionSpread takes
// precedence over a learned spread.
func (o Options) spreadOf(metric string) (sigma float64, assumed bool) {
	if sigma, ok := o.Learned.Spread[metric]; ok && o.SessionSpread == 0 {
		return sigma, false
	}
	return o.spread(), true
}

// warnLearned adds a note that names the source and the size of the learned spreads.
func (b *comparisonState) warnLearned() {
	least, most := 0.0, 0.0
	for _, e := range b.testableEntries() {
		if e.assumed {
			continue
		}
		if least == 0 || e.session < least {
			least = e.session
		}
		most = max(most, e.session)
	}
	if most == 0 {
		return
	}
	text := gpuprof.FormatPercent(most, 2)
	if least < most {
		text = gpuprof.FormatPercent(least, 2) + " to " + text
	}
	b.addWarning("session-spread-learned", "the spread between sessions, "+text+", is that of "+b.o.Learned.From, "set --session-spread to use another")
}

func (e *entry) spreadSource() string {
	if e.assumed {
		return "assumed between sessions"
	}
	return "measured between sessions"
}
