package page

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// rowsOf returns the rows of one input: steps, host ranges, host calls, each device's idle states and streams, then a
// row per finding's claims. Times are relative to the start of the recording.
func rowsOf(x *analyze.Index, claims []claimed, prefix string) []boxRow {
	origin := x.Span.Start
	var out []boxRow
	add := func(name, sums string, r *rowBuilder) {
		if row := r.buildRow(prefix+name, sums); len(row.boxes) > 0 {
			out = append(out, row)
		}
	}
	var steps rowBuilder
	for _, s := range x.Steps {
		steps.pushMerged(0, box{from: s.Host.Start - origin, to: s.Host.End - origin, kind: kindStep, name: s.Name, count: 1})
	}
	add("steps", "", &steps)
	ranges, calls := hostRows(x, origin)
	add("host", "", ranges)
	add("host calls", "", calls)
	for _, d := range x.Devices {
		device := fmt.Sprintf("device %d", x.T.Devices[d.Device].ID)
		add(device+" idle", "idle", idleRow(d, origin))
		streams := streamRows(x, d, origin)
		for _, s := range slices.Sorted(maps.Keys(streams)) {
			add(fmt.Sprintf("%s stream %d", device, s), "stream", streams[s])
		}
	}
	for _, f := range claims {
		var r rowBuilder
		for _, s := range f.spans {
			r.pushMerged(0, box{from: s.Start - origin, to: s.End - origin, kind: kindClaim, name: f.rule, count: 1})
		}
		add(f.rule, "", &r)
	}
	return out
}

// hostRows returns the main thread's outermost operators and ranges, and its driver calls.
func hostRows(x *analyze.Index, origin int64) (ranges, calls *rowBuilder) {
	ranges, calls = &rowBuilder{}, &rowBuilder{}
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if h.Lane != x.Main || h.End <= h.Start {
			continue
		}
		b := box{from: h.Start - origin, to: h.End - origin, name: x.T.Name(h.Name), count: 1, kind: kindHost, host: int32(i) + 1}
		switch h.Kind {
		case model.API:
			if x.Call(int32(i)) == model.CallSync {
				b.kind = kindWait
			}
			calls.add(b)
		case model.Op, model.Annotation:
			if isOutermost(x, int32(i)) {
				ranges.add(b)
			}
		}
	}
	return ranges, calls
}

// isOutermost reports whether a host event is inside no operator and no range.
func isOutermost(x *analyze.Index, host int32) bool {
	return x.Up(host, func(o *model.Host) bool { return o.Kind == model.Op || o.Kind == model.Annotation }) < 0
}

// drawsHost reports whether hostRows has anything to draw.
func drawsHost(x *analyze.Index) bool {
	return slices.ContainsFunc(x.T.Host, func(h model.Host) bool {
		return h.Lane == x.Main && h.End > h.Start && (h.Kind == model.API || h.Kind == model.Op || h.Kind == model.Annotation)
	})
}

// idleRow returns the idle states of a device in order of time; the states never overlap.
func idleRow(d *analyze.DeviceTime, origin int64) *rowBuilder {
	states := []struct {
		spans model.Spans
		kind  int
		name  string
	}{{d.Starved, kindStarved, "starved"}, {d.Queued, kindQueued, "queued"}, {d.Unknown, kindUnknown, "unknown"}}
	r := &rowBuilder{}
	for {
		next := -1
		for i, s := range states {
			if len(s.spans) > 0 && (next < 0 || s.spans[0].Start < states[next].spans[0].Start) {
				next = i
			}
		}
		if next < 0 {
			return r
		}
		s := &states[next]
		r.add(box{from: s.spans[0].Start - origin, to: s.spans[0].End - origin, kind: s.kind, name: s.name, count: 1})
		s.spans = s.spans[1:]
	}
}

// streamRows returns the operations of a device, by stream.
func streamRows(x *analyze.Index, d *analyze.DeviceTime, origin int64) map[int64]*rowBuilder {
	out, kinds := map[int64]*rowBuilder{}, kindsOfClasses()
	for _, g := range d.Ops {
		e := &x.T.GPU[g]
		kind := kinds[x.Class(g)]
		if e.Kind == model.Kernel {
			kind++
		}
		r := out[e.Stream]
		if r == nil {
			r = &rowBuilder{}
			out[e.Stream] = r
		}
		r.add(box{from: e.Start - origin, to: e.End - origin, kind: kind, name: x.T.Name(e.Name), count: 1, host: e.Launch + 1})
	}
	return out
}
