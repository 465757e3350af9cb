package nsys

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// rocpdEvent are the columns that every event has, in the order in which rocpdRows
// selects them after start and end.
var rocpdEvent = [...]string{"pid", "tid", "agent_id", "stream_id", "queue_id"}

// Where the columns of the event itself begin: after those above and its stack_id.
const nRocpd = len(rocpdEvent) + 1

// rocpdRows runs a query over a table of events, in either layout. own are further
// columns of the table; category and extdata of the event follow them.
func (r *reader) rocpdRows(ctx context.Context, p *part, table string, c columns, own []string, row func(start, end int64, v []any)) error {
	times := []string{"x." + c.column("start"), "x." + c.column("end")}
	from := " FROM " + table + " AS x"
	if !c.has("start", "end") {
		ts := r.table[pdTimestamp+p.suffix]
		if !c.has("start_id", "end_id") || !ts.has("id", "value") {
			r.t.Warn("unknown-schema", fmt.Sprintf("table %s has no times and is left out", strings.Trim(table, `"`)), "record again with: "+rocprof)
			return nil
		}
		name := quote(pdTimestamp+p.suffix, '"')
		times = []string{"s." + ts.column("value"), "e." + ts.column("value")}
		from += " LEFT JOIN " + name + " AS s ON s.id = x.start_id LEFT JOIN " + name + " AS e ON e.id = x.end_id"
	}
	track := r.table[pdTrack+p.suffix]
	if track.has("id") && c.has("track_id") {
		from += " LEFT JOIN " + quote(pdTrack+p.suffix, '"') + " AS k ON k.id = x.track_id"
	} else {
		track = nil
	}
	event := r.table[pdEvent+p.suffix]
	if event.has("id") && c.has("event_id") {
		from += " LEFT JOIN " + quote(pdEvent+p.suffix, '"') + " AS v ON v.id = x.event_id"
	} else {
		event = nil
	}
	of := func(alias string, c columns, name string) string {
		if c.has(name) {
			return alias + "." + c.column(name)
		}
		return "NULL"
	}
	sel := times
	for _, name := range rocpdEvent {
		if c.has(name) {
			sel = append(sel, of("x", c, name))
		} else {
			sel = append(sel, of("k", track, name))
		}
	}
	sel = append(sel, of("v", event, "stack_id"))
	for _, name := range own {
		sel = append(sel, of("x", c, name))
	}
	sel = append(sel, of("v", event, "category_id"), of("v", event, "extdata"))
	return r.scan(ctx, "SELECT "+join(sel)+from, len(sel), leastRow, func(v []any) { r.timed(v, row) })
}

// thread packs the process and thread of an event as nsys does.
func (p *part) thread(v []any) int64 {
	pid, tid := whole(v[0]), whole(v[1])
	if n, ok := p.pids[pid]; ok {
		pid = n
	}
	if n, ok := p.tids[tid]; ok {
		tid = n
	}
	return (pid&0xffffff)<<24 | tid&0xffffff
}

// rocpdRegions reads what the host did: calls of HIP and HSA, and ranges of ROCTx and
// of libraries, which may cross.
func (r *reader) rocpdRegions(ctx context.Context, p *part, table string, c columns) error {
	return r.rocpdRows(ctx, p, table, c, []string{"name_id"}, func(start, end int64, v []any) {
		h := model.Host{Start: start, End: end, Lane: r.lane(p.thread(v)), Kind: model.Annotation}
		name, ok := p.strings[whole(v[nRocpd])]
		if !ok {
			r.names.missing++
			name = fmt.Sprintf("%s %d", unnamed(rangeName), whole(v[nRocpd]))
		}
		category := p.strings[whole(v[nRocpd+1])]
		switch {
		case strings.HasPrefix(category, "HIP_"), strings.HasPrefix(category, "HSA_"), category == "" && (strings.HasPrefix(name, "hip") || strings.HasPrefix(name, "hsa_")):
			h.Kind, h.Corr, h.End = model.API, whole(v[5]), r.span(start, end)
			h.Name = r.names.text(analyze.PlainCall(name))
			r.addHost(h)
			return
		case strings.HasPrefix(category, "MARKER"):
			h.Name, h.Seq, h.Kind = r.names.nvtx(message(text(v[nRocpd+2]), name))
		default:
			h.Name = r.names.text(name)
		}
		if h.End < start {
			h.End = start - 1 // open; closeRanges ends it
		}
		r.loose = append(r.loose, h)
	})
}

