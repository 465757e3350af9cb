package bisect

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Found is the kind of a search's outcome.
type Found string

// The outcomes of a search.
const (
	Culprit   Found = "culprit"   // one commit
	Range     Found = "range"     // one commit, and unmeasurable commits before it
	Nothing   Found = "nothing"   // BAD is not worse
	Undecided Found = "undecided" // not enough evidence whether BAD is worse
	Open      Found = "open"      // the budget ended, or no measurement adds information
)

// wholePart is the share of the change from which one commit explains all of it.
const wholePart = 0.7

// stagePart is the share of the change from which a stage is named: by noise alone some stage changes most.
const stagePart = 0.25

// Outcome is the result of a search.
type Outcome struct {
	Found Found `json:"found"`
	// From and To are the first and last of the named commits; only To was measurable.
	From int            `json:"from"`
	To   int            `json:"to"`
	P    gpuprof.Number `json:"p"`
	// Effect is the commit's relative change against its parent: 0.05 is 5 % more; null if the sign is uncertain or the
	// search is open. It is from quartets, for a counter from one process of each commit. CI95 is null with too few
	// quartets, in an open search and for counters.
	Effect gpuprof.Number    `json:"effect"`
	CI95   [2]gpuprof.Number `json:"ci95"`
	// Part is the commit's share of the whole change. Rest is the range with the remaining change, if Part is small.
	Part gpuprof.Number `json:"part_of_change"`
	Rest *Span          `json:"rest,omitempty"`
	// Stage is the stage that changed most; StagePart is its share of the change, if the metric has the same unit.
	Stage     *Also          `json:"stage,omitempty"`
	StagePart gpuprof.Number `json:"stage_part_of_change,omitzero"`
	Also      []Also         `json:"counters,omitempty"` // counters that changed
	Set       []Span         `json:"set,omitempty"`      // of an open search: the smallest set of commits that reaches the confidence
	Drift     gpuprof.Number `json:"drift,omitzero"`     // relative drift of GOOD during the search, if larger than the change
	Why       string         `json:"why,omitempty"`      // why the search is open
}

// Conclude returns the outcome of the search from all quartets so far.
func (s *Search) Conclude() Outcome {
	if s.Exact {
		return s.countedOutcome()
	}
	p := s.Posterior()
	m, parent, ok := s.confidentCommit(p)
	if !ok || s.directCount(m, parent) < directQuartets {
		o := Outcome{Found: Open, Effect: gpuprof.Number(math.NaN()), CI95: emptyInterval(), Part: gpuprof.Number(math.NaN()), Set: p.Smallest(s.Options.Confidence), Why: s.openReason()}
		m = s.likeliest(p)
		parent = s.previousMeasurable(m)
		o.From, o.To, o.P = parent+1, m, gpuprof.Number(p.Of(parent, m))
		o.Drift = s.driftOfGood()
		return o
	}
	o := Outcome{Found: Culprit, From: parent + 1, To: m, P: gpuprof.Number(p.Of(parent, m)), Drift: s.driftOfGood()}
	if o.From < o.To {
		o.Found = Range
	}
	s.setOwnChange(&o, parent)
	s.addOtherMetrics(&o, parent)
	return o
}

func emptyInterval() [2]gpuprof.Number {
	return [2]gpuprof.Number{gpuprof.Number(math.NaN()), gpuprof.Number(math.NaN())}
}

func (s *Search) openReason() string {
	if s.Spent() >= s.Options.BudgetS {
		return "the budget ended"
	}
	return "no measurable commit adds information"
}

// likeliest returns the commit with the largest probability, together with unmeasurable commits just before it.
func (s *Search) likeliest(p Posterior) int {
	best, most := s.N(), -1.0
	for m := 1; m <= s.N(); m++ {
		if s.hasFailed(m) {
			continue
		}
		if mass := p.Of(s.previousMeasurable(m), m); mass > most {
			best, most = m, mass
		}
	}
	return best
}

// setOwnChange sets the commit's own change from its direct quartets, and Rest if that change is less than the whole.
// The change is NaN if its sign is uncertain, given the scatter between builds of equal code.
func (s *Search) setOwnChange(o *Outcome, parent int) {
	direct := s.quartetsOf(o.To, parent)
	if parent == 0 && o.To == s.N() {
		direct = slices.Concat(direct, s.Check)
	}
	m := s.estimateModel()
	o.Effect, o.Part, o.CI95 = gpuprof.Number(math.NaN()), gpuprof.Number(math.NaN()), emptyInterval()
	e, ok := s.estimateChange(direct)
	if !ok {
		return
	}
	e = e.WithSharedShift(1, stats.Spread{Sigma: math.Sqrt2 * m.scatter, Nu: math.Inf(1)})
	o.CI95 = s.effectInterval(e)
	if e.Lower(0.975) <= 0 && e.Upper(0.975) >= 0 {
		return
	}
	effect := e.Theta
	o.Effect, o.Part = gpuprof.Number(s.Ratio(effect)), gpuprof.Number(effect/m.theta)
	if e.Upper(0.975) >= wholePart*m.theta {
		return
	}
	// level is the change that the nearest earlier measured commit has already, against GOOD. If level exceeds the
	// change that is left for later commits, Rest names the earlier commits instead of the later ones.
	level := 0.0
	for at := parent; at > 0; at-- {
		if d := s.listEffects(s.quartetsOf(at, 0)); len(d) > 0 {
			level = stats.Median(d)
			break
		}
	}
	before, after := Span{1, parent}, Span{o.To + 1, s.N()}
	if rest := m.theta - effect - level; after.From > after.To || level > rest && before.To > 0 {
		after = before
	}
	if after.From <= after.To {
		o.Rest = &after
	}
}

