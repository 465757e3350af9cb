package compare

import "github.com/gpuprof/gpuprof"

// Learned is the spread between sessions as a history shows it, in place of the one
// that is assumed.
type Learned struct {
	From string // "41 sessions of s3://perf/gpuprof"
	// Spread is a standard deviation by metric, a share; a metric without an entry gets the assumed spread.
	Spread map[string]float64
	// Scatter is the part of it by which commits differ for no reason, where that is known.
	Scatter map[string]float64
}

// spreadOf is the standard deviation between sessions of a metric, and whether it is
// only assumed. What the user set goes before what was learned.
func (o Options) spreadOf(metric string) (sigma float64, assumed bool) {
	if sigma, ok := o.Learned.Spread[metric]; ok && o.SessionSpread == 0 {
		return sigma, false
	}
	return o.spread(), true
}

// setSpreads gives the comparison the largest spread between sessions of its tested metrics.
func (b *bench) setSpreads() {
	b.spreadEntries()
	tested := b.testableEntries()
	b.spread, b.assumed = 0, len(tested) == 0
	if len(tested) == 0 {
		b.spread = b.o.spread()
	}
	for _, e := range tested {
		b.spread, b.assumed = max(b.spread, e.session), b.assumed || e.assumed
	}
	b.tellLearned()
}

// spreadEntries gives every metric its spread between sessions. One without a verdict has
// an interval as well.
func (b *bench) spreadEntries() {
	for _, e := range b.entries {
		e.session, e.assumed = b.o.spreadOf(e.Name)
	}
}

// tellLearned reports the source of a spread that is not assumed.
func (b *bench) tellLearned() {
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

// spreadSource names the origin of a metric's spread between sessions.
func (e *entry) spreadSource() string {
	if e.assumed {
		return "assumed between sessions"
	}
	return "measured between sessions"
}
