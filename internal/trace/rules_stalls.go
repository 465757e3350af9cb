package trace

import "slices"

// stall is a call in which a host thread waits for a device: a synchronise
// call, or the call behind a copy to the host that cannot return before it is
// done.
type stall struct {
	host int32
	copy int32 // the copy (index into T.GPU), -1 for a synchronise call
	// owner is the operator that asked for it, if it has a rule of its own: a
	// read of a scalar (item) or an operator whose shape depends on data (shape).
	owner int32
	by    stallOwner
}

type stallOwner uint8

const (
	ownedByNobody stallOwner = iota
	ownedByItem
	ownedByShape
)

// findStalls lists the waits of the steady part, by host event. The
// synchronisation with which the profiler closes a recording is not among
// them. A wait has one owner, the most telling one: unique() that reads a
// scalar inside is a data-dependent shape, not an item() of the program.
func (c *ruleContext) findStalls() []stall {
	var out []stall
	add := func(h, g int32) {
		s := stall{host: h, copy: g, owner: -1}
		if o := c.within(h, markShape); o >= 0 {
			s.owner, s.by = o, ownedByShape
		} else if o := c.within(h, markItem); o >= 0 {
			s.owner, s.by = o, ownedByItem
		}
		out = append(out, s)
	}
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if h.Kind == API && c.is(h.Name, markSync) && int32(i) != c.x.Trailing && c.x.InSteady(h.Start) {
			add(int32(i), -1)
		}
	}
	for _, d := range c.devices {
		for _, g := range d.Ops {
			op := &c.t.GPU[g]
			if op.Kind == Memcpy && op.Dir == D2H && op.Launch >= 0 && c.x.InSteady(c.t.Host[op.Launch].Start) {
				add(op.Launch, g)
			}
		}
	}
	slices.SortFunc(out, func(a, b stall) int {
		if a.host != b.host {
			return int(a.host) - int(b.host)
		}
		return int(a.copy) - int(b.copy)
	})
	return out
}

// findLaunches collects when each process starts work on a device.
func (c *ruleContext) findLaunches() {
	c.launches = map[int32][]int64{}
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if h.Kind == API && c.is(h.Name, markLaunch) {
			p := c.t.processOf(h.Lane)
			c.launches[p] = append(c.launches[p], h.Start)
		}
	}
	for p := range c.launches {
		slices.Sort(c.launches[p])
	}
}

// after is the time from the end of a wait to the next launch of its process:
// what the host needs to give the device work again, empty when it never does.
func (c *ruleContext) after(h int32) Span {
	e := &c.t.Host[h]
	v := c.launches[c.t.processOf(e.Lane)]
	i, _ := slices.BinarySearch(v, e.End)
	if i == len(v) {
		return Span{e.End, e.End}
	}
	return Span{e.End, v[i]}
}

// restart is a claimant's activity: for every wait that ok picks, the time
// from its end to the next launch. The wait itself overlaps work the device
// has; it is what comes after that leaves it idle. Waits of one owner count
// from the end of the last of them.
func (c *ruleContext) restart(ok func(*stall) bool) func(*ruleDevice) Spans {
	return func(d *ruleDevice) Spans {
		var v []Span
		for i := range c.stalls {
			s := &c.stalls[i]
			if !ok(s) || !d.on(c, c.t.Host[s.host].Lane) {
				continue
			}
			w := c.after(s.host)
			if n := len(v); n > 0 && s.owner >= 0 && i > 0 && c.stalls[i-1].owner == s.owner && ok(&c.stalls[i-1]) {
				v[n-1] = Span{max(v[n-1].Start, w.Start), max(v[n-1].End, w.End)}
				continue
			}
			v = append(v, w)
		}
		return UnionOf(v)
	}
}

// hostTime is the time of the calls of the waits that ok picks, each call once.
func (c *ruleContext) hostTime(ok func(*stall) bool) (calls int, ns int64) {
	last := int32(-1)
	for i := range c.stalls {
		if s := &c.stalls[i]; ok(s) && s.host != last {
			calls, ns, last = calls+1, ns+c.t.Host[s.host].Dur(), s.host
		}
	}
	return calls, ns
}
