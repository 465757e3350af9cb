package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// part is the part that one rank has in a collective.
type part struct {
	line int32 // index into the lines
	call int32 // of that line
}

// together is one collective of all its ranks.
type together struct {
	parts []part
	took  int64 // ns from the last rank's arrival to the end: the least time that any rank was in it
	place int   // among the collectives of its group and step
	step  int64
}

// matched are the lines of a job with their collectives found in each other.
type matched struct {
	lines []*line
	all   []together
	steps []int64 // numbers of the steps that all ranks have
	notes []string
}

// match finds the collectives of each rank in those of the others: by group, step and
// number. Groups in which ranks did not ask for the same take no part, and are named.
func match(lines []*line) *matched {
	m := &matched{lines: lines, steps: common(lines)}
	for _, l := range lines {
		m.trim(l)
	}
	type key struct {
		group string
		step  int64
	}
	var order []key // of groups in steps
	var by [][]part // every call of each, rank by rank
	// A job of many ranks has millions of calls: lists that grow would take twice the memory,
	// and a look into a map for each call most of the time. The last one is mostly the right one.
	var count []int
	place := map[key]int{}
	each := func(do func(n int, p part)) {
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
				do(n, part{int32(i), int32(c)})
			}
		}
	}
	each(func(n int, _ part) { count[n]++ })
	by = make([][]part, len(order))
	for n := range by {
		by[n] = make([]part, 0, count[n])
	}
	each(func(n int, p part) { by[n] = append(by[n], p) })
	wrong := map[string]string{}
	for n, k := range order {
		if why := m.unlike(by[n]); why != "" && wrong[k.group] == "" {
			wrong[k.group] = fmt.Sprintf("in step %d %s", k.step, why)
		}
	}
	for n, k := range order {
		if wrong[k.group] == "" {
			m.join(by[n], k.step)
		}
	}
	names := make([]string, 0, len(wrong))
	for g := range wrong {
		names = append(names, g)
	}
	slices.Sort(names)
	for _, g := range names {
		m.notes = append(m.notes, fmt.Sprintf("the collectives of %s differ between its ranks, so nothing is claimed of them: %s", groupText(g), wrong[g]))
	}
	return m
}

// jobs are the jobs that the lines are of, as far as their launchers told them.
func (m *matched) jobs() []string {
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

// common are the numbers of the steps that every rank has.
func common(lines []*line) []int64 {
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

// trim leaves out the steps of a rank that not all ranks have: their collectives have no
// partner, and their time is no part of the replay.
func (m *matched) trim(l *line) {
	keeps := func(step int32) bool { return slices.Contains(m.steps, l.steps[step]) }
	if len(m.steps) == len(l.steps) {
		return
	}
	calls := make([]int32, len(l.calls)) // the new place plus one
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
		if o.kind == ends {
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

// unlike says how the calls of a group in one step differ between its ranks; "" where
// they do not.
func (m *matched) unlike(parts []part) string {
	var first []part
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

func (m *matched) callOf(p part) *rankCall { return &m.lines[p.line].calls[p.call] }

// callText names a collective: "all-reduce of 4.2 MB".
func (l *line) callText(c *rankCall) string {
	if c.bytes == 0 {
		return l.kindOf(c)
	}
	return l.kindOf(c) + " of " + gpuprof.FormatBytes(float64(c.bytes))
}

// join makes one collective of the calls that ranks have at the same place.
func (m *matched) join(parts []part, step int64) {
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
			m.all = append(m.all, together{parts: make([]part, 0, ranks), place: place, step: step, took: m.callOf(p).dur})
		}
		t := &m.all[base+place]
		t.parts, t.took = append(t.parts, p), min(t.took, m.callOf(p).dur)
		m.callOf(p).all = int32(base + place)
		place++
	}
}

// last is the part of a collective whose rank came last, and how much later it came than
// the one before it. All ranks leave together, so it was in it for the least time.
func (m *matched) last(t *together) (at int, late int64) {
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
