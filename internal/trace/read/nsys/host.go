package nsys

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

func join(columns []string) string { return strings.Join(columns, ", ") }

func hasSuffixFold(s, suffix string) bool {
	return strings.HasSuffix(strings.ToUpper(s), suffix) && !strings.HasSuffix(strings.ToUpper(s), "_NO"+suffix)
}

// calls reads calls of the CUDA runtime and driver.
func (r *reader) calls(ctx context.Context, table string, c columns) error {
	failed := 0
	sel := []string{c.column("globalTid"), c.column("correlationId"), c.column("nameId", "name"), c.column("returnValue"), c.column("callchainId")}
	err := r.events(ctx, table, c, "", sel, func(start, end int64, v []any) {
		h := model.Host{Start: start, End: r.span(start, end), Kind: model.API,
			Lane: r.lane(whole(v[0])), Corr: whole(v[1]), Name: r.names.of(v[2], apiName)}
		// cudaErrorNotReady (600) is how a query says "not yet".
		if code := whole(v[3]); code != 0 && code != 600 {
			failed++
		}
		if id, ok := integer(v[4]); ok {
			h.Stack = r.stacks.of(id)
		}
		r.addHost(h)
	})
	if failed > 0 {
		r.t.Warn("failed-calls", fmt.Sprintf("%d CUDA calls returned an error", failed), "")
	}
	return err
}

// ranges reads NVTX: push/pop ranges nest within their thread, start/end
// ranges need not, marks have no length.
func (r *reader) ranges(ctx context.Context, table string, c columns) error {
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
	if c.has("eventType") {
		where = " WHERE " + c.column("eventType") + " IN (" + join(ids) + ")"
	}
	sel := []string{c.column("eventType"), c.column("globalTid"), c.column("text"), c.column("textId")}
	return r.events(ctx, table, c, where, sel, func(start, end int64, v []any) {
		// Exports without eventType hold ranges alone.
		kind := nvtxPushPop
		if id, ok := integer(v[0]); ok {
			kind = kinds[id]
		}
		h := model.Host{Start: start, End: end, Lane: r.lane(whole(v[1])), Kind: model.Annotation}
		if s := text(v[2]); s != "" {
			h.Name, h.Seq, h.Kind = r.names.nvtx(s)
		} else {
			h.Name = r.names.of(v[3], rangeName)
		}
		switch kind {
		case nvtxMark:
			h.Kind, h.End = model.Instant, start
			r.addHost(h)
		case nvtxStartEnd:
			if h.End < start {
				h.End = start - 1 // open; closeRanges ends it
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

// overhead reads the profiler's own work. What CUDA does for itself, such as
// loading a module, is listed in the same table but does not come from being
// watched.
func (r *reader) overhead(ctx context.Context, table string, c columns) error {
	own := map[int64]bool{}
	if e, ok := r.table[tOverheadTypes]; ok && e.has("id", "label") {
		err := r.query(ctx, "SELECT "+e.column("id")+", "+e.column("label")+" FROM "+r.from(tOverheadTypes), 2, func(v []any) {
			own[whole(v[0])] = strings.Contains(text(v[1]), "(CUDA)")
		})
		if err != nil {
			return err
		}
	}
	sel := []string{c.column("globalTid"), c.column("nameId"), c.column("overheadType")}
	return r.events(ctx, table, c, "", sel, func(start, end int64, v []any) {
		r.t.Inflated = r.t.Inflated || !own[whole(v[2])]
		r.loose = append(r.loose, model.Host{Start: start, End: r.span(start, end), Kind: model.Overhead,
			Lane: r.lane(whole(v[0])), Name: r.names.of(v[1], plainName)})
	})
}

// threads names the threads that did something.
func (r *reader) threads(ctx context.Context, table string, c columns) error {
	return r.query(ctx, "SELECT "+c.column("globalTid")+", "+c.column("nameId")+" FROM "+r.from(table), 2, func(v []any) {
		global, ok := integer(v[0])
		if lane, seen := r.lanes[global]; ok && seen {
			r.threadNames[lane] = r.names.want(v[1])
		}
	})
}

// processes are the names of threads that have none of their own.
func (r *reader) processes(ctx context.Context, table string, c columns) error {
	return r.query(ctx, "SELECT "+c.column("globalPid")+", "+c.column("name")+" FROM "+r.from(table), 2, func(v []any) {
		pid, _ := pidTid(whole(v[0]))
		r.processNames[pid] = clean(text(v[1]))
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
