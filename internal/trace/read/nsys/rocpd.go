package nsys

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// A rocpd database is what rocprofv3 of ROCm 7 writes. The tables of one process share
// a suffix, its UUID; a merged database has several sets of them, and ids count in each
// set. Views without a suffix join them, and are not read. There are two layouts: events
// with their start and end (schema 3), or with ids of rows of rocpd_timestamp and
// rocpd_track (later). The schema is source/share/rocprofiler-sdk-rocpd of
// ROCm/rocprofiler-sdk.
//
// An operation and its call share the stack_id of their events. Times are nanoseconds.

// The tables that are read, without their suffix.
const (
	pdString    = "rocpd_string"
	pdNode      = "rocpd_info_node"
	pdProcess   = "rocpd_info_process"
	pdThread    = "rocpd_info_thread"
	pdAgent     = "rocpd_info_agent"
	pdSymbol    = "rocpd_info_kernel_symbol"
	pdTrack     = "rocpd_track"
	pdTimestamp = "rocpd_timestamp"
	pdEvent     = "rocpd_event"
	pdRegion    = "rocpd_region"
	pdKernel    = "rocpd_kernel_dispatch"
	pdCopy      = "rocpd_memory_copy"
)

// rocprof is the command that makes a database with all that is read here.
const rocprof = "rocprofv3 --runtime-trace --output-format rocpd -- python train.py"

// rocpdTable takes a table's name apart: which of those above, and the suffix.
func rocpdTable(name string) (base, suffix string, ok bool) {
	for _, base := range []string{pdString, pdNode, pdProcess, pdThread, pdAgent, pdSymbol, pdTrack, pdTimestamp, pdEvent, pdRegion, pdKernel, pdCopy} {
		if suffix, ok := strings.CutPrefix(name, base); ok && (suffix == "" || suffix[0] == '_') {
			return base, suffix, true
		}
	}
	return "", "", false
}

// part is what one process recorded: the tables with its suffix, and what its ids mean.
type part struct {
	suffix  string
	strings map[int64]string
	symbols map[int64]string
	pids    map[int64]int64
	tids    map[int64]int64
	agents  map[int64]agent
}

type agent struct {
	gpu   bool
	index int64 // among the GPUs of the machine
}

// rocpdParts are the sets of tables that have events, in the order of their suffixes;
// an error where there is none that is known.
func (r *reader) rocpdParts() ([]*part, error) {
	sets := map[string]*part{}
	for name, c := range r.table {
		base, suffix, ok := rocpdTable(name)
		if !ok || base != pdKernel && base != pdCopy && base != pdRegion {
			continue
		}
		spine := c.has("start_id", "end_id") && r.table[pdTimestamp+suffix].has("id", "value")
		if c.has("start", "end") || spine {
			sets[suffix] = &part{suffix: suffix, strings: map[int64]string{}, symbols: map[int64]string{}, pids: map[int64]int64{},
				tids: map[int64]int64{}, agents: map[int64]agent{}}
		}
	}
	if len(sets) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: this is a rocpd database of a schema that is not known (no table %s, %s or %s with times)", r.path, pdKernel, pdCopy, pdRegion).
			WithFix("record with rocprofv3 of ROCm 7 (%s), or with torch.profiler (docs/analyze.md)", rocprof)
	}
	return slices.SortedFunc(maps.Values(sets), func(a, b *part) int { return cmp.Compare(a.suffix, b.suffix) }), nil
}

