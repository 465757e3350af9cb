package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
)

const (
	// leastCost is the smallest cost of a reported straggler, as a share of the step; findings in a trace have the same
	// limit.
	leastCost = 0.005
	// replayError is the largest relative error of the replayed median step at which stragglers are reported.
	replayError = 0.02
	// mostStragglers limits the reported stragglers.
	mostStragglers = 5
	// mostOps limits the operations in all replays of a job; this number takes about 2 s.
	mostOps = 40_000_000
	// steadyFrom is the smallest share of steps in which a straggler exceeds the other ranks. Below it, the work
	// differs between steps, and no rank is slow.
	steadyFrom = 0.5
	// standsOut is the smallest excess of each slow rank, in multiples of the median excess.
	standsOut = 3
	// alikeFrom is the smallest excess, in the median step, of each of several ranks that are slow together. It is a
	// share of the largest excess of these ranks, and of the rank's own mean excess: a rank with one late step is not
	// slow in every step.
	alikeFrom = 0.5
	// wanderFrom is the smallest share of the step, lost to a different slow rank in each step, that causes a note.
	wanderFrom = 0.05
	// imbalanceFrom is the smallest relative difference in work between families of ranks that causes a note.
	imbalanceFrom = 0.05
)

// Recording is the outcome of one rank's program.
type Recording struct {
	Rank     int            `json:"rank"`
	Node     string         `json:"node,omitempty"`
	ExitCode int            `json:"exit_code"`
	Signal   string         `json:"signal,omitempty"`
	WallS    gpuprof.Number `json:"wall_s"`
	Folder   string         `json:"folder"`
}

// Waiting describes how long the ranks of a job wait for each other.
type Waiting struct {
	Ranks       int            `json:"ranks"`       // ranks with collectives
	Steps       int            `json:"steps"`       // steps that all ranks have
	Collectives int            `json:"collectives"` // matched collectives
	StepS       gpuprof.Number `json:"step_s"`      // median over ranks and steps, recorded
	ReplayedS   gpuprof.Number `json:"replayed_s"`  // the same in the replay
	// Unclaimed is the reason why no straggler is reported, such as an inexact replay; "" without a reason.
	Unclaimed  string      `json:"unclaimed,omitempty"`
	Stragglers []Straggler `json:"stragglers"` // the costliest first
	// EvenS is how much shorter the step would be if every rank took its siblings' median time before every collective.
	EvenS gpuprof.Number `json:"even_s"`
	Rows  []RankWait     `json:"rows"` // by rank; with many ranks only the ones that wait least
	// Tried is the number of ranks that a replay made as fast as their siblings.
	Tried int `json:"tried"`
}

// Straggler is a rank, or a node, that delays the others.
type Straggler struct {
	Ranks []int  `json:"ranks"`
	Node  string `json:"node,omitempty"`
	// CostS is the largest possible reduction of the step. GainS is the reduction in a replay where the rank is as fast
	// as its siblings. MoreS is the rank's excess over its siblings before all collectives. All are per step.
	CostS  gpuprof.Number `json:"cost_s"`
	GainS  gpuprof.Number `json:"gain_s"`
	MoreS  gpuprof.Number `json:"more_s"`
	Share  gpuprof.Number `json:"share"`   // CostS as a share of the step
	LastIn gpuprof.Number `json:"last_in"` // share of the steps in which it exceeds the other ranks
	// Collective is the collective at which the other ranks wait longest, and WaitS their median wait there, s per
	// step.
	Collective string         `json:"collective"`
	WaitS      gpuprof.Number `json:"wait_s"`
	Cause      string         `json:"cause"`
	Evidence   bool           `json:"evidence"`
	Fix        string         `json:"fix"`
}

// RankWait splits a rank's time per step.
type RankWait struct {
	Rank  int            `json:"rank"`
	Node  string         `json:"node,omitempty"`
	WorkS gpuprof.Number `json:"work_s"`
	IdleS gpuprof.Number `json:"idle_s"`
	WaitS gpuprof.Number `json:"wait_s"` // for other ranks and for the transfer
	MoreS gpuprof.Number `json:"more_s"` // excess over its siblings
}

// mostRows limits the ranks in the document, if Options.Top does not.
const mostRows = 64

