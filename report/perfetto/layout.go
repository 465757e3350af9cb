package perfetto

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// piece is a span of the example step. Its times are ns from the file's start.
type piece struct {
	gpuprof.Span
	start, end int64
	corr       int64  // correlation ID shared with the launch; 0: none
	launches   *piece // for a device piece, the host piece that launched it
	tid        int
}

func (p *piece) span() (int64, int64) { return p.start, p.end }

// flows numbers launches and arrows over all runs of a file.
type flows struct{ corr, arrow int64 }

// layout has a run's pieces by row.
type layout struct {
	host    []*piece
	streams map[string][]*piece        // by lane
	marked  map[string][]*piece        // kernels of the marked pass, by lane
	step    struct{ start, end int64 } // the example step, from its begin to the end of its last span
	end     int64
}

// newLayout converts the spans' times to ns from the file's start. The first span starts at base.
func newLayout(r *gpuprof.Run, base int64) *layout {
	l := &layout{streams: map[string][]*piece{}, marked: map[string][]*piece{}, end: base}
	var all []*piece
	first := int64(0) // begin of the step, or of an earlier span
	for _, s := range r.ExampleStep {
		start, ok1 := secondsToNS(s.StartS)
		dur, ok2 := secondsToNS(s.DurS)
		if !ok1 || !ok2 || dur < 0 {
			continue
		}
		all = append(all, &piece{Span: s, start: start, end: start + dur})
		first = min(first, start)
	}
	l.step.start = base - first
	for _, p := range all {
		p.start, p.end = p.start-first+base, p.end-first+base
		l.end = max(l.end, p.end)
		if p.Step == 0 && p.Kernel == "" {
			l.step.end = max(l.step.end, p.end)
		}
		lane := view.Cut(p.Lane, 60)
		switch {
		case p.Kernel != "":
			l.marked[lane] = append(l.marked[lane], p)
		case lane == "host":
			l.host = append(l.host, p)
		default:
			l.streams[lane] = append(l.streams[lane], p)
		}
	}
	return l
}

// linkLaunches pairs, in order, the host pieces and the device pieces of a stage and step: both halves of a pair come
// from one recorded span. An unmatched device piece was launched before the recorded window; the work of an unmatched
// host piece ran after the window.
func (l *layout) linkLaunches(f *flows) {
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
