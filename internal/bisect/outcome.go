package bisect

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Found is what a search came to.
type Found string

// What a search can come to.
const (
	Culprit   Found = "culprit"   // one commit
	Range     Found = "range"     // one commit and those before it, which cannot be measured
	Nothing   Found = "nothing"   // BAD is not slower
	Undecided Found = "undecided" // whether BAD is slower could not be told
	Open      Found = "open"      // the budget ended, or no probe could tell more
)

// wholePart is the part of the change below which a commit is not all of it.
const wholePart = 0.7

// stagePart is the part of the change that a stage must have grown by to be named: some
// stage has always changed most, by noise alone.
const stagePart = 0.25

// Outcome is what a search came to.
type Outcome struct {
	Found Found `json:"found"`
	// From and To are the commits that are named; To could be measured, those before it could not.
	From int            `json:"from"`
	To   int            `json:"to"`
	P    gpuprof.Number `json:"p"`
	// Effect is the commit's own change as a share, of the direct quartets: 0.05 is 5 % more; null
	// where these do not tell its sign. CI95 is null where they are too few.
	Effect gpuprof.Number    `json:"effect"`
	CI95   [2]gpuprof.Number `json:"ci95"`
	// Part is the commit's part of the whole change; Rest holds what is left, where Part is small.
	Part gpuprof.Number `json:"part_of_change"`
	Rest *Span          `json:"rest,omitempty"`
	// Stage is the one that changed most, if that is a good part of the change; StagePart is
	// its part of it, where both are in one unit.
	Stage     *Also          `json:"stage,omitempty"`
	StagePart gpuprof.Number `json:"stage_part_of_change,omitzero"`
	Also      []Also         `json:"counters,omitempty"` // that changed
	Set       []Span         `json:"set,omitempty"`      // of an open search: the commits that hold the confidence
	Drift     gpuprof.Number `json:"drift,omitzero"`     // of GOOD over the search, as a share, where it is more than the change
	Why       string         `json:"why,omitempty"`      // of an open search
}

// Conclude makes the outcome of the state as it is.
func (s *Search) Conclude() Outcome {
	if s.Exact {
		return s.counted()
	}
	p := s.Posterior()
	m, parent, ok := s.named(p)
	if !ok || s.direct(m, parent) < directQuartets {
		o := Outcome{Found: Open, Effect: gpuprof.Number(math.NaN()), CI95: noInterval(), Part: gpuprof.Number(math.NaN()), Set: p.Smallest(s.Options.Confidence), Why: s.whyOpen()}
		if m, parent, ok = s.likeliest(p), 0, true; ok {
			parent = s.before(m)
		}
		o.From, o.To, o.P = parent+1, m, gpuprof.Number(p.Of(parent, m))
		o.Drift = s.drift()
		return o
	}
	o := Outcome{Found: Culprit, From: parent + 1, To: m, P: gpuprof.Number(p.Of(parent, m)), Drift: s.drift()}
	if o.From < o.To {
		o.Found = Range
	}
	s.own(&o, parent)
	s.also(&o, parent)
	return o
}

func noInterval() [2]gpuprof.Number {
	return [2]gpuprof.Number{gpuprof.Number(math.NaN()), gpuprof.Number(math.NaN())}
}

// whyOpen says why a search ended without a commit.
func (s *Search) whyOpen() string {
	if s.Spent() >= s.Options.BudgetS {
		return "the budget ended"
	}
	return "no commit that can be measured tells more"
}

// likeliest is the commit whose group has most.
func (s *Search) likeliest(p Posterior) int {
	best, most := s.N(), -1.0
	for m := 1; m <= s.N(); m++ {
		if s.failed(m) {
			continue
		}
		if mass := p.Of(s.before(m), m); mass > most {
			best, most = m, mass
		}
	}
	return best
}

