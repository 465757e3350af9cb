package memsnap

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/gpuprof/gpuprof/internal/stats"
)

const mostColumns = 400

// newDevice replays one device.
func newDevice(ctx context.Context, r *Replay, o Options) (*Device, error) {
	d := &Device{ID: r.Device, Events: r.Events(), Complete: r.Complete, Moved: r.Moved, OOMs: []Outage{}, Steps: []Step{}, Growth: []Growth{}, WhatIf: []WhatIf{}, Replay: r}
	a := newAccount(r)
	d.Inferred = a.kinds.inferred
	d.account, d.kinds = a, a.kinds.classifyAll()
	tops := d.findLevels(r)
	d.sumCategories(r, d.kinds, tops.columns)
	d.Peak = a.momentAt(tops.peak, tops.level, tops.micros)
	for _, o := range tops.ooms {
		d.OOMs = append(d.OOMs, r.newOutage(a.momentAt(o.event, o.level, o.micros)))
	}
	d.End = a.momentAt(r.Events()-1, r.End(), tops.last)
	d.Rise = d.End.Requested - r.Start.Requested
	d.Growth = r.findGrowth(a)
	b := &budget{ctx: ctx, left: mostWork}
	var checked *model
	var err error
	d.allowed = o.Allowed
	if d.Check, checked, err = r.checkModel(b, a.traits, o.Allowed); err == nil && d.Check.Passed {
		var whole bool
		d.trims = len(checked.trims)
		if d.WhatIf, whole, err = r.replaySettings(b, checked, d, o); !whole {
			d.Check = Check{FailedAt: -1, Reason: reasonWork}
		}
	}
	return d, err
}

// topEvent is a moment to analyse.
type topEvent struct {
	event  int
	level  Level
	micros int64
}

// topEvents has the moments found in one pass over the levels after each event (see Level).
type topEvents struct {
	peak    int
	level   Level
	micros  int64
	last    int64 // time of the last event
	ooms    []topEvent
	columns []int // the event with each column's peak
}

func (d *Device) findLevels(r *Replay) *topEvents {
	t := &topEvents{peak: -1, level: r.Start}
	n := r.Events()
	cols := min(n, mostColumns)
	rounded, round := r.startRounded(), r.S.Settings.newRounder()
	d.PeakReserved, d.PeakRounded = r.Start.Reserved, rounded
	for _, p := range r.phases {
		d.Steps = append(d.Steps, Step{Name: p.Name, Last: int(p.Last)})
	}
	s := &d.Series
	*s = Series{Event: []int{}, TimeUS: []int64{}, Requested: []int64{}, Least: []int64{}, Reserved: []int64{}, Kinds: []KindLine{}}
	step, reserved := 0, r.Start.Reserved
	low := r.Start.Requested
	r.eachEvent(func(event int, act Action, row *allocation, l Level, micros int64) {
		d.countCall(act)
		low = min(low, l.Requested)
		if l.Requested > t.level.Requested {
			t.peak, t.level, t.micros = event, l, micros
		}
		d.PeakReserved = max(d.PeakReserved, l.Reserved)
		d.mapped, reserved = d.mapped+max(0, l.Reserved-reserved), l.Reserved
		switch act {
		case Alloc:
			rounded += int64(round(row.size))
			d.PeakRounded = max(d.PeakRounded, rounded)
		case FreeCompleted:
			rounded -= int64(round(row.size))
		case OOM:
			if len(t.ooms) == mostOOMs {
				d.MoreOOMs++
			} else {
				t.ooms = append(t.ooms, topEvent{event, l, micros})
			}
		}
		for step < len(d.Steps) && event >= int(r.phases[step].Last) {
			step++
		}
		if step < len(d.Steps) {
			d.Steps[step].Peak = max(d.Steps[step].Peak, l.Requested)
			d.Steps[step].End = l.Requested
		}
		s.add(event*cols/n, event, l, micros)
		t.last = micros
	})
	t.columns = s.Event
	d.Still = n > 0 && d.SegmentsReturned+d.SegmentsRequested == 0 && (t.level.Requested-low)*leastMoved <= t.level.Requested
	return t
}

// leastMoved: events that change tensors by at most 1/leastMoved show no memory that comes or goes.
const leastMoved = 1000

// countCall counts driver calls.
func (d *Device) countCall(act Action) {
	switch {
	case act == SegmentFree || act == SegmentUnmap:
		d.SegmentsReturned++
	case act.isSegmentCall():
		d.SegmentsRequested++
	}
}

// add adds the memory level after an event to the last column, or starts a new column.
func (s *Series) add(column, event int, l Level, micros int64) {
	if column == len(s.Event) {
		s.Event, s.TimeUS = append(s.Event, event), append(s.TimeUS, micros)
		s.Requested, s.Least, s.Reserved = append(s.Requested, l.Requested), append(s.Least, l.Requested), append(s.Reserved, l.Reserved)
		return
	}
	k := len(s.Event) - 1
	if l.Requested > s.Requested[k] {
		s.Event[k], s.TimeUS[k], s.Requested[k] = event, micros, l.Requested
	}
	s.Least[k] = min(s.Least[k], l.Requested)
	s.Reserved[k] = max(s.Reserved[k], l.Reserved)
}