func (r *Report) findStragglers(lines []*timeline) {
	if len(lines) < 2 {
		return
	}
	m := matchCollectives(lines)
	r.Notes = append(r.Notes, m.notes...)
	w := &Waiting{Ranks: len(lines), Steps: len(m.steps), Collectives: len(m.all), Stragglers: []Straggler{}, Rows: []RankWait{}}
	r.Waiting = w
	e := m.computeExcess()
	m.addRows(w, e, max(mostRows, r.Top))
	base := m.replayRecording(w)
	if base == nil {
		return
	}
	s := &search{m: m, e: e, step: base.meanStep(), owns: m.lineTimes(), perStep: m.excessPerStep(e)}
	s.cut = mostOps / max(1, m.opCount())
	s.findAll(w)
	r.noteImbalance(s)
	if left := s.now - s.step + float64(w.EvenS)*1e9; left >= wanderFrom*s.step {
		who, more := "the rank that is waited for", ""
		if len(w.Stragglers) > 0 { // the rank is reported already
			who, more = "the rank that is waited for in the remaining time", " besides"
		}
		r.Notes = append(r.Notes, fmt.Sprintf("%s changes from step to step: ranks that took their siblings' median in every step would make it up to %s shorter%s; look at the data (batches of the same work, samples sorted or bucketed by length), not at a node", who, gpuprof.FormatSeconds(left*1e-9), more))
	}
}

// replayRecording replays the recorded times. It returns nil, with the reason in w.Unclaimed, if the recordings do not
// belong together or the replayed steps differ from the recorded ones.
func (m *matchedJob) replayRecording(w *Waiting) *replay {
	switch jobs := m.jobIDs(); {
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
	replayed, recorded := base.medianSteps()
	w.StepS, w.ReplayedS = gpuprof.Number(recorded*1e-9), gpuprof.Number(replayed*1e-9)
	if recorded <= 0 || math.Abs(replayed/recorded-1) > replayError {
		w.Unclaimed = fmt.Sprintf("a replay of the recorded times gives a step of %s, and %s were recorded: more than 2 %% apart", gpuprof.FormatSeconds(replayed*1e-9), gpuprof.FormatSeconds(recorded*1e-9))
		return nil
	}
	return base
}

func (m *matchedJob) opCount() int {
	n := 0
	for _, l := range m.lines {
		n += len(l.ops)
	}
	return n
}

// addRows adds a row per rank. If there are more than most ranks, it adds only the ones that wait least.
func (m *matchedJob) addRows(w *Waiting, e *excess, most int) {
	for i, l := range m.lines {
		per := func(ns int64) gpuprof.Number {
			return gpuprof.Number(float64(ns) * 1e-9 / float64(max(len(l.steps), 1)))
		}
		w.Rows = append(w.Rows, RankWait{Rank: l.rank, Node: l.node, WorkS: per(l.work), IdleS: per(l.idle), WaitS: per(l.waited), MoreS: gpuprof.Number(e.meanExcess(i, len(m.steps)) * 1e-9)})
	}
	if len(w.Rows) > most {
		slices.SortStableFunc(w.Rows, func(a, b RankWait) int { return cmp.Compare(a.WaitS, b.WaitS) })
		w.Rows = w.Rows[:most]
		slices.SortFunc(w.Rows, func(a, b RankWait) int { return cmp.Compare(a.Rank, b.Rank) })
	}
}

// search finds stragglers: it replays the job with the own times of some ranks replaced by their siblings' times, the
// costliest ranks first. Found ranks stay replaced, so that no time counts twice.
type search struct {
	m    *matchedJob
	e    *excess
	step float64 // of the recorded times, ns
	owns []float64
	cut  int // remaining number of replays
	// perStep is the ranks' excess over their siblings, ns, by step and timeline.
	perStep [][]int64

	set   [][]int64 // own times of the replaced ranks, by timeline; nil for the others
	now   float64   // the step with these replacements, ns
	tried map[int]bool
}

// candidate is a set of ranks, by timeline index, whose own times are replaced together.
type candidate struct {
	lines []int
	node  string
	more  float64 // ns per step
	share float64 // of the steps in which the lines exceed the other ranks
}

// listCandidates returns the ranks, and nodes with several ranks, that exceed their siblings, most first.
func (s *search) listCandidates() []candidate {
	var out []candidate
	nodes := map[string][]int{}
	for i, l := range s.m.lines {
		if s.set[i] != nil {
			continue
		}
		more := s.e.meanExcess(i, len(s.m.steps))
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
			more := s.e.meanExcess(i, len(s.m.steps))
			c.more += more
			if more >= leastCost*s.step {
				slow++
			}
		}
		if slow > 1 && 2*slow >= len(on) && len(nodes) > 1 {
			out = append(out, c)
		}
	}
	out = append(out, s.combineSlowest(out)...)
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.more, a.more), cmp.Compare(len(a.lines), len(b.lines)), cmp.Compare(a.lines[0], b.lines[0]))
	})
	return out
}

