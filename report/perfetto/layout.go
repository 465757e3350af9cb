package perfetto

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// piece is a span of the example step in ns from the file's beginning.
type piece struct {
	gpuprof.Span
	start, end int64
	corr       int64  // launch and what it launched share one; 0 none
	launches   *piece // of a device piece: the host piece that launched it
	tid        int
	whole      bool // not a span but a whole step
}

func (p *piece) span() (int64, int64) { return p.start, p.end }

// flows numbers launches and arrows over all runs of a file.
type flows struct{ corr, arrow int64 }

// layout is a run's pieces by where they go.
type layout struct {
	host    []*piece
	streams map[string][]*piece // by lane
	marked  map[string][]*piece
	steps   []*piece
	onHost  bool // the steps' ranges belong on the host's row
	end     int64
}

// arrange turns seconds into ns of the file, the first piece at base.
func arrange(r *gpuprof.Run, base int64) *layout {
	l := &layout{streams: map[string][]*piece{}, marked: map[string][]*piece{}, end: base}
	var all []*piece
	first := int64(0) // the step's begin, unless something began before it
	for _, s := range r.ExampleStep {
		start, ok1 := nanos(s.StartS)
		dur, ok2 := nanos(s.DurS)
		if !ok1 || !ok2 || dur < 0 {
			continue
		}
		all = append(all, &piece{Span: s, start: start, end: start + dur})
		first = min(first, start)
	}
	for _, p := range all {
		p.start, p.end = p.start-first+base, p.end-first+base
		l.end = max(l.end, p.end)
		lane := view.Clean(p.Lane, 60)
		switch {
		case p.Kernel != "":
			l.marked[lane] = append(l.marked[lane], p)
		case lane == "host":
			l.host = append(l.host, p)
		default:
			l.streams[lane] = append(l.streams[lane], p)
		}
	}
	l.findSteps()
	return l
}

// findSteps makes the steps' ranges: from a step's first to its last span on
// the host where that keeps the steps apart, else the same on the stream that
// worked longest (a loader that works ahead is in two steps at once). The
// example step itself comes before anything: with a host that runs far ahead
// only its neighbours are on the host's row.
func (l *layout) findSteps() {
	type rank struct {
		example, host bool
		total         float64
	}
	var best rank
	better := func(a rank) bool {
		switch {
		case l.steps == nil:
			return true
		case a.example != best.example:
			return a.example
		case a.host != best.host:
			return a.host
		}
		return a.total > best.total
	}
	consider := func(v []*piece, host bool) {
		steps := envelopes(v)
		if len(steps) == 0 {
			return
		}
		r := rank{host: host, example: slices.ContainsFunc(steps, func(p *piece) bool { return p.Step == 0 })}
		for _, p := range v {
			r.total += float64(p.end - p.start)
		}
		if better(r) {
			l.steps, l.onHost, best = steps, host, r
		}
	}
	consider(l.host, true)
	for _, lane := range slices.Sorted(maps.Keys(l.streams)) {
		consider(l.streams[lane], false)
	}
}

// envelopes are the steps of some spans, nil when they overlap.
func envelopes(v []*piece) []*piece {
	by := map[int]*piece{}
	for _, p := range v {
		if s := by[p.Step]; s != nil {
			s.start, s.end = min(s.start, p.start), max(s.end, p.end)
		} else {
			by[p.Step] = &piece{Span: gpuprof.Span{Step: p.Step}, start: p.start, end: p.end, whole: true}
		}
	}
	out := slices.Collect(maps.Values(by))
	slices.SortFunc(out, func(a, b *piece) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.Step, b.Step)) })
	for i := 1; i < len(out); i++ {
		if out[i].start < out[i-1].end {
			return nil
		}
	}
	return out
}

// link joins host and device pieces of one stage of one step: both come from
// the same span of the recording. Where one list is shorter its missing ones
// fell out of the window: host pieces at its beginning, device pieces at its
// end.
func (l *layout) link(f *flows) {
	type key struct {
		stage string
		step  int
	}
	host, device := map[key][]*piece{}, map[key][]*piece{}
	for _, p := range l.host {
		host[key{p.Stage, p.Step}] = append(host[key{p.Stage, p.Step}], p)
	}
	var keys []key
	for _, lane := range slices.Sorted(maps.Keys(l.streams)) {
		for _, p := range l.streams[lane] {
			k := key{p.Stage, p.Step}
			if device[k] == nil {
				keys = append(keys, k)
			}
			device[k] = append(device[k], p)
		}
	}
	byStart := func(a, b *piece) int { return cmp.Compare(a.start, b.start) }
	for _, k := range keys {
		h, d := host[k], device[k]
		slices.SortStableFunc(h, byStart)
		slices.SortStableFunc(d, byStart)
		d = d[max(0, len(d)-len(h)):]
		for i, p := range d {
			f.corr++
			p.corr, h[i].corr, p.launches = f.corr, f.corr, h[i]
		}
	}
}