// startRounded returns the memory before the first event in the allocator's rounded sizes, bytes.
func (r *Replay) startRounded() (bytes int64) {
	r.eachAlloc(func(a *allocation) {
		if a.born == never {
			bytes += int64(r.S.Settings.roundSize(a.size))
		}
	})
	return bytes
}

func (d *Device) sumCategories(r *Replay, kinds []Category, columns []int) {
	var now [categories]int64
	r.eachAlloc(func(a *allocation) {
		if a.born == never {
			now[d.account.kinds.classify(a)] += int64(a.size)
		}
	})
	lines := make([][]int64, categories)
	seen := [categories]bool{}
	k := 0
	for i := range r.Events() {
		act, row := r.eventRow(i)
		a := r.S.allocs.get(r.part.allocs + row)
		switch kind := kinds[row]; act {
		case Alloc:
			now[kind] += int64(a.size)
		case FreeCompleted:
			now[kind] -= int64(a.size)
		}
		for ; k < len(columns) && columns[k] == i; k++ {
			for c := range lines {
				lines[c] = append(lines[c], now[c])
				seen[c] = seen[c] || now[c] != 0
			}
		}
	}
	for _, c := range Categories() {
		if seen[c] {
			d.Series.Kinds = append(d.Series.Kinds, KindLine{Category: c.String(), Bytes: lines[c]})
		}
	}
}

// Causes of an out-of-memory error.
const (
	CauseLive       = "live"
	CauseFragmented = "fragmented"
	CauseLimit      = "limit"
)

// newOutage returns the out-of-memory error at a moment, with its cause.
func (r *Replay) newOutage(m Moment) Outage {
	_, row := r.eventAt(m.Event)
	o := Outage{Moment: m, Request: int64(row.size), DeviceFree: int64(row.addr)}
	free := m.Reserved - m.Rounded
	switch {
	case o.Request > o.DeviceFree+free:
		o.Cause = CauseLive
	case r.S.Settings.segmentSize(o.Request) > o.DeviceFree:
		o.Cause = CauseFragmented
	default:
		o.Cause = CauseLimit
	}
	return o
}

// Growth needs at least leastSteps steps, and a rise in at least risingPart of them.
const (
	leastSteps = 4
	risingPart = 0.8
	mostSteps  = 1 << 12
	mostGrowth = 1 << 24 // limits lines times steps; programs have hundreds of lines
)

// findGrowth finds lines that hold more after each step. It ignores the first step, which allocates persistent memory.
func (r *Replay) findGrowth(a *momentBuilder) []Growth {
	ends := r.stepEnds()
	if len(ends) < leastSteps || len(ends) > mostSteps {
		return []Growth{}
	}
	now, series := map[string]int64{}, map[string][]int64{}
	k := 0
	work := 0
	visit := func(event int) {
		for ; k < len(ends) && ends[k] <= event; k++ {
			if work += len(now); work > mostGrowth {
				continue
			}
			for where, bytes := range now {
				if v := series[where]; v != nil || bytes != 0 {
					series[where] = append(v, make([]int64, k-len(v))...)
					series[where] = append(series[where], bytes)
				}
			}
		}
	}
	for i := range r.Events() {
		visit(i)
		act, row := r.eventAt(i)
		if row.born == never {
			continue
		}
		switch act {
		case Alloc:
			now[a.traitsOf(row).site] += int64(row.size)
		case FreeCompleted:
			now[a.traitsOf(row).site] -= int64(row.size)
		}
	}
	visit(r.Events())
	if work > mostGrowth {
		return []Growth{}
	}
	out := []Growth{}
	for where, v := range series {
		if g, ok := measureGrowth(where, v); ok {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(x, y Growth) int {
		return cmp.Or(cmp.Compare(y.Last-y.First, x.Last-x.First), cmp.Compare(x.Where, y.Where))
	})
	return out
}

func (r *Replay) stepEnds() []int {
	var out []int
	for i, p := range r.phases {
		if i > 0 {
			out = append(out, int(p.Last))
		}
	}
	return out
}

// measureGrowth returns the growth of a line over the steps. ok is false if the line ever shrinks, or grows in fewer
// than risingPart of the steps.
func measureGrowth(where string, v []int64) (Growth, bool) {
	if len(v) < leastSteps {
		return Growth{}, false
	}
	up := 0
	var slopes []float64
	for i := 1; i < len(v); i++ {
		if v[i] < v[i-1] {
			return Growth{}, false
		}
		if v[i] > v[i-1] {
			up++
		}
		slopes = append(slopes, float64(v[i]-v[i-1]))
	}
	if float64(up) < risingPart*float64(len(v)-1) {
		return Growth{}, false
	}
	sort.Float64s(slopes)
	return Growth{Where: where, PerStep: stats.Median(slopes), First: v[0], Last: v[len(v)-1], Steps: len(v)}, true
}
