package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
)

const (
	// leastCost is the least share of the step that is claimed of a straggler: as of a
	// finding in a trace.
	leastCost = 0.005
	// replayError is how much the replay may differ from the recorded median step, as a
	// share, before nothing is claimed of it.
	replayError = 0.02
	// mostStragglers is how many are named.
	mostStragglers = 5
	// mostOps bounds the work of all replays of a job, ops: that many take about 2 s.
	mostOps = 40_000_000
	// steadyFrom is the share of the steps in which a rank takes more than the others,
	// from which on the rank is to blame and not what its steps hold.
	steadyFrom = 0.5
	// standsOut is how many times as much as is usual one of several slow ranks takes more.
	standsOut = 3
	// alikeFrom is how much each of several ranks that are named together takes in its median
	// step, as a share of the one that takes most, and of its own mean step: a rank that was
	// late once is no part of what another one does in every step.
	alikeFrom = 0.5
	// wanderFrom is the share of the step from which it is said that the slow rank changes.
	wanderFrom = 0.05
	// imbalanceFrom is how much longer than others a family of ranks works, as a share.
	imbalanceFrom = 0.05
)

// Recording is how the program of one rank went.
type Recording struct {
	Rank     int            `json:"rank"`
	Node     string         `json:"node,omitempty"`
	ExitCode int            `json:"exit_code"`
	Signal   string         `json:"signal,omitempty"`
	WallS    gpuprof.Number `json:"wall_s"`
	Folder   string         `json:"folder"`
}

// Waiting is what the ranks of a job wait for each other.
type Waiting struct {
	Ranks       int            `json:"ranks"`       // that have collectives
	Steps       int            `json:"steps"`       // that all of them have
	Collectives int            `json:"collectives"` // of which all parts were found
	StepS       gpuprof.Number `json:"step_s"`      // median over ranks and steps, recorded
	ReplayedS   gpuprof.Number `json:"replayed_s"`  // the same by the replay
	// Unclaimed says why nothing is claimed; "" where the replay repeats the recording.
	Unclaimed  string      `json:"unclaimed,omitempty"`
	Stragglers []Straggler `json:"stragglers"` // the costliest first
	// EvenS is what the step would be shorter if every rank took its siblings' median
	// before every collective.
	EvenS gpuprof.Number `json:"even_s"`
	Rows  []RankWait     `json:"rows"` // by rank, those that wait least where there are many
	// Tried is how many ranks were replaced in a replay, of those that take more.
	Tried int `json:"tried"`
}

// Straggler is a rank, or a node, that the others wait for.
type Straggler struct {
	Ranks []int  `json:"ranks"`
	Node  string `json:"node,omitempty"`
	// CostS is the most that the step can become shorter, and GainS what it becomes
	// shorter in the replay, if the rank is as fast as its siblings; MoreS is what it
	// takes more than they, before all collectives together. Per step.
	CostS  gpuprof.Number `json:"cost_s"`
	GainS  gpuprof.Number `json:"gain_s"`
	MoreS  gpuprof.Number `json:"more_s"`
	Share  gpuprof.Number `json:"share"`   // CostS of the step
	LastIn gpuprof.Number `json:"last_in"` // share of the steps in which it takes more than the others
	// Collective is that at which the others wait longest, and WaitS for how long, per
	// step, in the median of them.
	Collective string         `json:"collective"`
	WaitS      gpuprof.Number `json:"wait_s"`
	Cause      string         `json:"cause"`
	Evidence   bool           `json:"evidence"`
	Fix        string         `json:"fix"`
}

// RankWait is where the time of one rank goes, per step.
type RankWait struct {
	Rank  int            `json:"rank"`
	Node  string         `json:"node,omitempty"`
	WorkS gpuprof.Number `json:"work_s"`
	IdleS gpuprof.Number `json:"idle_s"`
	WaitS gpuprof.Number `json:"wait_s"` // for the others, and for the data
	MoreS gpuprof.Number `json:"more_s"` // that it takes more than its siblings
}