// message is the text of a marker, its call's name where there is none.
func message(extdata, call string) string {
	var more struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal([]byte(extdata), &more); err != nil || more.Message == "" {
		return call
	}
	return more.Message
}

// rocpdOperation fills in what operations of a device have in common.
func (r *reader) rocpdOperation(p *part, kind model.Kind, start, end int64, v []any) model.GPU {
	pid, _ := pidTid(p.thread(v))
	return model.GPU{Start: start, End: end, Kind: kind, Launch: -1, Stream: whole(v[3]), Corr: whole(v[5]), Process: pid}
}

// rocpdDevice is the device of an agent.
func (r *reader) rocpdDevice(p *part, pid int32, id int64) uint16 {
	if a, ok := p.agents[id]; ok {
		id = a.index
	}
	return r.device(int64(pid), id)
}

func (r *reader) rocpdKernels(ctx context.Context, p *part, table string, c columns) error {
	own := []string{"kernel_id", "grid_size_x", "grid_size_y", "grid_size_z", "workgroup_size_x", "workgroup_size_y", "workgroup_size_z"}
	streams := false // without the streams of HIP all have the number 0, and the hardware queue tells them apart
	first := len(r.t.GPU)
	var queues []int64
	err := r.rocpdRows(ctx, p, table, c, own, func(start, end int64, v []any) {
		g := r.rocpdOperation(p, model.Kernel, start, end, v)
		g.Device = r.rocpdDevice(p, g.Process, whole(v[2]))
		streams = streams || g.Stream != 0
		if !streams {
			queues = append(queues, whole(v[4]))
		}
		v = v[nRocpd:]
		name, ok := p.symbols[whole(v[0])]
		if !ok {
			r.names.missing++
			name = fmt.Sprintf("%s %d", unnamed(kernelName), whole(v[0]))
		}
		g.Name = r.names.text(name)
		g.Blocks, g.Threads = grid(v[1:4], v[4:7])
		r.addGPU(g)
	})
	if !streams && len(queues) == len(r.t.GPU)-first {
		for i, q := range queues {
			r.t.GPU[first+i].Stream = q
		}
	}
	return err
}

// grid is the number of groups and of work-items in one; the grid of HSA counts
// work-items. 0 unknown.
func grid(items, group []any) (blocks int64, threads int32) {
	n, size := 1.0, 1.0
	for i := range items {
		of := whole(group[i])
		if of <= 0 || whole(items[i]) <= 0 {
			return 0, 0
		}
		n *= math.Ceil(float64(whole(items[i])) / float64(of))
		size *= float64(of)
	}
	if n > 1<<53 || size > math.MaxInt32 {
		return 0, 0
	}
	return int64(n), int32(size)
}

func (r *reader) rocpdCopies(ctx context.Context, p *part, table string, c columns) error {
	own := []string{"name_id", "dst_agent_id", "src_agent_id", "size"}
	return r.rocpdRows(ctx, p, table, c, own, func(start, end int64, v []any) {
		g := r.rocpdOperation(p, model.Memcpy, start, end, v)
		v = v[nRocpd:]
		to, from := p.agents[whole(v[1])], p.agents[whole(v[2])]
		g.Dir = model.DirectionOf(p.strings[whole(v[0])])
		if g.Dir == model.D2D && to != from && to.gpu && from.gpu {
			g.Dir = model.P2P
		}
		id := whole(v[1])
		if !to.gpu && from.gpu {
			id = whole(v[2])
		}
		g.Device = r.rocpdDevice(p, g.Process, id)
		g.Bytes = max(0, whole(v[3]))
		g.Name = r.names.text(analyze.CopyText(g.Dir, "", ""))
		r.addGPU(g)
	})
}
