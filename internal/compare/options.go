package compare

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// The numbers of the decision rule depend on each other: change one only together with the simulated gates of the
// tests.
const (
	// MinRuns is the least number of runs (processes) per side for a verdict, except that stage 1 of a gate may end
	// early; see EarlyBlocks.
	MinRuns = 6
	// Stage1Blocks is the number of blocks of a gate's first stage, each one process of A and one of B. Stage2Blocks is
	// the least number of blocks of stage 2 or 3 if the time allows.
	Stage1Blocks = 6
	Stage2Blocks = 12
	// EarlyBlocks is the least number of blocks with which stage 1 can end a gate if the time allows no more.
	EarlyBlocks = 3
	// MaxReruns limits the repetitions of a block whose samples were flagged.
	MaxReruns = 2
	// MinSessions is the least number of a baseline's sessions that estimate their spread; with fewer it is assumed.
	MinSessions = 10

	// StageFloor is the share of the step below which a stage is not judged: it is within the noise of the clock.
	StageFloor = 0.05

	defaultThreshold = 0.05
	// equivalenceShare is the share of the threshold up to which a change does not matter: 2 % of 5 %.
	equivalenceShare = 0.4
	defaultSpread    = 0.01
	alpha            = 0.05  // of Regressed and Improved, over all metrics together
	pooledAlpha      = 0.04  // of Regressed and Improved from stages 2 and 3 together
	escalateAlpha    = 0.10  // of the escalation in stage 1
	earlyAlpha       = 0.001 // of Regressed and Improved in stage 1
	trendAlpha       = 0.01  // of a drift that widens the interval, and of a rhythm that forbids an early end
	mostBlocks       = 2000  // of one stage
	passLevel        = 0.975 // one-sided confidence of the upper bound that a pass needs below the threshold
	manySlow         = 0.2   // share of slow processes from which stages 2 and 3 decide together
	power            = 0.90  // of the minimum detectable effect and of plans
	flaggedLimit     = 0.10  // a larger share of flagged samples: measure the block again
	flaggedApart     = 0.10  // a larger difference between the sides' flagged shares: no verdict
)

// Margins are the sizes of a metric's change that matter to a verdict, as shares (0.05 is 5 %).
type Margins struct {
	Threshold   float64 // a slowdown of this size must be found
	Equivalence float64 // a change up to this size does not matter; 0: 0.4 of Threshold
}

// MarginsFor are the margins of the metrics that match a name or pattern.
type MarginsFor struct {
	Metric string // a name, or a pattern in which * matches any text
	Margins
}

// Options are the settings of a comparison. The zero value is the default rule.
type Options struct {
	Margins              // of every metric; 0 is 5 %
	Metrics []MarginsFor // of single metrics; the last match applies
	// Only restricts the comparison to metrics that match a name or pattern of the list.
	Only []string
	// AllowMismatch names fields (driver, preset, a knob) that may differ.
	AllowMismatch []string
	// Inconclusive selects the exit code of an inconclusive verdict: "" 3, "pass" 0, "fail" 1.
	Inconclusive string
	// SessionSpread is the assumed standard deviation between sessions, as a share; 0 means 1 %, a negative value none.
	SessionSpread float64
	// Learned holds the spread from a history; the zero value is none.
	Learned Learned
	// Judge is set by gate: a regression exits 1, and tuning knobs must agree.
	Judge bool
	Seed  uint64 // of the order of processes, which the result states
	// BlockSeconds is the mean duration of one block of a gate (a pair of processes, old and new), by which a result
	// states how long further blocks take; 0 means unknown. Gate.Pace and gate --aa set it.
	BlockSeconds float64
	Tool         gpuprof.Tool
}

// Validate returns an error for an option that is out of its range.
func (o Options) Validate() error {
	for _, m := range append([]MarginsFor{{"", o.Margins}}, o.Metrics...) {
		name := "--threshold"
		if m.Metric != "" {
			name += " " + m.Metric
		}
		if isBadShare(m.Threshold) || isBadShare(m.Equivalence) || m.Metric != "" && m.Threshold <= 0 {
			return gpuprof.Errorf(gpuprof.ErrUsage, "setting %s: %g is no share above 0 and up to 10", name, m.Threshold).WithFix("give a percentage such as 5%%")
		}
		if full := m.fillDefaults(); full.Equivalence >= full.Threshold {
			return gpuprof.Errorf(gpuprof.ErrUsage, "setting %s: the equivalence margin %g is not below the threshold %g", name, full.Equivalence, full.Threshold).WithFix("give a smaller one")
		}
	}
	if !slices.Contains([]string{"", "pass", "fail"}, o.Inconclusive) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting --inconclusive: %q is neither pass nor fail", o.Inconclusive)
	}
	if math.IsNaN(o.SessionSpread) || o.SessionSpread > 1 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting --session-spread: %g is no share up to 1", o.SessionSpread).WithFix("give a percentage such as 1%%")
	}
	return nil
}

func isBadShare(share float64) bool { return !(share >= 0 && share <= 10) }

func (m Margins) fillDefaults() Margins {
	m.Threshold = cmp.Or(m.Threshold, defaultThreshold)
	m.Equivalence = cmp.Or(m.Equivalence, equivalenceShare*m.Threshold)
	return m
}

func (o Options) margins(metric string) Margins {
	m := o.Margins
	for _, f := range o.Metrics {
		if Matches(f.Metric, metric) {
			m = f.Margins
		}
	}
	return m.fillDefaults()
}

func (o Options) spread() float64 {
	switch {
	case o.SessionSpread == 0:
		return defaultSpread
	case o.SessionSpread < 0:
		return 0
	}
	return o.SessionSpread
}

// Matches reports whether a metric has the name, or matches the pattern, in which * matches any text. There is no
// escape character: metric names contain slashes and brackets.
func Matches(pattern, metric string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == metric
	}
	rest, ok := strings.CutPrefix(metric, parts[0])
	if !ok || len(rest) < len(parts[last]) || !strings.HasSuffix(rest, parts[last]) {
		return false
	}
	rest = strings.TrimSuffix(rest, parts[last])
	for _, p := range parts[1:last] {
		if _, rest, ok = strings.Cut(rest, p); !ok {
			return false
		}
	}
	return true
}

// selected returns the metrics that Only selects. A pattern without a match is an error: judging nothing would pass.
func (o Options) selected(names []string) ([]string, error) {
	fits := func(pattern string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return Matches(pattern, n) })
	}
	for _, m := range o.Metrics {
		if !fits(m.Metric) {
			return nil, unknownMetric("--threshold", m.Metric, names)
		}
	}
	if len(o.Only) == 0 {
		return names, nil
	}
	for _, p := range o.Only {
		if !fits(p) {
			return nil, unknownMetric("--metric", p, names)
		}
	}
	var out []string
	for _, n := range names {
		if slices.ContainsFunc(o.Only, func(p string) bool { return Matches(p, n) }) {
			out = append(out, n)
		}
	}
	return out, nil
}

func unknownMetric(flag, name string, known []string) error {
	return gpuprof.Errorf(gpuprof.ErrUsage, "choosing metrics with %s %q: neither side has such a metric%s", flag, name, gpuprof.DidYouMean(name, known)).
		WithFix("name one of %s; * is any text", listSome(known, 5))
}