// mostRows is how many ranks have a row in the document where no more are asked for.
const mostRows = 64

// straggle finds the ranks that the others wait for.
func (r *Report) straggle(lines []*line) {
	if len(lines) < 2 {
		return
	}
	m := match(lines)
	r.Notes = append(r.Notes, m.notes...)
	w := &Waiting{Ranks: len(lines), Steps: len(m.steps), Collectives: len(m.all), Stragglers: []Straggler{}, Rows: []RankWait{}}
	r.Waiting = w
	e := m.excesses()
	m.rows(w, e, max(mostRows, r.Top))
	base := m.usable(w)
	if base == nil {
		return
	}
	s := &search{m: m, e: e, step: base.step(), owns: m.owns(), perStep: m.perStep(e)}
	s.cut = mostOps / max(1, m.size())
	s.find(w)
	r.imbalance(s)
	if left := s.now - s.step + float64(w.EvenS)*1e9; left >= wanderFrom*s.step {
		who, more := "the rank that is waited for", ""
		if len(w.Stragglers) > 0 { // and that one is waited for in most steps
			who, more = "the rank that is waited for in the remaining time", " besides"
		}
		r.Notes = append(r.Notes, fmt.Sprintf("%s changes from step to step: ranks that took their siblings' median in every step would make it up to %s shorter%s; look at the data (batches of the same work, samples sorted or bucketed by length), not at a node", who, gpuprof.FormatSeconds(left*1e-9), more))
	}
}

// usable is the replay of what was recorded, nil where it does not repeat it.
func (m *matched) usable(w *Waiting) *replay {
	switch jobs := m.jobs(); {
	case len(jobs) > 1:
		w.Unclaimed = fmt.Sprintf("the ranks are of %d jobs, and do not wait for each other", len(jobs))
	case len(m.steps) == 0:
		w.Unclaimed = "the ranks have no step in common"
	case len(m.all) == 0:
		w.Unclaimed = "no collective of one rank was found in another"
	}
	if w.Unclaimed != "" {
		return nil
	}
	base, ok := m.run(nil)
	if !ok {
		w.Unclaimed = "the ranks ask for their collectives in orders that do not fit together"
		return nil
	}
	replayed, recorded := base.median()
	w.StepS, w.ReplayedS = gpuprof.Number(recorded*1e-9), gpuprof.Number(replayed*1e-9)
	if recorded <= 0 || math.Abs(replayed/recorded-1) > replayError {
		w.Unclaimed = fmt.Sprintf("a replay of the recorded times gives a step of %s, and %s were recorded: more than 2 %% apart", gpuprof.FormatSeconds(replayed*1e-9), gpuprof.FormatSeconds(recorded*1e-9))
		return nil
	}
	return base
}

// size is how many ops all lines have.
func (m *matched) size() int {
	n := 0
	for _, l := range m.lines {
		n += len(l.ops)
	}
	return n
}

// rows are the times of each rank, of the most that wait least.
func (m *matched) rows(w *Waiting, e *excess, most int) {
	for i, l := range m.lines {
		per := func(ns int64) gpuprof.Number {
			return gpuprof.Number(float64(ns) * 1e-9 / float64(max(len(l.steps), 1)))
		}
		w.Rows = append(w.Rows, RankWait{Rank: l.rank, Node: l.node, WorkS: per(l.work), IdleS: per(l.idle), WaitS: per(l.waited), MoreS: gpuprof.Number(e.total(i, len(m.steps)) * 1e-9)})
	}
	if len(w.Rows) > most {
		slices.SortStableFunc(w.Rows, func(a, b RankWait) int { return cmp.Compare(a.WaitS, b.WaitS) })
		w.Rows = w.Rows[:most]
		slices.SortFunc(w.Rows, func(a, b RankWait) int { return cmp.Compare(a.Rank, b.Rank) })
	}
}