// rocpdTables reads a rocpd database.
func (r *reader) rocpdTables(ctx context.Context) error {
	r.t.Format = model.Rocpd
	parts, err := r.rocpdParts()
	if err != nil {
		return err
	}
	r.incomplete("copy the file again")
	machines := map[string]bool{}
	for _, p := range parts {
		for _, step := range []struct {
			table string
			read  func(context.Context, *part, string, columns) error
		}{
			{pdNode, func(ctx context.Context, _ *part, table string, c columns) error {
				return r.query(ctx, "SELECT "+c.column("machine_id", "hash")+" FROM "+table, 1, func(v []any) { machines[fmt.Sprint(v[0])] = true })
			}},
			{pdString, r.rocpdNames(func(p *part) map[int64]string { return p.strings }, "string")},
			{pdSymbol, r.rocpdNames(func(p *part) map[int64]string { return p.symbols }, "display_name", "kernel_name")},
			{pdProcess, r.rocpdIDs(func(p *part) map[int64]int64 { return p.pids }, "pid")},
			{pdThread, r.rocpdIDs(func(p *part) map[int64]int64 { return p.tids }, "tid")},
			{pdAgent, r.rocpdAgents}, {pdRegion, r.rocpdRegions}, {pdKernel, r.rocpdKernels}, {pdCopy, r.rocpdCopies},
		} {
			table := step.table + p.suffix
			read := func(cols columns) error { return step.read(ctx, p, quote(table, '"'), cols) }
			if err := r.each(ctx, table, "copy the file again", read); err != nil {
				return err
			}
		}
		// GPUs of two machines have the same numbers.
		if len(machines) > 1 {
			return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: the database holds recordings of several machines", r.path).WithFix("give the databases of the machines as they were before they were merged")
		}
	}
	return nil
}

// rocpdNames reads a table of texts by id; of several columns the first with a text.
func (r *reader) rocpdNames(into func(*part) map[int64]string, from ...string) func(context.Context, *part, string, columns) error {
	return func(ctx context.Context, p *part, table string, c columns) error {
		sel := []string{c.column("id")}
		for _, name := range from {
			sel = append(sel, c.column(name))
		}
		m := into(p)
		return r.query(ctx, "SELECT "+join(sel)+" FROM "+table, len(sel), func(v []any) {
			id, ok := integer(v[0])
			if !ok || r.room.Over(r.used()) {
				return
			}
			for _, x := range v[1:] {
				if s := strings.TrimSuffix(clean(text(x)), ".kd"); s != "" {
					m[id] = s
					r.names.bytes += foundBytes + int64(len(s))
					return
				}
			}
		})
	}
}

// rocpdIDs reads the system's number of a process or thread by its row.
func (r *reader) rocpdIDs(into func(*part) map[int64]int64, name string) func(context.Context, *part, string, columns) error {
	return func(ctx context.Context, p *part, table string, c columns) error {
		m := into(p)
		return r.query(ctx, "SELECT "+c.column("id")+", "+c.column(name)+" FROM "+table, 2, func(v []any) {
			id, ok1 := integer(v[0])
			n, ok2 := integer(v[1])
			if ok1 && ok2 && !r.room.Over(r.used()) {
				m[id] = n
				r.names.bytes += foundBytes
			}
		})
	}
}

// rocpdAgents reads the processors: GPUs by their number among the GPUs.
func (r *reader) rocpdAgents(ctx context.Context, p *part, table string, c columns) error {
	sel := []string{c.column("id"), c.column("type"), c.column("type_index", "logical_index"), c.column("product_name"), c.column("model_name"), c.column("name"), c.column("extdata")}
	return r.query(ctx, "SELECT "+join(sel)+" FROM "+table, len(sel), func(v []any) {
		id, ok := integer(v[0])
		if !ok || len(p.agents) >= maxDevices {
			return
		}
		a := agent{gpu: text(v[1]) == "GPU", index: id}
		if n, ok := integer(v[2]); ok {
			a.index = n
		}
		p.agents[id] = a
		if !a.gpu {
			return
		}
		var more struct {
			CUs int `json:"cu_count"`
		}
		d := r.known[a.index]
		if err := json.Unmarshal([]byte(text(v[6])), &more); err == nil && more.CUs > 0 && more.CUs < 1<<20 {
			d.SMs = more.CUs
		}
		d.Name = cmp.Or(clean(text(v[3])), clean(text(v[4])), clean(text(v[5])), d.Name)
		r.known[a.index] = d
	})
}