// combineSlowest returns the two slowest ranks, the three slowest and so on as candidates. If several ranks are equally
// slow, replacing only one of them gains nothing.
func (s *search) combineSlowest(single []candidate) []candidate {
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

// replayReplaced returns the mean step, ns, with the own times of further ranks replaced by their siblings' times.
func (s *search) replayReplaced(lines []int) float64 {
	s.cut--
	own := slices.Clone(s.set)
	for _, i := range lines {
		own[i] = s.m.siblingTimes(s.e, i)
		s.tried[i] = true
	}
	r, ok := s.m.run(own)
	if !ok {
		return s.now
	}
	return r.meanStep()
}

func (s *search) findAll(w *Waiting) {
	s.set, s.now, s.tried = make([][]int64, len(s.m.lines)), s.step, map[int]bool{}
	everyone := make([]int, len(s.m.lines))
	for i := range everyone {
		everyone[i] = i
	}
	w.EvenS = gpuprof.Number(max(0, s.step-s.replayReplaced(everyone)) * 1e-9)
	clear(s.tried)
	for len(w.Stragglers) < mostStragglers {
		best, gain := s.bestCandidate()
		if gain < leastCost*s.step {
			break
		}
		w.Stragglers = append(w.Stragglers, s.describeStraggler(w, best, gain))
		for _, i := range best.lines {
			s.set[i] = s.m.siblingTimes(s.e, i)
		}
		s.now -= gain
	}
	w.Tried = len(s.tried)
}

// bestCandidate returns the candidate that shortens the step most. Several ranks must gain clearly more than a single
// one.
func (s *search) bestCandidate() (best candidate, gain float64) {
	const more = 1.2
	for _, c := range s.listCandidates() {
		if s.cut <= 0 || c.more*more <= gain { // a replacement gains at most the removed time
			break
		}
		var ok bool
		if c.share, ok = s.isPersistent(c.lines); !ok {
			continue
		}
		if !s.slowTogether(&c) {
			continue
		}
		g := s.now - s.replayReplaced(c.lines)
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

// describeStraggler describes the found ranks for the report.
func (s *search) describeStraggler(w *Waiting, c candidate, gain float64) Straggler {
	wrong := math.Abs(float64(w.ReplayedS-w.StepS)) * 1e9
	cost := min(c.more, gain+wrong)
	out := Straggler{CostS: gpuprof.Number(cost * 1e-9), GainS: gpuprof.Number(gain * 1e-9), MoreS: gpuprof.Number(c.more * 1e-9), Node: c.node, Share: gpuprof.Number(cost / s.step)}
	for _, i := range c.lines {
		out.Ranks = append(out.Ranks, s.m.lines[i].rank)
	}
	slices.Sort(out.Ranks)
	out.LastIn = gpuprof.Number(c.share)
	out.Collective, out.WaitS = s.m.longestWait(c.lines)
	out.Cause, out.Evidence = s.explainCause(c.lines)
	out.Fix = "measure its GPU with gpuprof doctor --bench, and compare the rank's own analysis with another one's: gpuprof analyze --compare"
	if s.m.lines[c.lines[0]].onHost {
		out.Fix = "look at what else runs on that machine, and compare the rank's own analysis with another one's: gpuprof analyze --compare"
	}
	return out
}

// longestWait returns the collective at which other ranks wait longest for the given ones, and their median wait, s per
// step.
func (m *matchedJob) longestWait(lines []int) (string, gpuprof.Number) {
	type site struct {
		text  string
		total int64
		ranks int
	}
	sites := map[string]*site{}
	for i := range m.all {
		t := &m.all[i]
		at, _ := m.lastArrival(t)
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

// noteImbalance adds a note if all ranks of a family work longer than another family's: the work is uneven, and no rank
// is slow.
func (r *Report) noteImbalance(s *search) {
	families := s.m.siblingFamilies()
	if len(families) < 2 {
		return
	}
	slices.SortFunc(families, func(a, b []int) int { return cmp.Compare(medianOwn(s.owns, b), medianOwn(s.owns, a)) })
	longest, next := medianOwn(s.owns, families[0]), medianOwn(s.owns, families[len(families)-1])
	if next <= 0 || longest/next-1 < imbalanceFrom || len(families[0]) < 2 {
		return
	}
	var ranks []int
	for _, i := range families[0] {
		ranks = append(ranks, s.m.lines[i].rank)
	}
	r.Notes = append(r.Notes, fmt.Sprintf("imbalance: %s all work %s per step between collectives, the ranks with the least work %s: that is how the work is divided, and none of them is slow beside its siblings", RanksText(ranks), gpuprof.FormatSeconds(longest), gpuprof.FormatSeconds(next)))
}