// search looks for stragglers by replacing ranks, the costliest first, so that no time
// is claimed twice.
type search struct {
	m    *matched
	e    *excess
	step float64 // of the recorded times, ns
	owns []float64
	cut  int // replays that may still be made
	// perStep is what each line takes more than its siblings, by step.
	perStep [][]int64

	set   [][]int64 // own times of the lines replaced so far; nil for none
	now   float64   // the step with those
	tried map[int]bool
}

// candidate is a set of lines that may be replaced together.
type candidate struct {
	lines []int
	node  string
	more  float64 // ns per step
	share float64 // of the steps in which they take more than the others
}

// candidates are the ranks, and the nodes with several of them, that take more than
// their siblings, those that take most first.
func (s *search) candidates() []candidate {
	var out []candidate
	nodes := map[string][]int{}
	for i, l := range s.m.lines {
		if s.set[i] != nil {
			continue
		}
		more := s.e.total(i, len(s.m.steps))
		if more >= leastCost*s.step {
			out = append(out, candidate{lines: []int{i}, node: l.node, more: more})
		}
		if l.node != "" {
			nodes[l.node] = append(nodes[l.node], i)
		}
	}
	for name, on := range nodes {
		c := candidate{lines: on, node: name}
		slow := 0
		for _, i := range on {
			more := s.e.total(i, len(s.m.steps))
			c.more += more
			if more >= leastCost*s.step {
				slow++
			}
		}
		if slow > 1 && 2*slow >= len(on) && len(nodes) > 1 {
			out = append(out, c)
		}
	}
	out = append(out, s.pairs(out)...)
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.more, a.more), cmp.Compare(len(a.lines), len(b.lines)), cmp.Compare(a.lines[0], b.lines[0]))
	})
	return out
}

// pairs are the two ranks that take most, the three, and so on: of ranks that are equally
// slow none gains anything alone.
func (s *search) pairs(single []candidate) []candidate {
	single = slices.DeleteFunc(slices.Clone(single), func(c candidate) bool { return len(c.lines) > 1 })
	slices.SortFunc(single, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.more, a.more), cmp.Compare(a.lines[0], b.lines[0]))
	})
	var out []candidate
	set := candidate{}
	for i, c := range single[:min(len(single), mostStragglers)] {
		set.lines, set.more = append(slices.Clone(set.lines), c.lines...), set.more+c.more
		if i > 0 {
			out = append(out, set)
		}
	}
	return out
}

// without is the step where lines are replaced as well.
func (s *search) without(lines []int) float64 {
	s.cut--
	own := slices.Clone(s.set)
	for _, i := range lines {
		own[i] = s.m.replaced(s.e, i)
		s.tried[i] = true
	}
	r, ok := s.m.run(own)
	if !ok {
		return s.now
	}
	return r.step()
}

func (s *search) find(w *Waiting) {
	s.set, s.now, s.tried = make([][]int64, len(s.m.lines)), s.step, map[int]bool{}
	everyone := make([]int, len(s.m.lines))
	for i := range everyone {
		everyone[i] = i
	}
	w.EvenS = gpuprof.Number(max(0, s.step-s.without(everyone)) * 1e-9)
	clear(s.tried)
	for len(w.Stragglers) < mostStragglers {
		best, gain := s.best()
		if gain < leastCost*s.step {
			break
		}
		w.Stragglers = append(w.Stragglers, s.straggler(w, best, gain))
		for _, i := range best.lines {
			s.set[i] = s.m.replaced(s.e, i)
		}
		s.now -= gain
	}
	w.Tried = len(s.tried)
}

