package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// callRef refers to one rank's call of a collective.
type callRef struct {
	line int32 // index into matchedJob.lines
	call int32 // index into that line's calls
}

// collective is one collective operation with the calls of all its ranks.
type collective struct {
	parts []callRef
	took  int64 // duration after the last arrival, ns: the shortest duration of any rank
	place int   // position among the collectives of its group and step
	step  int64
}

// matchedJob holds the timelines of a job's ranks, with their collectives matched between ranks.
type matchedJob struct {
	lines []*timeline
	all   []collective
	steps []int64 // numbers of the steps that all ranks have
	notes []string
}

// matchCollectives matches collectives by group, step and position. It leaves out groups whose ranks make different
// calls.
func matchCollectives(lines []*timeline) *matchedJob {
	m := &matchedJob{lines: lines, steps: commonSteps(lines)}
	for _, l := range lines {
		m.trimSteps(l)
	}
	type key struct {
		group string
		step  int64
	}
	var order []key    // groups by step, in order of appearance
	var by [][]callRef // the calls of each group, rank by rank
	// A job of many ranks has millions of calls. Lists are allocated at their final size, because growing them would
	// take twice the memory. The key of the previous call mostly fits, which saves map lookups.
	var count []int
	place := map[key]int{}
	each := func(do func(n int, p callRef)) {
		for i, l := range lines {
			last, n := key{}, -1
			for c := range l.calls {
				if k := (key{l.groupOf(&l.calls[c]), l.steps[l.calls[c].step]}); n < 0 || k != last {
					at, ok := place[k]
					if !ok {
						at = len(order)
						place[k] = at
						order, count = append(order, k), append(count, 0)
					}
					last, n = k, at
				}
				do(n, callRef{int32(i), int32(c)})
			}
		}
	}
	each(func(n int, _ callRef) { count[n]++ })
	by = make([][]callRef, len(order))
	for n := range by {
		by[n] = make([]callRef, 0, count[n])
	}
	each(func(n int, p callRef) { by[n] = append(by[n], p) })
	wrong := map[string]string{}
	for n, k := range order {
		if why := m.findMismatch(by[n]); why != "" && wrong[k.group] == "" {
			wrong[k.group] = fmt.Sprintf("in step %d %s", k.step, why)
		}
	}
	for n, k := range order {
		if wrong[k.group] == "" {
			m.joinCalls(by[n], k.step)
		}
	}
	for _, g := range slices.Sorted(maps.Keys(wrong)) {
		m.notes = append(m.notes, fmt.Sprintf("the collectives of %s differ between its ranks, so nothing is claimed of them: %s", groupText(g), wrong[g]))
	}
	return m
}

// jobIDs returns the distinct jobs of the timelines, except unknown ones.
func (m *matchedJob) jobIDs() []string {
	var out []string
	for _, l := range m.lines {
		if l.job != "" && !slices.Contains(out, l.job) {
			out = append(out, l.job)
		}
	}
	return out
}

func groupText(g string) string {
	if g == "" {
		return "the job"
	}
	return "the group " + g
}

func commonSteps(lines []*timeline) []int64 {
	count := map[int64]int{}
	for _, l := range lines {
		for _, s := range l.steps {
			count[s]++
		}
	}
	var out []int64
	for s, n := range count {
		if n == len(lines) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

// trimSteps drops the steps of a rank that other ranks lack: their collectives have no counterpart.
func (m *matchedJob) trimSteps(l *timeline) {
	keeps := func(step int32) bool { return slices.Contains(m.steps, l.steps[step]) }
	if len(m.steps) == len(l.steps) {
		return
	}
	calls := make([]int32, len(l.calls)) // new index of each call plus one
	var kept []rankCall
	for i, c := range l.calls {
		if c.after > 0 {
			c.after = calls[c.after-1]
		}
		if keeps(c.step) {
			kept = append(kept, c)
			calls[i] = int32(len(kept))
		}
	}
	var ops []op
	step, carry := int32(0), int64(0)
	for _, o := range l.ops {
		if !keeps(min(step, int32(len(l.steps)-1))) {
			o.own, o.held = 0, 0
		}
		o.own, carry = o.own+carry, 0
		var there bool
		if o.kind == opStepEnd {
			step = o.call + 1
			there = keeps(o.call)
		} else {
			o.call = calls[o.call] - 1
			there = o.call >= 0
		}
		if there {
			ops = append(ops, o)
		} else {
			carry = o.own
		}
	}
	l.calls, l.ops = kept, ops
}

// findMismatch describes how the ranks' calls of a group in one step differ; "" if they agree.
func (m *matchedJob) findMismatch(parts []callRef) string {
	var first []callRef
	for from := 0; from < len(parts); {
		to := from
		for to < len(parts) && parts[to].line == parts[from].line {
			to++
		}
		own := parts[from:to]
		from = to
		if first == nil {
			first = own
			continue
		}
		for i := range min(len(own), len(first)) {
			a, b := m.callOf(first[i]), m.callOf(own[i])
			la, lb := m.lines[first[i].line], m.lines[own[i].line]
			if la.kindOf(a) != lb.kindOf(b) || a.seq != b.seq || a.bytes > 0 && b.bytes > 0 && a.bytes != b.bytes && la.kindOf(a) == "all-reduce" {
				return fmt.Sprintf("rank %d asks for %s as number %d, rank %d for %s", la.rank, la.callText(a), i+1, lb.rank, lb.callText(b))
			}
		}
		if len(own) != len(first) {
			return fmt.Sprintf("rank %d asks for %d of them, rank %d for %d", m.lines[first[0].line].rank, len(first), m.lines[own[0].line].rank, len(own))
		}
	}
	return ""
}

func (m *matchedJob) callOf(p callRef) *rankCall { return &m.lines[p.line].calls[p.call] }

// callText names a collective: "all-reduce of 4.2 MB".
func (l *timeline) callText(c *rankCall) string {
	if c.bytes == 0 {
		return l.kindOf(c)
	}
	return l.kindOf(c) + " of " + gpuprof.FormatBytes(float64(c.bytes))
}

// joinCalls joins the ranks' calls at the same position into collectives.
func (m *matchedJob) joinCalls(parts []callRef, step int64) {
	base := len(m.all)
	place, ranks := 0, 0
	for i, p := range parts {
		if i == 0 || parts[i-1].line != p.line {
			ranks++
		}
	}
	for i, p := range parts {
		if i == 0 || parts[i-1].line != p.line {
			place = 0
		}
		if base+place == len(m.all) {
			m.all = append(m.all, collective{parts: make([]callRef, 0, ranks), place: place, step: step, took: m.callOf(p).dur})
		}
		t := &m.all[base+place]
		t.parts, t.took = append(t.parts, p), min(t.took, m.callOf(p).dur)
		m.callOf(p).all = int32(base + place)
		place++
	}
}

// lastArrival returns the index in t.parts of the rank that arrived last, and its delay after the second last, ns. All
// ranks leave a collective together, so the last rank has the shortest duration.
func (m *matchedJob) lastArrival(t *collective) (at int, late int64) {
	if len(t.parts) < 2 {
		return -1, 0
	}
	durs := make([]int64, len(t.parts))
	for i, p := range t.parts {
		durs[i] = m.callOf(p).dur
	}
	at = slices.IndexFunc(durs, func(d int64) bool { return d == t.took })
	slices.SortFunc(durs, cmp.Compare[int64])
	return at, durs[1] - durs[0]
}
