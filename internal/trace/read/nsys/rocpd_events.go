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

// rocpdEvent lists the columns that every event has, in the order of readRocpdRows.
var rocpdEvent = [...]string{"pid", "tid", "agent_id", "stream_id", "queue_id"}

// nRocpd is the index of the first of a table's own columns, after rocpdEvent and stack_id.
const nRocpd = len(rocpdEvent) + 1

// readRocpdRows reads a table of events in either layout of times (see the top of rocpd.go). The values v of row are
// the columns rocpdEvent, stack_id, the columns own, category and extdata.
func (r *reader) readRocpdRows(ctx context.Context, p *processTables, table string, c columns, own []string, row func(start, end int64, v []any)) error {
	times := []string{"x." + c.firstColumn("start"), "x." + c.firstColumn("end")}
	from := " FROM " + table + " AS x"
	if !c.hasAll("start", "end") {
		ts := r.table[pdTimestamp+p.suffix]
		if !c.hasAll("start_id", "end_id") || !ts.hasAll("id", "value") {
			r.t.Warn("unknown-schema", fmt.Sprintf("table %s has no times and is left out", strings.Trim(table, `"`)), "record again with: "+rocprofCommand)
			return nil
		}
		name := quoteSQL(pdTimestamp+p.suffix, '"')
		times = []string{"s." + ts.firstColumn("value"), "e." + ts.firstColumn("value")}
		from += " LEFT JOIN " + name + " AS s ON s.id = x.start_id LEFT JOIN " + name + " AS e ON e.id = x.end_id"
	}
	track := r.table[pdTrack+p.suffix]
	if track.hasAll("id") && c.hasAll("track_id") {
		from += " LEFT JOIN " + quoteSQL(pdTrack+p.suffix, '"') + " AS k ON k.id = x.track_id"
	} else {
		track = nil
	}
	event := r.table[pdEvent+p.suffix]
	if event.hasAll("id") && c.hasAll("event_id") {
		from += " LEFT JOIN " + quoteSQL(pdEvent+p.suffix, '"') + " AS v ON v.id = x.event_id"
	} else {
		event = nil
	}
	of := func(alias string, c columns, name string) string {
		if c.hasAll(name) {
			return alias + "." + c.firstColumn(name)
		}
		return "NULL"
	}
	sel := times
	for _, name := range rocpdEvent {
		if c.hasAll(name) {
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
	return r.scanRows(ctx, "SELECT "+joinColumns(sel)+from, len(sel), leastRow, func(v []any) { r.readRow(v, row) })
}

// globalTid packs process and thread of an event into one number, as nsys does (see the package comment).
func (p *processTables) globalTid(v []any) int64 {
	pid, tid := integerOrZero(v[0]), integerOrZero(v[1])
	if n, ok := p.pids[pid]; ok {
		pid = n
	}
	if n, ok := p.tids[tid]; ok {
		tid = n
	}
	return (pid&0xffffff)<<24 | tid&0xffffff
}

// readRocpdRegions reads host events: HIP and HSA calls, and ranges of ROCTx and libraries, which may cross.
func (r *reader) readRocpdRegions(ctx context.Context, p *processTables, table string, c columns) error {
	return r.readRocpdRows(ctx, p, table, c, []string{"name_id"}, func(start, end int64, v []any) {
		h := model.Host{Start: start, End: end, Lane: r.laneOf(p.globalTid(v)), Kind: model.Annotation}
		name, ok := p.strings[integerOrZero(v[nRocpd])]
		if !ok {
			r.names.missing++
			name = fmt.Sprintf("%s %d", unnamedText(rangeName), integerOrZero(v[nRocpd]))
		}
		category := p.strings[integerOrZero(v[nRocpd+1])]
		switch {
		case strings.HasPrefix(category, "HIP_"), strings.HasPrefix(category, "HSA_"), category == "" && (strings.HasPrefix(name, "hip") || strings.HasPrefix(name, "hsa_")):
			h.Kind, h.Corr, h.End = model.API, integerOrZero(v[5]), r.clampEnd(start, end)
			h.Name = r.names.internText(analyze.PlainCall(name))
			r.addHost(h)
			return
		case strings.HasPrefix(category, "MARKER"):
			h.Name, h.Seq, h.Kind = r.names.parseRange(markerText(textOf(v[nRocpd+2]), name))
		default:
			h.Name = r.names.internText(name)
		}
		if h.End < start {
			h.End = start - 1 // open; closeRanges sets its end
		}
		r.loose = append(r.loose, h)
	})
}

// markerText returns the text of a marker, or else the name of its call.
func markerText(extdata, call string) string {
	var more struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal([]byte(extdata), &more); err != nil || more.Message == "" {
		return call
	}
	return more.Message
}

// newRocpdOperation makes a device operation from the columns that all device operations share.
func (r *reader) newRocpdOperation(p *processTables, kind model.Kind, start, end int64, v []any) model.GPU {
	pid, _ := pidTid(p.globalTid(v))
	return model.GPU{Start: start, End: end, Kind: kind, Launch: -1, Stream: integerOrZero(v[3]), Corr: integerOrZero(v[5]), Process: pid}
}

// rocpdDeviceIndex returns the device index of an agent.
func (r *reader) rocpdDeviceIndex(p *processTables, pid int32, id int64) uint16 {
	if a, ok := p.agents[id]; ok {
		id = a.index
	}
	return r.deviceIndex(int64(pid), id)
}

func (r *reader) readRocpdKernels(ctx context.Context, p *processTables, table string, c columns) error {
	own := []string{"kernel_id", "grid_size_x", "grid_size_y", "grid_size_z", "workgroup_size_x", "workgroup_size_y", "workgroup_size_z"}
	streams := false // a program without HIP streams has only stream 0: then the hardware queue replaces it
	first := len(r.t.GPU)
	var queues []int64
	err := r.readRocpdRows(ctx, p, table, c, own, func(start, end int64, v []any) {
		g := r.newRocpdOperation(p, model.Kernel, start, end, v)
		g.Device = r.rocpdDeviceIndex(p, g.Process, integerOrZero(v[2]))
		streams = streams || g.Stream != 0
		if !streams {
			queues = append(queues, integerOrZero(v[4]))
		}
		v = v[nRocpd:]
		name, ok := p.symbols[integerOrZero(v[0])]
		if !ok {
			r.names.missing++
			name = fmt.Sprintf("%s %d", unnamedText(kernelName), integerOrZero(v[0]))
		}
		g.Name = r.names.internText(name)
		g.Blocks, g.Threads = gridSize(v[1:4], v[4:7])
		r.addGPU(g)
	})
	if !streams && len(queues) == len(r.t.GPU)-first {
		for i, q := range queues {
			r.t.GPU[first+i].Stream = q
		}
	}
	return err
}

// gridSize returns the number of work-groups and the work-items per group, 0 unknown. A grid of HSA counts
// work-items.
func gridSize(items, group []any) (blocks int64, threads int32) {
	n, size := 1.0, 1.0
	for i := range items {
		of := integerOrZero(group[i])
		if of <= 0 || integerOrZero(items[i]) <= 0 {
			return 0, 0
		}
		n *= math.Ceil(float64(integerOrZero(items[i])) / float64(of))
		size *= float64(of)
	}
	if n > 1<<53 || size > math.MaxInt32 {
		return 0, 0
	}
	return int64(n), int32(size)
}

func (r *reader) readRocpdCopies(ctx context.Context, p *processTables, table string, c columns) error {
	own := []string{"name_id", "dst_agent_id", "src_agent_id", "size"}
	return r.readRocpdRows(ctx, p, table, c, own, func(start, end int64, v []any) {
		g := r.newRocpdOperation(p, model.Memcpy, start, end, v)
		v = v[nRocpd:]
		to, from := p.agents[integerOrZero(v[1])], p.agents[integerOrZero(v[2])]
		g.Dir = model.DirectionOf(p.strings[integerOrZero(v[0])])
		if g.Dir == model.D2D && to != from && to.gpu && from.gpu {
			g.Dir = model.P2P
		}
		id := integerOrZero(v[1])
		if !to.gpu && from.gpu {
			id = integerOrZero(v[2])
		}
		g.Device = r.rocpdDeviceIndex(p, g.Process, id)
		g.Bytes = max(0, integerOrZero(v[3]))
		g.Name = r.names.internText(analyze.CopyText(g.Dir, "", ""))
		r.addGPU(g)
	})
}