// best is the candidate whose replacement shortens the step most; several ranks only where
// they do so by a good part more than one.
func (s *search) best() (best candidate, gain float64) {
	const more = 1.2
	for _, c := range s.candidates() {
		if s.cut <= 0 || c.more*more <= gain { // no replacement gains more than the time that it takes away
			break
		}
		var ok bool
		if c.share, ok = s.standing(c.lines); !ok {
			continue
		}
		if !s.alike(&c) {
			continue
		}
		g := s.now - s.without(c.lines)
		if len(c.lines) > 1 {
			if g > gain*more {
				best, gain = c, g
			}
			continue
		}
		if len(best.lines) <= 1 && g > gain || len(best.lines) > 1 && g*more > gain {
			best, gain = c, g
		}
	}
	return best, gain
}

// straggler is what is said of lines that were found.
func (s *search) straggler(w *Waiting, c candidate, gain float64) Straggler {
	wrong := math.Abs(float64(w.ReplayedS-w.StepS)) * 1e9
	cost := min(c.more, gain+wrong)
	out := Straggler{CostS: gpuprof.Number(cost * 1e-9), GainS: gpuprof.Number(gain * 1e-9), MoreS: gpuprof.Number(c.more * 1e-9), Node: c.node, Share: gpuprof.Number(cost / s.step)}
	for _, i := range c.lines {
		out.Ranks = append(out.Ranks, s.m.lines[i].rank)
	}
	slices.Sort(out.Ranks)
	out.LastIn = gpuprof.Number(c.share)
	out.Collective, out.WaitS = s.m.where(c.lines)
	out.Cause, out.Evidence = s.cause(c.lines)
	out.Fix = "measure its GPU with gpuprof doctor --bench, and compare the rank's own analysis with another one's: gpuprof analyze --compare"
	if s.m.lines[c.lines[0]].onHost {
		out.Fix = "look at what else runs on that machine, and compare the rank's own analysis with another one's: gpuprof analyze --compare"
	}
	return out
}

// where is the collective at which the other ranks wait longest for these lines, and the
// median wait of them there, s per step.
func (m *matched) where(lines []int) (string, gpuprof.Number) {
	type site struct {
		text  string
		total int64
		ranks int
	}
	sites := map[string]*site{}
	for i := range m.all {
		t := &m.all[i]
		at, _ := m.last(t)
		if at < 0 || !slices.Contains(lines, int(t.parts[at].line)) {
			continue
		}
		p := t.parts[at]
		l, c := m.lines[p.line], m.callOf(p)
		text := fmt.Sprintf("%s, number %d of a step", l.callText(c), t.place+1)
		if g := l.groupOf(c); g != "" {
			text += " in the group " + g
		}
		if sites[text] == nil {
			sites[text] = &site{text: text, ranks: len(t.parts)}
		}
		for _, o := range t.parts {
			sites[text].total += m.callOf(o).dur - t.took
		}
	}
	var best *site
	for _, s := range sites {
		if best == nil || s.total > best.total || s.total == best.total && s.text < best.text {
			best = s
		}
	}
	if best == nil || best.ranks < 2 {
		return "", 0
	}
	return best.text, gpuprof.Number(float64(best.total) * 1e-9 / float64(best.ranks-1) / float64(max(len(m.steps), 1)))
}

// imbalance tells families of ranks that all work longer than another family: that is
// how the work is divided, and no rank is slow.
func (r *Report) imbalance(s *search) {
	families := s.m.families()
	if len(families) < 2 {
		return
	}
	slices.SortFunc(families, func(a, b []int) int { return cmp.Compare(middleOwn(s.owns, b), middleOwn(s.owns, a)) })
	longest, next := middleOwn(s.owns, families[0]), middleOwn(s.owns, families[len(families)-1])
	if next <= 0 || longest/next-1 < imbalanceFrom || len(families[0]) < 2 {
		return
	}
	var ranks []int
	for _, i := range families[0] {
		ranks = append(ranks, s.m.lines[i].rank)
	}
	r.Notes = append(r.Notes, fmt.Sprintf("imbalance: %s all work %s per step between collectives, the ranks with the least work %s: that is how the work is divided, and none of them is slow beside its siblings", RanksText(ranks), gpuprof.FormatSeconds(longest), gpuprof.FormatSeconds(next)))
}
