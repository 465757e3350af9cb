package nsys

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

func joinColumns(columns []string) string { return strings.Join(columns, ", ") }

func hasSuffixFold(s, suffix string) bool {
	return strings.HasSuffix(strings.ToUpper(s), suffix) && !strings.HasSuffix(strings.ToUpper(s), "_NO"+suffix)
}

func (r *reader) readCalls(ctx context.Context, table string, c columns) error {
	sel := []string{c.firstColumn("globalTid"), c.firstColumn("correlationId"), c.firstColumn("nameId", "name"), c.firstColumn("returnValue"), c.firstColumn("callchainId")}
	return r.readEvents(ctx, table, c, "", sel, func(start, end int64, v []any) {
		form := apiName
		if code := integerOrZero(v[3]); analyze.IsError(code) {
			form = failedName
			r.failed.Add(start, code, r.names.nameID(v[2], form), r.names.nameID(v[2], apiName))
		}
		h := model.Host{Start: start, End: r.clampEnd(start, end), Kind: model.API,
			Lane: r.laneOf(integerOrZero(v[0])), Corr: integerOrZero(v[1]), Name: r.names.nameID(v[2], form)}
		if id, ok := parseInteger(v[4]); ok {
			h.Stack = r.stacks.slotOf(id)
		}
		if !r.isSecondRow(&h) {
			r.addHost(h)
		}
	})
}

// isSecondRow reports whether a call is recorded already: some exports have two rows for a call, of two event classes
// and names (cudaMalloc, cudaMalloc_v3020), the inner one a few rows after the outer one.
func (r *reader) isSecondRow(h *model.Host) bool {
	const near = 16 // rows; calls of other threads may be between the two
	all := r.t.Host
	for i := len(all) - 1; i >= max(0, len(all)-near); i-- {
		if o := &all[i]; o.Corr == h.Corr && h.Corr != 0 {
			return o.Kind == model.API && o.Lane == h.Lane && o.Start <= h.Start && h.End <= o.End
		}
	}
	return false
}

// readRanges reads NVTX. Push/pop ranges nest within their thread, start/end ranges may cross, marks have no length.
func (r *reader) readRanges(ctx context.Context, table string, c columns) error {
	kinds := map[int64]string{}
	var ids []string
	for id, name := range r.eventTypes {
		switch name {
		case nvtxMark, nvtxPushPop, nvtxStartEnd:
			kinds[id] = name
			ids = append(ids, fmt.Sprint(id))
		}
	}
	slices.Sort(ids)
	where := ""
	if c.hasAll("eventType") {
		where = " WHERE " + c.firstColumn("eventType") + " IN (" + joinColumns(ids) + ")"
	}
	sel := []string{c.firstColumn("eventType"), c.firstColumn("globalTid"), c.firstColumn("text"), c.firstColumn("textId")}
	return r.readEvents(ctx, table, c, where, sel, func(start, end int64, v []any) {
		// Exports without eventType contain ranges only.
		kind := nvtxPushPop
		if id, ok := parseInteger(v[0]); ok {
			kind = kinds[id]
		}
		h := model.Host{Start: start, End: end, Lane: r.laneOf(integerOrZero(v[1])), Kind: model.Annotation}
		if s := textOf(v[2]); s != "" {
			h.Name, h.Seq, h.Kind = r.names.parseRange(s)
		} else {
			h.Name = r.names.nameID(v[3], rangeName)
		}
		switch kind {
		case nvtxMark:
			h.Kind, h.End = model.Instant, start
			r.addHost(h)
		case nvtxStartEnd:
			if h.End < start {
				h.End = start - 1 // open; closeRanges sets its end
			}
			r.loose = append(r.loose, h)
		default:
			if h.End < start {
				h.End = start - 1
			}
			r.addHost(h)
		}
	})
}

// readOverhead reads the profiler's work, which makes the trace inflated. The table also has CUDA's own work, such as
// loading a module, which does not.
func (r *reader) readOverhead(ctx context.Context, table string, c columns) error {
	own := map[int64]bool{}
	if e, ok := r.table[tOverheadTypes]; ok && e.hasAll("id", "label") {
		err := r.queryRows(ctx, "SELECT "+e.firstColumn("id")+", "+e.firstColumn("label")+" FROM "+r.quotedTable(tOverheadTypes), 2, func(v []any) {
			own[integerOrZero(v[0])] = strings.Contains(textOf(v[1]), "(CUDA)")
		})
		if err != nil {
			return err
		}
	}
	sel := []string{c.firstColumn("globalTid"), c.firstColumn("nameId"), c.firstColumn("overheadType")}
	return r.readEvents(ctx, table, c, "", sel, func(start, end int64, v []any) {
		r.t.Inflated = r.t.Inflated || !own[integerOrZero(v[2])]
		r.loose = append(r.loose, model.Host{Start: start, End: r.clampEnd(start, end), Kind: model.Overhead,
			Lane: r.laneOf(integerOrZero(v[0])), Name: r.names.nameID(v[1], plainName)})
	})
}

func (r *reader) readThreads(ctx context.Context, table string, c columns) error {
	return r.queryRows(ctx, "SELECT "+c.firstColumn("globalTid")+", "+c.firstColumn("nameId")+" FROM "+r.quotedTable(table), 2, func(v []any) {
		global, ok := parseInteger(v[0])
		if lane, seen := r.lanes[global]; ok && seen {
			r.threadNames[lane] = r.names.requestString(v[1])
		}
	})
}

// readProcesses reads process names, for threads without a name.
func (r *reader) readProcesses(ctx context.Context, table string, c columns) error {
	return r.queryRows(ctx, "SELECT "+c.firstColumn("globalPid")+", "+c.firstColumn("name")+" FROM "+r.quotedTable(table), 2, func(v []any) {
		pid, _ := pidTid(integerOrZero(v[0]))
		r.processNames[pid] = cleanName(textOf(v[1]))
	})
}

func (r *reader) nameLanes() {
	for i := range r.t.Lanes {
		l := &r.t.Lanes[i]
		if id, ok := r.threadNames[uint32(i)]; ok {
			l.Name = r.names.found[id]
		}
		if l.Name == "" {
			l.Name = r.processNames[l.Process]
		}
	}
}