// own is the commit's own change by the direct quartets, and what is left where that
// is less than the whole. The change is not known, NaN, where these quartets do not tell whether
// the commit is slower or faster: builds of equal code differ by the scatter.
func (s *Search) own(o *Outcome, parent int) {
	direct := s.quartetsOf(o.To, parent)
	if parent == 0 && o.To == s.N() {
		direct = slices.Concat(direct, s.Check)
	}
	m := s.model()
	o.Effect, o.Part, o.CI95 = gpuprof.Number(math.NaN()), gpuprof.Number(math.NaN()), noInterval()
	e, ok := s.estimate(direct)
	if !ok {
		return
	}
	e = e.Unsettled(1, stats.Spread{Sigma: math.Sqrt2 * m.scatter, Nu: math.Inf(1)})
	o.CI95 = s.interval(e)
	if e.Lower(0.975) <= 0 && e.Upper(0.975) >= 0 {
		return
	}
	effect := e.Theta
	o.Effect, o.Part = gpuprof.Number(s.Ratio(effect)), gpuprof.Number(effect/m.theta)
	if e.Upper(0.975) >= wholePart*m.theta {
		return
	}
	// What is left lies before the commit or after it, by the level of what was probed before.
	level := 0.0
	for at := parent; at > 0; at-- {
		if d := s.effects(s.Quartet, func(q Quartet) bool { return q.Commit == at && q.Against == 0 }); len(d) > 0 {
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

// also names the stage that changed most, and counters.
func (s *Search) also(o *Outcome, parent int) {
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
	whole := s.change(o.To, parent)
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
	if st := o.Stage; st != nil && st.Unit == s.Unit { // a rate is no sum of its stages
		if o.StagePart = gpuprof.Number(float64(st.New-st.Old) / whole); !(float64(o.StagePart) >= stagePart) {
			o.Stage, o.StagePart = nil, 0
		}
	}
	slices.SortFunc(o.Also, func(a, b Also) int { return cmp.Compare(a.Name, b.Name) })
}

// change is how much the metric of a commit differs from that of another.
func (s *Search) change(commit, against int) float64 {
	var old, now []float64
	for _, q := range slices.Concat(s.Check, s.Quartet) {
		if q.Commit == commit && q.Against == against {
			old = append(old, float64(q.Values[0]), float64(q.Values[3]))
			now = append(now, float64(q.Values[1]), float64(q.Values[2]))
		}
	}
	return stats.Median(now) - stats.Median(old)
}

// stageWorse says that a stage's time changed the way that is looked for.
func (s *Search) stageWorse(a Also) bool {
	change := float64(a.New - a.Old)
	if s.Options.Faster {
		change = -change
	}
	return change > 0
}

// drift is how far the processes of GOOD drifted over the search, where that is beyond
// chance and more than the change that is looked for; 0 else.
func (s *Search) drift() gpuprof.Number {
	var logs []float64
	var last []bool
	for _, q := range slices.Concat(s.Check, s.Quartet) {
		if q.Against == 0 {
			logs = append(logs, math.Log(float64(q.Values[0])), math.Log(float64(q.Values[3])))
			last = append(last, false, true)
		}
	}
	t := stats.FindTrend(logs, last)
	whole := t.Slope * float64(len(logs)-1)
	if t.P >= 0.01 || math.Abs(whole) <= math.Abs(s.model().theta) {
		return 0
	}
	return gpuprof.Number(math.Expm1(whole))
}

// counted is the outcome for a counter.
func (s *Search) counted() Outcome {
	good, bad := s.between()
	o := Outcome{Found: Culprit, From: good + 1, To: bad, P: 1, Effect: gpuprof.Number(math.NaN()), CI95: noInterval(), Part: gpuprof.Number(math.NaN())}
	if _, more := s.halve(); more {
		o.Found, o.Set, o.Why = Open, []Span{{good + 1, bad}}, s.whyOpen()
		return o
	}
	if o.From < o.To {
		o.Found = Range
	}
	old, now, all := s.value(good), s.value(bad), s.value(s.N())
	o.Effect = gpuprof.Number((now - old) / old)
	o.Also = []Also{{Name: s.Metric, Unit: s.Unit, Exact: true, Old: gpuprof.Number(old), New: gpuprof.Number(now)}}
	o.Part = gpuprof.Number((now - old) / (all - s.value(0)))
	if float64(o.Part) < wholePart && bad < s.N() {
		o.Rest = &Span{bad + 1, s.N()}
	}
	return o
}

// value is the counter of a commit; that of GOOD where it was not counted.
func (s *Search) value(m int) float64 {
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