// addOtherMetrics adds the stage that changed most and the counters that changed.
func (s *Search) addOtherMetrics(o *Outcome, parent int) {
	type sides struct {
		Also
		old, now []float64
	}
	var all []*sides
	for _, q := range slices.Concat(s.Check, s.Quartet) {
		if q.Commit != o.To || q.Against != parent {
			continue
		}
		for _, a := range q.Also {
			i := slices.IndexFunc(all, func(x *sides) bool { return x.Name == a.Name })
			if i < 0 {
				i, all = len(all), append(all, &sides{Also: a})
			}
			all[i].old, all[i].now = append(all[i].old, float64(a.Old)), append(all[i].now, float64(a.New))
		}
	}
	whole := s.metricChange(o.To, parent)
	for _, x := range all {
		a := x.Also
		a.Old, a.New = gpuprof.Number(stats.Median(x.old)), gpuprof.Number(stats.Median(x.now))
		switch {
		case x.Exact && a.Old != a.New:
			o.Also = append(o.Also, a)
		case !x.Exact && s.stageWorse(a) && (o.Stage == nil || math.Abs(float64(a.New-a.Old)) > math.Abs(float64(o.Stage.New-o.Stage.Old))):
			o.Stage = &a
		}
	}
	if st := o.Stage; st != nil && st.Unit == s.Unit { // a rate is not the sum of its stages
		if o.StagePart = gpuprof.Number(float64(st.New-st.Old) / whole); !(float64(o.StagePart) >= stagePart) {
			o.Stage, o.StagePart = nil, 0
		}
	}
	slices.SortFunc(o.Also, func(a, b Also) int { return cmp.Compare(a.Name, b.Name) })
}

// metricChange returns the difference of the median metric between two commits, in the metric's unit.
func (s *Search) metricChange(commit, against int) float64 {
	var old, now []float64
	for _, q := range slices.Concat(s.Check, s.Quartet) {
		if q.Commit == commit && q.Against == against {
			old = append(old, float64(q.Values[0]), float64(q.Values[3]))
			now = append(now, float64(q.Values[1]), float64(q.Values[2]))
		}
	}
	return stats.Median(now) - stats.Median(old)
}

// stageWorse reports whether a stage changed in the searched direction.
func (s *Search) stageWorse(a Also) bool {
	change := float64(a.New - a.Old)
	if s.Options.Faster {
		change = -change
	}
	return change > 0
}

// driftOfGood returns GOOD's relative drift during the search; 0 if it is insignificant or smaller than the change.
func (s *Search) driftOfGood() gpuprof.Number {
	var logs []float64
	var last []bool
	for _, q := range slices.Concat(s.Check, s.Quartet) {
		if q.Against == 0 {
			logs = append(logs, math.Log(float64(q.Values[0])), math.Log(float64(q.Values[3])))
			last = append(last, false, true)
		}
	}
	t := stats.FindTrend(logs, last)
	whole := t.At(len(logs)-1) - t.At(0)
	if t.P >= 0.01 || math.Abs(whole) <= math.Abs(s.estimateModel().theta) {
		return 0
	}
	return gpuprof.Number(math.Expm1(whole))
}

func (s *Search) countedOutcome() Outcome {
	good, bad := s.knownBounds()
	o := Outcome{Found: Culprit, From: good + 1, To: bad, P: 1, Effect: gpuprof.Number(math.NaN()), CI95: emptyInterval(), Part: gpuprof.Number(math.NaN())}
	if _, more := s.halve(); more {
		o.Found, o.Set, o.Why = Open, []Span{{good + 1, bad}}, s.openReason()
		return o
	}
	if o.From < o.To {
		o.Found = Range
	}
	old, now, all := s.counterValue(good), s.counterValue(bad), s.counterValue(s.N())
	o.Effect = gpuprof.Number((now - old) / old)
	o.Also = []Also{{Name: s.Metric, Unit: s.Unit, Exact: true, Old: gpuprof.Number(old), New: gpuprof.Number(now)}}
	o.Part = gpuprof.Number((now - old) / (all - s.counterValue(0)))
	if float64(o.Part) < wholePart && bad < s.N() {
		o.Rest = &Span{bad + 1, s.N()}
	}
	return o
}

// counterValue returns commit m's counter; GOOD's for m 0.
func (s *Search) counterValue(m int) float64 {
	v := 0.0
	for _, q := range slices.Concat(s.Check, s.Quartet) {
		if m == 0 || q.Commit == m {
			v = float64(q.Values[1])
			if m == 0 {
				v = float64(q.Values[0])
			}
		}
	}
	return v
}
